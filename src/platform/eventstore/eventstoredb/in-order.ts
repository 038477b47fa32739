import type { StreamName } from '../../../terms/streams.ts'

/**
 * Runs what touches the same streams one after another, in the order of arrival, and everything else at once. Calls
 * travel side by side, so two appends to one stream that are sent together may arrive in either order, and the later
 * one would conflict.
 */
export const createInOrder = () => {
  const tails = new Map<StreamName, Promise<void>>()

  return async <Value>(streams: ReadonlySet<StreamName>, run: () => Promise<Value>): Promise<Value> => {
    const before = [...streams].flatMap((stream) => tails.get(stream) ?? [])
    const { promise: done, resolve } = Promise.withResolvers<void>()
    // Taken at once for all streams: no cycle of waiting can form.
    for (const stream of streams) tails.set(stream, done)
    try {
      await Promise.all(before)
      return await run()
    } finally {
      for (const stream of streams) if (tails.get(stream) === done) tails.delete(stream)
      resolve()
    }
  }
}
