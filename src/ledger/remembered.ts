import { objectText } from '../eventstore/json-text.ts'
import {
  emptyPacked,
  findPacked,
  oldestPacked,
  type Packed,
  type PackedFact,
  packedTexts,
  withoutOldestPacked,
  withPacked,
} from './packed.ts'

/**
 * What happened under an id, kept for seven days of event time (design section 3: "Folds stay bounded"); older ids are
 * guarded by permanent streams. An immutable value: the newest are a short list, all before them are packed, for a busy
 * wallet remembers hundreds of thousands. Values are JSON values.
 */
export type Remembered<Value> = {
  /** Older than all of `recent`. */
  readonly packed: Packed
  readonly recent: Recent<Value> | null
  /** When the oldest one happened, so that an event after which none is too old looks at nothing else. */
  readonly oldestMs: number
  /** When the newest forgotten one happened; what is newer than that is remembered for certain. -1: nothing forgotten. */
  readonly forgottenMs: number
}

/** A list, newest first, that shares all but its head with the one before it. */
type Recent<Value> = {
  readonly id: string
  readonly atMs: number
  readonly value: Value
  readonly older: Recent<Value> | null
  /** With those before it. */
  readonly count: number
}

export const rememberedMs = 7 * 24 * 60 * 60 * 1000

/** An event adds at most one id, so that dropping two an event bounds both the work and what is kept. */
const droppedPerEvent = 2
/** So many at once are packed: the many plans and wallets of a few orders need no store, and it takes less time each. */
const packedAtOnce = 32

export const emptyRemembered = <Value>(): Remembered<Value> => ({
  packed: emptyPacked,
  recent: null,
  oldestMs: Number.POSITIVE_INFINITY,
  forgottenMs: -1,
})

/** How many ids are remembered. */
export const rememberedCount = ({ packed, recent }: Remembered<unknown>): number =>
  packed.count + (recent?.count ?? 0)

export const recall = <Value>({ packed, recent }: Remembered<Value>, id: string): Value | undefined => {
  for (let at = recent; at !== null; at = at.older) if (at.id === id) return at.value
  return findPacked(packed, id)?.[2] as Value | undefined
}

/** Oldest first. */
const factsOf = <Value>(recent: Recent<Value> | null): PackedFact[] => {
  const facts: PackedFact[] = []
  for (let at = recent; at !== null; at = at.older) facts.push([at.id, at.atMs, at.value])
  return facts.reverse()
}

/** @throws when the id is there already: an event that happens once happened twice. */
export const remember = <Value>(
  remembered: Remembered<Value>,
  id: string,
  value: Value,
  atMs: number,
): Remembered<Value> => {
  if (recall(remembered, id) !== undefined) throw new Error(`${id} happened twice`)
  const { packed, recent, oldestMs, forgottenMs } = remembered
  const added = { id, atMs, value, older: recent, count: (recent?.count ?? 0) + 1 }
  const since = rememberedCount(remembered) === 0 ? atMs : oldestMs
  return added.count < packedAtOnce
    ? { packed, recent: added, oldestMs: since, forgottenMs }
    : { packed: withPacked(packed, factsOf(added)), recent: null, oldestMs: since, forgottenMs }
}

const withoutOldestOf = <Value>(recent: Recent<Value>): Recent<Value> | null =>
  recent.older === null ? null : { ...recent, older: withoutOldestOf(recent.older), count: recent.count - 1 }

const oldestOf = (recent: Recent<unknown>): number =>
  recent.older === null ? recent.atMs : oldestOf(recent.older)

const withoutOldest = <Value>({ packed, recent, oldestMs }: Remembered<Value>): Remembered<Value> => {
  const left =
    packed.count > 0
      ? { packed: withoutOldestPacked(packed), recent }
      : { packed, recent: recent && withoutOldestOf(recent) }
  const next =
    oldestPacked(left.packed)?.[1] ?? (left.recent ? oldestOf(left.recent) : Number.POSITIVE_INFINITY)
  return { ...left, oldestMs: next, forgottenMs: oldestMs }
}

/** Drops the oldest, at most two of them, that happened more than seven days before `nowMs`. */
export const forget = <Value>(remembered: Remembered<Value>, nowMs: number): Remembered<Value> => {
  let left = remembered
  for (let dropped = 0; dropped < droppedPerEvent && nowMs - left.oldestMs > rememberedMs; dropped += 1)
    left = withoutOldest(left)
  return left
}

/** Whether something that happened at `atMs` would still be remembered. */
export const remembersSince = (remembered: Remembered<unknown>, atMs: number): boolean =>
  atMs > remembered.forgottenMs

export type RememberedJson<Value> = {
  readonly entries: readonly (readonly [id: string, atMs: number, value: Value])[]
  readonly forgottenMs: number
}

/** JSON text of a `RememberedJson`. What is packed is that text already: 300,000 facts are 40 MB of it. */
export const rememberedText = ({ packed, recent, forgottenMs }: Remembered<unknown>): string => {
  const facts = [...packedTexts(packed), ...factsOf(recent).map((fact) => JSON.stringify(fact))]
  return objectText({ forgottenMs }, { entries: `[${facts.join(',')}]` })
}

export const rememberedFromJson = <Value>({
  entries,
  forgottenMs,
}: RememberedJson<Value>): Remembered<Value> => ({
  packed: entries.length === 0 ? emptyPacked : withPacked(emptyPacked, entries),
  recent: null,
  oldestMs: entries[0]?.[1] ?? Number.POSITIVE_INFINITY,
  forgottenMs,
})
