import pLimit from 'p-limit'
import { assertItems } from '../append-guards.ts'
import { LogUnavailable } from '../errors.ts'
import type { AppendItem, EventLog, ItemOutcome } from '../port.ts'
import { type AppendDependencies, createOrigin, failedItem, onlyAppend, sendItem } from './append.ts'
import { openClient, readPage } from './client.ts'
import { assertOwnStreams } from './conversions.ts'
import { createHead, eventAtPosition, readAfter, readBeforePosition, readEvents, readTails } from './reads.ts'
import { createStreamSerializer, subscribeAfter } from './subscription.ts'

export type EventStoreDbOptions = {
  /** `esdb://[user:password@]host[:port][,…][?tls=false&…]`, as the client documents it. */
  readonly url: string
  /** Without an answer in this time the outcome of an append is unknown, milliseconds; default 10,000. */
  readonly appendTimeoutMs?: number
  /** Time limit of one page of a read, milliseconds; default 10,000. */
  readonly readTimeoutMs?: number
  /** Called for each broken subscription. Subscriptions reconnect automatically. */
  readonly onTrouble?: (description: string, error: Error) => void
}

/** Limit of concurrent appends. A server allows 100 calls per connection, including reads and subscriptions. */
const maxAppendsAtOnce = 64

/**
 * Creates the log on EventStoreDB 24.x, for clusters (docs/decisions/0005). EventStoreDB has no atomic append to two
 * streams: the appends of an item are sent one after another, and a crash can leave a prefix of them.
 *
 * It sends nothing before its first use. `close()` ends its subscriptions.
 * @throws Error for an invalid address
 */
export const eventStoreDbLog = (options: EventStoreDbOptions): EventLog => {
  const { appendTimeoutMs = 10_000, readTimeoutMs = 10_000 } = options
  const onTrouble = options.onTrouble ?? (() => undefined)
  const connection = openClient(options.url)
  const limiter = pLimit(maxAppendsAtOnce)
  const dependencies: AppendDependencies = { connection, appendTimeoutMs, readTimeoutMs, limiter }
  const inOrder = createStreamSerializer()
  const findOrigin = createOrigin(dependencies)
  const findHead = createHead(dependencies)
  const closing = new AbortController()
  const origin = async () => {
    if (closing.signal.aborted) throw new LogUnavailable('this log was closed')
    return await findOrigin()
  }

  const appendItem = async (item: AppendItem): Promise<ItemOutcome> =>
    await inOrder(new Set(item.appends.map(({ stream }) => stream)), async () => {
      try {
        await origin()
      } catch (error) {
        return failedItem(error, [])
      }
      return await sendItem(dependencies, item)
    })

  const appendAll = async (items: readonly AppendItem[]): Promise<readonly ItemOutcome[]> => {
    assertItems(items)
    assertOwnStreams(items)
    return await Promise.all(items.map(appendItem))
  }

  return {
    append: async (stream, expected, events) => {
      const append = { stream, expected, events }
      const [outcome] = await appendAll([{ appends: [append] }])
      return onlyAppend(append, outcome!)
    },
    appendAll,
    readStream: async function* (stream, from) {
      await origin()
      yield* readEvents(dependencies, stream, from)
    },
    readStreams: async (tails, limitEach) => {
      await origin()
      return await readTails(dependencies, tails, limitEach)
    },
    lastOf: async (stream) => {
      await origin()
      const [last] = await readPage(dependencies, stream, { from: 'end', count: 1 })
      return last === undefined ? null : { revision: last.revision, position: last.position }
    },
    readAll: async (after, limit) => await readAfter(dependencies, await origin(), after, limit),
    readBefore: async (position, limit) =>
      await readBeforePosition(dependencies, await origin(), position, limit),
    eventAt: async (position) => await eventAtPosition(dependencies, await origin(), position),
    subscribeAll: (subscribeOptions) =>
      subscribeAfter(
        { connection, readTimeoutMs, origin, onTrouble },
        { ...subscribeOptions, signal: AbortSignal.any([subscribeOptions.signal, closing.signal]) },
      ),
    head: async () => await findHead(await origin()),
    logId: async () => (await origin()).logId,
    close: async () => {
      closing.abort()
      await connection.client.dispose()
    },
  }
}
