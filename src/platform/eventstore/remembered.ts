import { objectText } from './json-text.ts'
import {
  emptyPacked,
  findPacked,
  hashOf,
  oldestPacked,
  type Packed,
  type PackedFact,
  packedTexts,
  withoutOldestPacked,
  withPacked,
} from './packed.ts'

/**
 * What happened under an id, kept for seven days of event time (docs/decisions/0003-command-runner.md); older ids are
 * guarded by permanent streams. An immutable value: the newest are a short list, all before them are packed, for a busy
 * wallet remembers hundreds of thousands. Values are JSON values.
 */
export type Remembered<Value> = {
  /** Older than all of `recent`. */
  readonly packed: Packed
  readonly recent: Recent<Value>
  /** When the oldest one happened, so that an event after which none is too old looks at nothing else. */
  readonly oldestMs: number
  /** When the newest forgotten one happened; what is newer than that is remembered for certain. -1: nothing forgotten. */
  readonly forgottenMs: number
}

type Fact<Value> = { readonly id: string; readonly atMs: number; readonly value: Value }

/**
 * The facts of the places `from` up to, not including, `to`, oldest first. As in `Packed`, what stands at a place never
 * changes and only the end grows, so a value stays what it is.
 */
type Recent<Value> = { readonly store: RecentStore<Value>; readonly from: number; readonly to: number }

/** The hashes lie side by side: a search for an id touches a few lines of memory instead of each fact and its id. */
type RecentStore<Value> = { readonly facts: Fact<Value>[]; readonly hashes: number[] }

export const rememberedMs = 7 * 24 * 60 * 60 * 1000

/** An event adds at most one id, so that dropping two an event bounds both the work and what is kept. */
const droppedPerEvent = 2
/** Ids are packed this many at a time: it takes less time each, and the many plans and wallets of few orders need no store. */
const packedAtOnce = 32

const noneRecent = <Value>(): Recent<Value> => ({ store: { facts: [], hashes: [] }, from: 0, to: 0 })

export const emptyRemembered = <Value>(): Remembered<Value> => ({
  packed: emptyPacked,
  recent: noneRecent(),
  oldestMs: Number.POSITIVE_INFINITY,
  forgottenMs: -1,
})

const countOf = ({ from, to }: Recent<unknown>): number => to - from

/** How many ids are remembered. */
export const rememberedCount = ({ packed, recent }: Remembered<unknown>): number =>
  packed.count + countOf(recent)

const find = <Value>({ packed, recent }: Remembered<Value>, id: string, hash: number): Value | undefined => {
  const { store, from, to } = recent
  for (let at = to - 1; at >= from; at -= 1)
    if (store.hashes[at] === hash && store.facts[at]!.id === id) return store.facts[at]!.value
  return findPacked(packed, id, hash)?.[2] as Value | undefined
}

export const recall = <Value>(remembered: Remembered<Value>, id: string): Value | undefined =>
  find(remembered, id, hashOf(id))

const factsOf = <Value>({ store, from, to }: Recent<Value>): PackedFact[] =>
  store.facts.slice(from, to).map(({ id, atMs, value }) => [id, atMs, value])

/**
 * With one more. The second value that grows out of the same one gets a store of its own. So does a value that has
 * forgotten much, whose store would otherwise grow for ever.
 */
const added = <Value>({ store, from, to }: Recent<Value>, fact: Fact<Value>, hash: number): Recent<Value> => {
  if (to < store.facts.length || from >= packedAtOnce) {
    const own = { facts: store.facts.slice(from, to), hashes: store.hashes.slice(from, to) }
    return added({ store: own, from: 0, to: to - from }, fact, hash)
  }
  store.facts.push(fact)
  store.hashes.push(hash)
  return { store, from, to: to + 1 }
}

/** @throws when the id is there already: an event that happens once happened twice. */
export const remember = <Value>(
  remembered: Remembered<Value>,
  id: string,
  value: Value,
  atMs: number,
): Remembered<Value> => {
  const hash = hashOf(id)
  if (find(remembered, id, hash) !== undefined) throw new Error(`${id} happened twice`)
  const { packed, forgottenMs } = remembered
  const oldestMs = rememberedCount(remembered) === 0 ? atMs : remembered.oldestMs
  const recent = added(remembered.recent, { id, atMs, value }, hash)
  return countOf(recent) < packedAtOnce
    ? { packed, recent, oldestMs, forgottenMs }
    : { packed: withPacked(packed, factsOf(recent)), recent: noneRecent(), oldestMs, forgottenMs }
}

const withoutOldest = <Value>({ packed, recent, oldestMs }: Remembered<Value>): Remembered<Value> => {
  const left =
    packed.count > 0
      ? { packed: withoutOldestPacked(packed), recent }
      : { packed, recent: { ...recent, from: recent.from + 1 } }
  const { store, from, to } = left.recent
  const oldestRecent = from < to ? store.facts[from] : undefined
  const next = oldestPacked(left.packed)?.[1] ?? oldestRecent?.atMs ?? Number.POSITIVE_INFINITY
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
  recent: noneRecent(),
  oldestMs: entries[0]?.[1] ?? Number.POSITIVE_INFINITY,
  forgottenMs,
})
