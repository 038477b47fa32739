/**
 * Many small facts under ids, packed into bytes. As objects of a persistent map they took a kilobyte each, all of which the
 * garbage collector walks over; here it is the text and 20 to 28 bytes, of which it sees nothing.
 *
 * A value of this type is immutable: it names stretches of a store, and a store only grows at its end. When two values
 * grow out of the same one, each gets a stretch of its own there, so both stay what they are.
 */
export type Packed = {
  readonly store: Store
  /** Oldest first; none is empty. */
  readonly stretches: readonly Stretch[]
  readonly count: number
}

/** The id of a fact, when it happened, and what it says: a JSON value. */
export type PackedFact = readonly [id: string, atMs: number, value: unknown]

/** The places `from` up to, not including, `to`. */
type Stretch = { readonly from: number; readonly to: number }

/** Facts by their place, 0, 1, 2 …; what stands at a place never changes. */
type Store = {
  /** How many of its places hold a fact; `ends` and `hashes` have as many as there are. */
  used: number
  /** Each fact as JSON and a comma. */
  readonly texts: Buffer
  /** Where the text of a place ends; that of the next one begins there. Whole numbers: texts may exceed 32 bits. */
  readonly ends: Float64Array
  readonly hashes: Int32Array
  /** A hash table with open addressing: a place plus one, or 0. Twice as many cells as places, a power of two. */
  readonly cells: Uint32Array
}

/** A value of more stretches is copied into one. */
const maxStretches = 8

const createStore = (places: number, bytes: number): Store => ({
  used: 0,
  texts: Buffer.allocUnsafeSlow(bytes),
  ends: new Float64Array(places),
  hashes: new Int32Array(places),
  cells: new Uint32Array(2 ** Math.ceil(Math.log2(2 * places))),
})

export const emptyPacked: Packed = { store: createStore(0, 0), stretches: [], count: 0 }

/** FNV-1a, 32 bits with a sign, over code units; only a hint, ids are compared. */
export const hashOf = (id: string): number => {
  let hash = 0x811c9dc5 | 0
  for (let at = 0; at < id.length; at += 1) hash = Math.imul(hash ^ id.charCodeAt(at), 0x01000193)
  return hash
}

const startOf = ({ ends }: Store, place: number): number => (place === 0 ? 0 : ends[place - 1]!)

const put = (store: Store, hash: number, end: number): void => {
  const place = store.used
  store.hashes[place] = hash
  store.ends[place] = end
  const mask = store.cells.length - 1
  let cell = hash & mask
  while (store.cells[cell] !== 0) cell = (cell + 1) & mask
  store.cells[cell] = place + 1
  store.used += 1
}

const textOf = (store: Store, { from, to }: Stretch): string => {
  const withoutLastComma = store.ends[to - 1]! - 1
  return store.texts.toString('utf8', startOf(store, from), withoutLastComma)
}

const factAt = (store: Store, place: number): PackedFact =>
  JSON.parse(textOf(store, { from: place, to: place + 1 }))

/** All facts as JSON texts, several in each with commas between, oldest first. */
export const packedTexts = ({ store, stretches }: Packed): string[] =>
  stretches.map((stretch) => textOf(store, stretch))

/** @param hash of the id, `hashOf` */
export const findPacked = (
  { store, stretches, count }: Packed,
  id: string,
  hash: number,
): PackedFact | undefined => {
  if (count === 0) return undefined
  const mask = store.cells.length - 1
  for (let cell = hash & mask; store.cells[cell] !== 0; cell = (cell + 1) & mask) {
    const place = store.cells[cell]! - 1
    if (store.hashes[place] !== hash) continue
    if (!stretches.some(({ from, to }) => from <= place && place < to)) continue
    const fact = factAt(store, place)
    if (fact[0] === id) return fact
  }
  return undefined
}

/** The same facts in a store of their own, with room for what is to come and for half as much again. */
const copied = ({ store, stretches, count }: Packed, facts: number, bytes: number): Packed => {
  const taken = stretches.reduce((sum, { from, to }) => sum + store.ends[to - 1]! - startOf(store, from), 0)
  const copy = createStore(Math.ceil(1.5 * (count + facts)), Math.ceil(1.5 * (taken + bytes)))
  let end = 0
  for (const { from, to } of stretches) {
    const start = startOf(store, from)
    store.texts.copy(copy.texts, end, start, store.ends[to - 1])
    for (let place = from; place < to; place += 1)
      put(copy, store.hashes[place]!, end + store.ends[place]! - start)
    end += store.ends[to - 1]! - start
  }
  return { store: copy, stretches: count === 0 ? [] : [{ from: 0, to: count }], count }
}

/** With these facts as the newest, oldest first; their ids are new. */
export const withPacked = (before: Packed, facts: readonly PackedFact[]): Packed => {
  const texts = facts.map((fact) => `${JSON.stringify(fact)},`)
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0)
  const hasRoom = ({ store }: Packed): boolean =>
    store.used + facts.length <= store.ends.length && startOf(store, store.used) + bytes <= store.texts.length
  const fits = before.stretches.length < maxStretches && hasRoom(before)
  const { store, stretches, count } = fits ? before : copied(before, facts.length, bytes)
  const from = store.used
  for (const [index, text] of texts.entries()) {
    const start = startOf(store, store.used)
    put(store, hashOf(facts[index]![0]), start + store.texts.write(text, start, 'utf8'))
  }
  const last = stretches.at(-1)
  const lengthened =
    last?.to === from
      ? stretches.with(-1, { from: last.from, to: store.used })
      : [...stretches, { from, to: store.used }]
  return { store, stretches: lengthened, count: count + facts.length }
}

export const oldestPacked = ({ store, stretches }: Packed): PackedFact | undefined => {
  const first = stretches[0]
  return first && factAt(store, first.from)
}

/** Without its oldest fact. */
export const withoutOldestPacked = ({ store, stretches, count }: Packed): Packed => {
  const [first, ...others] = stretches
  if (first === undefined || count === 1) return emptyPacked
  const rest = { from: first.from + 1, to: first.to }
  return { store, stretches: rest.from === rest.to ? others : [rest, ...others], count: count - 1 }
}
