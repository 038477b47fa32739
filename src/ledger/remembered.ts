import { Map as ImmutableMap, List } from 'immutable'

/**
 * What happened under an id, kept for seven days of event time (design section 3: "Folds stay bounded"); older ids are
 * guarded by permanent streams. A queue beside the map finds the oldest in constant time; an ordered map would walk over
 * the places of what it deleted.
 */
export type Remembered<Value> = {
  readonly entries: ImmutableMap<string, Entry<Value>>
  /** The same entries, oldest first: a snapshot of 300,000 is taken from it in 65 ms, by the map it took 560. */
  readonly queue: List<Entry<Value>>
  /** When the oldest one happened, so that an event after which none is too old looks at nothing else. */
  readonly oldestMs: number
  /** When the newest forgotten one happened; what is newer than that is remembered for certain. -1: nothing forgotten. */
  readonly forgottenMs: number
}

type Entry<Value> = { readonly id: string; readonly atMs: number; readonly value: Value }

export const rememberedMs = 7 * 24 * 60 * 60 * 1000

/** An event adds at most one id, so that dropping two an event bounds both the work and what is kept. */
const droppedPerEvent = 2

export const emptyRemembered = <Value>(): Remembered<Value> => ({
  entries: ImmutableMap(),
  queue: List(),
  oldestMs: Number.POSITIVE_INFINITY,
  forgottenMs: -1,
})

export const recall = <Value>(remembered: Remembered<Value>, id: string): Value | undefined =>
  remembered.entries.get(id)?.value

/** @throws when the id is there already: an event that happens once happened twice. */
export const remember = <Value>(
  { entries, queue, oldestMs, forgottenMs }: Remembered<Value>,
  id: string,
  value: Value,
  atMs: number,
): Remembered<Value> => {
  if (entries.has(id)) throw new Error(`${id} happened twice`)
  const entry = { id, atMs, value }
  return {
    entries: entries.set(id, entry),
    queue: queue.push(entry),
    oldestMs: queue.size === 0 ? atMs : oldestMs,
    forgottenMs,
  }
}

/** Drops the oldest, at most two of them, that happened more than seven days before `nowMs`. */
export const forget = <Value>(remembered: Remembered<Value>, nowMs: number): Remembered<Value> => {
  let { entries, queue, oldestMs, forgottenMs } = remembered
  for (let dropped = 0; dropped < droppedPerEvent && nowMs - oldestMs > rememberedMs; dropped += 1) {
    entries = entries.delete((queue.first() as Entry<Value>).id)
    queue = queue.shift()
    forgottenMs = oldestMs
    oldestMs = queue.first()?.atMs ?? Number.POSITIVE_INFINITY
  }
  return queue === remembered.queue ? remembered : { entries, queue, oldestMs, forgottenMs }
}

/** Whether something that happened at `atMs` would still be remembered. */
export const remembersSince = (remembered: Remembered<unknown>, atMs: number): boolean =>
  atMs > remembered.forgottenMs

export type RememberedJson<Value> = {
  readonly entries: readonly (readonly [id: string, atMs: number, value: Value])[]
  readonly forgottenMs: number
}

export const rememberedToJson = <Value>(remembered: Remembered<Value>): RememberedJson<Value> => ({
  entries: remembered.queue.toArray().map(({ id, atMs, value }) => [id, atMs, value] as const),
  forgottenMs: remembered.forgottenMs,
})

export const rememberedFromJson = <Value>(json: RememberedJson<Value>): Remembered<Value> => {
  const queue = json.entries.map(([id, atMs, value]) => ({ id, atMs, value }))
  return {
    entries: ImmutableMap(queue.map((entry) => [entry.id, entry] as const)),
    queue: List(queue),
    oldestMs: queue[0]?.atMs ?? Number.POSITIVE_INFINITY,
    forgottenMs: json.forgottenMs,
  }
}
