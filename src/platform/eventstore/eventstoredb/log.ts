import { assertItems } from '../append-checks.ts'
import { LogUnavailable } from '../errors.ts'
import type { AppendItem, EventLog, ItemOutcome } from '../port.ts'
import { type AppendDeps, createOrigin, failedItem, onlyAppend, sendItem } from './append.ts'
import { createConcurrencyLimiter, openClient, readPage } from './client.ts'
import { assertOwnStreams } from './conversions.ts'
import { createHead, eventAtPosition, readAfter, readBeforePosition, readEvents, readTails } from './reads.ts'
import { createStreamSerializer, subscribeAfter } from './subscription.ts'

export type EventStoreDbOptions = {
  /** `esdb://[user:password@]host[:port][,…][?tls=false&…]`, as the client documents it. */
  readonly url: string
  /** How long an answer to an append is waited for, milliseconds; then its outcome is unknown. Default 10,000. */
  readonly appendTimeoutMs?: number
  /** How long one page of a read may take, milliseconds; default 10,000. */
  readonly readTimeoutMs?: number
  /** Told of subscriptions that broke; they are taken up again. */
  readonly onTrouble?: (what: string, error: Error) => void
}

/** Appends on their way at once: a server takes 100 calls a connection, reads and subscriptions too. */
const maxAppendsAtOnce = 64

/**
 * The log in EventStoreDB 24.x, for clusters (docs/decisions/0005-eventstoredb-log.md). It has no atomic append over
 * two streams: an item's appends are sent one after another, and what a crash leaves of it is a prefix.
 *
 * It needs no server at this moment, and sends nothing before its first use. `close()` ends its subscriptions.
 * @throws Error when the address is not one
 */
export const eventStoreDbLog = (options: EventStoreDbOptions): EventLog => {
  const { appendTimeoutMs = 10_000, readTimeoutMs = 10_000 } = options
  const onTrouble = options.onTrouble ?? (() => undefined)
  const connection = openClient(options.url)
  const limiter = createConcurrencyLimiter(maxAppendsAtOnce)
  const deps: AppendDeps = { connection, appendTimeoutMs, readTimeoutMs, limiter }
  const inOrder = createStreamSerializer()
  const findOrigin = createOrigin(deps)
  const findHead = createHead(deps)
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
      return await sendItem(deps, item)
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
      yield* readEvents(deps, stream, from)
    },
    readStreams: async (tails, limitEach) => {
      await origin()
      return await readTails(deps, tails, limitEach)
    },
    lastOf: async (stream) => {
      await origin()
      const [last] = await readPage(deps, stream, { from: 'end', count: 1 })
      return last === undefined ? null : { revision: last.revision, position: last.position }
    },
    readAll: async (after, limit) => await readAfter(deps, await origin(), after, limit),
    readBefore: async (position, limit) => await readBeforePosition(deps, await origin(), position, limit),
    eventAt: async (position) => await eventAtPosition(deps, await origin(), position),
    subscribeAll: (wanted) =>
      subscribeAfter(
        { connection, readTimeoutMs, origin, onTrouble },
        { ...wanted, signal: AbortSignal.any([wanted.signal, closing.signal]) },
      ),
    head: async () => await findHead(await origin()),
    logId: async () => (await origin()).logId,
    close: async () => {
      closing.abort()
      await connection.client.dispose()
    },
  }
}
