import { joinJsonMembers } from './json-text.ts'

/**
 * Many small entries with ids, packed into bytes. As objects of a persistent map they took a kilobyte each, all of
 * which the garbage collector must traverse. Packed, an entry takes its text and 20 to 28 bytes, which the garbage
 * collector ignores.
 *
 * A value of this type is immutable: it refers to ranges of a store, and a store only grows at its end. If two values
 * are derived from the same one, each gets its own range of the store, so both remain unchanged.
 */
export type Packed = {
  readonly store: Store
  /** Oldest first. No range is empty. */
  readonly stretches: readonly Stretch[]
  readonly count: number
}

/** The id of an entry, its time (milliseconds), and its JSON value. */
export type PackedEntry = readonly [id: string, atMs: number, value: unknown]

/** The indexes from `from` up to, not including, `to`. */
type Stretch = { readonly from: number; readonly to: number }

/** Entries by index: 0, 1, 2 … The entry at an index never changes. */
type Store = {
  /** Number of entries. The length of `ends` and `hashes` is the capacity. */
  used: number
  /** Each entry as JSON and a comma. */
  readonly texts: Buffer
  /** The end of each text, which is the start of the next one. Integers as floats, because they may exceed 32 bits. */
  readonly ends: Float64Array
  readonly hashes: Int32Array
  /**
   * A hash table with open addressing. A cell is an index plus one, or 0. At least twice the capacity, a power of two.
   */
  readonly cells: Uint32Array
}

/** A value with this many ranges is copied into one range before entries are added. */
const maxStretches = 8

const createStore = (maxEntries: number, bytes: number): Store => ({
  used: 0,
  texts: Buffer.allocUnsafeSlow(bytes),
  ends: new Float64Array(maxEntries),
  hashes: new Int32Array(maxEntries),
  cells: new Uint32Array(2 ** Math.ceil(Math.log2(2 * maxEntries))),
})

export const emptyPacked: Packed = { store: createStore(0, 0), stretches: [], count: 0 }

/** FNV-1a over code units, 32 bits, signed. Lookups also compare the ids, so collisions are harmless. */
export const hashOf = (id: string): number => {
  let hash = 0x811c9dc5 | 0
  for (let at = 0; at < id.length; at += 1) hash = Math.imul(hash ^ id.charCodeAt(at), 0x01000193)
  return hash
}

const startOf = ({ ends }: Store, position: number): number => (position === 0 ? 0 : ends[position - 1]!)

const writeEntry = (store: Store, hash: number, end: number): void => {
  const position = store.used
  store.hashes[position] = hash
  store.ends[position] = end
  const mask = store.cells.length - 1
  let cell = hash & mask
  while (store.cells[cell] !== 0) cell = (cell + 1) & mask
  store.cells[cell] = position + 1
  store.used += 1
}

const textOf = (store: Store, { from, to }: Stretch): string => {
  const withoutLastComma = store.ends[to - 1]! - 1
  return store.texts.toString('utf8', startOf(store, from), withoutLastComma)
}

const factAt = (store: Store, position: number): PackedEntry =>
  JSON.parse(textOf(store, { from: position, to: position + 1 }))

/** All entries as JSON texts, oldest first. Each text is the entries of one range, separated by commas. */
export const packedTexts = ({ store, stretches }: Packed): string[] =>
  stretches.map((stretch) => textOf(store, stretch))

/** @param hash `hashOf(id)` */
export const findPacked = (
  { store, stretches, count }: Packed,
  id: string,
  hash: number,
): PackedEntry | undefined => {
  if (count === 0) return undefined
  const mask = store.cells.length - 1
  for (let cell = hash & mask; store.cells[cell] !== 0; cell = (cell + 1) & mask) {
    const position = store.cells[cell]! - 1
    if (store.hashes[position] !== hash) continue
    if (!stretches.some(({ from, to }) => from <= position && position < to)) continue
    const fact = factAt(store, position)
    if (fact[0] === id) return fact
  }
  return undefined
}

