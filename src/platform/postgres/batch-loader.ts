type Waiting<Value> = PromiseWithResolvers<Value | undefined>

/** Keys of one look-up at most. */
const maxKeys = 500

/**
 * Look-ups by key, gathered: all that are asked for in one turn of the event loop, and while the last look-up is under
 * way, share the next one. Each sees the database as it is after it was asked. Fifty readers at once then cost a few
 * statements instead of fifty.
 * @param load set-based; keys that it leaves out are undefined. What it throws is thrown to all who share it
 */
export const createBatchLoader = <Key, Value>(
  load: (keys: readonly Key[]) => Promise<ReadonlyMap<Key, Value>>,
): ((key: Key) => Promise<Value | undefined>) => {
  let waiting = new Map<Key, Waiting<Value>>()
  let running = false

  const take = (): Map<Key, Waiting<Value>> => {
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
      const asked = take()
      try {
        const found = await load([...asked.keys()])
        for (const [key, { resolve }] of asked) resolve(found.get(key))
      } catch (error) {
        for (const { reject } of asked.values()) reject(error)
      }
    }
    running = false
  }

  return (key) => {
    const same = waiting.get(key)
    if (same) return same.promise
    const one = Promise.withResolvers<Value | undefined>()
    waiting.set(key, one)
    if (!running) {
      running = true
      setImmediate(() => void run())
    }
    return one.promise
  }
}
