import pg from 'pg'
import { isolateFailures } from '../../kernel/failures.ts'
import { isDatabaseOutage, isOfOtherVersion, isWithoutRight } from './errors.ts'

type Waiting<Value> = PromiseWithResolvers<Value | undefined>

/** Postgres rejected the values. A look-up of other keys would not fail with this error. */
const isRefusal = (error: unknown): boolean =>
  error instanceof pg.DatabaseError &&
  !isDatabaseOutage(error) &&
  !isOfOtherVersion(error) &&
  !isWithoutRight(error)

/**
 * Combines look-ups by key: all look-ups of one turn of the event loop, and all during the previous look-up, share
 * one statement. Each sees the database as it is after the call. Fifty concurrent readers then cost a few statements
 * instead of fifty.
 * @param load set-based; keys without an entry in its result are undefined. An error that is not about some of the
 * keys rejects all look-ups that share it. Otherwise the keys at fault are found and the others are looked up without
 * them
 */
export const createBatchLoader = <Key, Value>(
  load: (keys: readonly Key[]) => Promise<ReadonlyMap<Key, Value>>,
  {
    maxKeys = 500,
    isOfKeys = isRefusal,
  }: {
    /** The most keys of one look-up. */
    readonly maxKeys?: number
    /** Whether an error is about some of the keys. Default: Postgres rejected the values. */
    readonly isOfKeys?: (error: unknown) => boolean
  } = {},
): ((key: Key) => Promise<Value | undefined>) => {
  let waiting = new Map<Key, Waiting<Value>>()
  let running = false

  const takeWaiting = (): Map<Key, Waiting<Value>> => {
    if (waiting.size <= maxKeys) {
      const all = waiting
      waiting = new Map()
      return all
    }
    const first = new Map([...waiting].slice(0, maxKeys))
    for (const key of first.keys()) waiting.delete(key)
    return first
  }

  const run = async (): Promise<void> => {
    while (waiting.size > 0) {
      const batch = takeWaiting()
      const lookUp = async (keys: readonly Key[]): Promise<void> => {
        const found = await load(keys)
        for (const key of keys) batch.get(key)!.resolve(found.get(key))
      }
      try {
        const failed = await isolateFailures([...batch.keys()], lookUp, (error) => !isOfKeys(error))
        for (const [key, error] of failed) batch.get(key)!.reject(error)
      } catch (error) {
        for (const { reject } of batch.values()) reject(error)
      }
    }
    running = false
  }

  return (key) => {
    const existing = waiting.get(key)
    if (existing) return existing.promise
    const one = Promise.withResolvers<Value | undefined>()
    waiting.set(key, one)
    if (!running) {
      running = true
      setImmediate(() => void run())
    }
    return one.promise
  }
}

/**
 * Shares reads by key: all calls with a key during a read share the next read. Each sees the database as it is after
 * the call.
 */
export const createSharedRead = <Key, Value>(
  read: (key: Key) => Promise<Value>,
): ((key: Key) => Promise<Value>) => {
  const load = createBatchLoader<Key, { readonly value: Value }>(
    async (keys) =>
      new Map(await Promise.all(keys.map(async (key) => [key, { value: await read(key) }] as const))),
  )
  return async (key) => (await load(key))!.value
}