/** Copies the entries into a new store, with capacity for the new entries and for half as many again. */
const copied = ({ store, stretches, count }: Packed, facts: number, bytes: number): Packed => {
  const taken = stretches.reduce((sum, { from, to }) => sum + store.ends[to - 1]! - startOf(store, from), 0)
  const copy = createStore(Math.ceil(1.5 * (count + facts)), Math.ceil(1.5 * (taken + bytes)))
  let end = 0
  for (const { from, to } of stretches) {
    const start = startOf(store, from)
    store.texts.copy(copy.texts, end, start, store.ends[to - 1])
    for (let position = from; position < to; position += 1)
      writeEntry(copy, store.hashes[position]!, end + store.ends[position]! - start)
    end += store.ends[to - 1]! - start
  }
  return { store: copy, stretches: count === 0 ? [] : [{ from: 0, to: count }], count }
}

/** Adds these entries as the newest, oldest first. Their ids must be new. */
export const withPacked = (before: Packed, facts: readonly PackedEntry[]): Packed => {
  const texts = facts.map((fact) => `${JSON.stringify(fact)},`)
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0)
  const hasRoom = ({ store }: Packed): boolean =>
    store.used + facts.length <= store.ends.length && startOf(store, store.used) + bytes <= store.texts.length
  const fits = before.stretches.length < maxStretches && hasRoom(before)
  const { store, stretches, count } = fits ? before : copied(before, facts.length, bytes)
  const from = store.used
  for (const [index, text] of texts.entries()) {
    const start = startOf(store, store.used)
    writeEntry(store, hashOf(facts[index]![0]), start + store.texts.write(text, start, 'utf8'))
  }
  const last = stretches.at(-1)
  const lengthened =
    last?.to === from
      ? stretches.with(-1, { from: last.from, to: store.used })
      : [...stretches, { from, to: store.used }]
  return { store, stretches: lengthened, count: count + facts.length }
}

export const oldestPacked = ({ store, stretches }: Packed): PackedEntry | undefined => {
  const first = stretches[0]
  return first && factAt(store, first.from)
}

/** The value without its oldest entry. */
export const withoutOldestPacked = ({ store, stretches, count }: Packed): Packed => {
  const [first, ...others] = stretches
  if (first === undefined || count === 1) return emptyPacked
  const rest = { from: first.from + 1, to: first.to }
  return { store, stretches: rest.from === rest.to ? others : [rest, ...others], count: count - 1 }
}

/**
 * Results by id, stored for seven days of event time (docs/decisions/0006). Permanent streams protect against the
 * reuse of older ids. An immutable value: the newest entries are a short list, all others are packed,
 * because a busy wallet has hundreds of thousands of them. Values are JSON values.
 */
export type Remembered<Value> = {
  /** Older than all of `recent`. */
  readonly packed: Packed
  readonly recent: Recent<Value>
  /** Time of the oldest entry, milliseconds: a fast check whether any entry is expired. */
  readonly oldestMs: number
  /** Time of the newest expired entry, milliseconds. All later entries are still stored. -1: no entry has expired. */
  readonly forgottenMs: number
}

type Fact<Value> = { readonly id: string; readonly atMs: number; readonly value: Value }

/**
 * The entries at the indexes from `from` up to, not including, `to`, oldest first. As in `Packed`, the entry at an
 * index never changes and a store only grows at its end, so a value is immutable.
 */
type Recent<Value> = { readonly store: RecentStore<Value>; readonly from: number; readonly to: number }

/** The hashes are contiguous, so a search reads a few cache lines instead of each entry and its id. */
type RecentStore<Value> = { readonly facts: Fact<Value>[]; readonly hashes: number[] }

export const rememberedMs = 7 * 24 * 60 * 60 * 1000

/** An event adds at most one id. Dropping at most two per event limits the work per event and the number of entries. */
const droppedPerEvent = 2
/** Number of ids packed at once. It saves time per id, and the many plans and wallets with few orders need no store. */
const packedAtOnce = 32

const noneRecent = <Value>(): Recent<Value> => ({ store: { facts: [], hashes: [] }, from: 0, to: 0 })

export const emptyRemembered = <Value>(): Remembered<Value> => ({
  packed: emptyPacked,
  recent: noneRecent(),
  oldestMs: Number.POSITIVE_INFINITY,
  forgottenMs: -1,
})

const countOf = ({ from, to }: Recent<unknown>): number => to - from

/** Number of stored ids. */
export const rememberedCount = ({ packed, recent }: Remembered<unknown>): number =>
  packed.count + countOf(recent)

const find = <Value>({ packed, recent }: Remembered<Value>, id: string, hash: number): Value | undefined => {
  const { store, from, to } = recent
  for (let at = to - 1; at >= from; at -= 1)
    if (store.hashes[at] === hash && store.facts[at]!.id === id) return store.facts[at]!.value
  return findPacked(packed, id, hash)?.[2] as Value | undefined
}

export const findRemembered = <Value>(remembered: Remembered<Value>, id: string): Value | undefined =>
  find(remembered, id, hashOf(id))

const factsOf = <Value>({ store, from, to }: Recent<Value>): PackedEntry[] =>
  store.facts.slice(from, to).map(({ id, atMs, value }) => [id, atMs, value])

/**
 * Adds an entry. If another value was already derived from the same one, the result gets a new store. So does a value
 * with many expired entries, whose store would otherwise grow without limit.
 */
const added = <Value>({ store, from, to }: Recent<Value>, fact: Fact<Value>, hash: number): Recent<Value> => {
  if (to < store.facts.length || from >= packedAtOnce) {
    const ownStore = { facts: store.facts.slice(from, to), hashes: store.hashes.slice(from, to) }
    return added({ store: ownStore, from: 0, to: to - from }, fact, hash)
  }
  store.facts.push(fact)
  store.hashes.push(hash)
  return { store, from, to: to + 1 }
}

/**
 * Adds an entry.
 * @param atMs milliseconds
 * @throws Error if the id exists: an event that may occur only once occurred twice
 */
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
  const remaining =
    packed.count > 0
      ? { packed: withoutOldestPacked(packed), recent }
      : { packed, recent: { ...recent, from: recent.from + 1 } }
  const { store, from, to } = remaining.recent
  const oldestRecent = from < to ? store.facts[from] : undefined
  const next = oldestPacked(remaining.packed)?.[1] ?? oldestRecent?.atMs ?? Number.POSITIVE_INFINITY
  return { ...remaining, oldestMs: next, forgottenMs: oldestMs }
}

/** Removes the oldest entries from more than seven days before `nowMs` (milliseconds), at most two of them. */
export const dropExpired = <Value>(remembered: Remembered<Value>, nowMs: number): Remembered<Value> => {
  let remaining = remembered
  for (let dropped = 0; dropped < droppedPerEvent && nowMs - remaining.oldestMs > rememberedMs; dropped += 1)
    remaining = withoutOldest(remaining)
  return remaining
}

/** Whether an entry with the time `atMs` (milliseconds) would still be stored. */
export const remembersSince = (remembered: Remembered<unknown>, atMs: number): boolean =>
  atMs > remembered.forgottenMs

export type RememberedJson<Value> = {
  readonly entries: readonly (readonly [id: string, atMs: number, value: Value])[]
  readonly forgottenMs: number
}

/** JSON text of a `RememberedJson`. Packed entries are JSON text already: 300,000 entries are 40 MB. */
export const rememberedText = ({ packed, recent, forgottenMs }: Remembered<unknown>): string => {
  const facts = [...packedTexts(packed), ...factsOf(recent).map((fact) => JSON.stringify(fact))]
  return joinJsonMembers({ forgottenMs }, { entries: `[${facts.join(',')}]` })
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
