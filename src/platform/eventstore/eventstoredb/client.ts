import { BACKWARDS, END, EventStoreDBClient, FORWARDS, type StreamingRead } from '@eventstore/db-client'
import type { StreamName } from '../../../kernel/streams.ts'
import { StartRefused } from '../../postgres/errors.ts'
import { LogUnavailable } from '../errors.ts'
import type { StoredEvent } from '../port.ts'
import { connectionString, parseAddress } from './address.ts'
import { fromPosition, isStreamAbsent, logUnavailable, toPosition, toStored } from './conversions.ts'

/** The part of a gRPC client that `withErrorGuard` uses. */
type Calls = { getChannel(): { getConnectivityState(connect: boolean): number } }
type Execute = (kind: unknown, name: string, action: (calls: Calls) => Promise<unknown>) => Promise<unknown>

/** Private methods of the client. The client reads them from the instance at each call, so they can be replaced. */
type ClientInternals = {
  handleError: (calls: Calls, error: Error) => Promise<void>
  execute: Execute
}

/** `connectivityState.SHUTDOWN` of gRPC. */
const shutDown = 4

/**
 * Prevents that two bugs of the client end the process. The client does not await two promises (6.2.1,
 * `dist/Client/index.js` and `dist/streams/appendToStream/append.js`):
 *
 * - After a failed call, `handleError` awaits the new channel that other calls are opening, but nothing awaits
 *   `handleError`. While the cluster has no leader, the channel fails and the rejection is unhandled. The calls that
 *   opened the channel get the same error, so it can be ignored here.
 * - An append calls gRPC inside an async executor. If the channel was closed in between, gRPC throws there and the
 *   append never settles. Such a call is refused before, with the message that gRPC uses elsewhere.
 *
 * Nothing else is caught: any other unhandled rejection still ends the process.
 */
const withErrorGuard = (client: EventStoreDBClient): EventStoreDBClient => {
  const internals = client as unknown as ClientInternals
  const { handleError, execute } = internals
  internals.handleError = (calls, error) => handleError(calls, error).catch(() => undefined)
  internals.execute = (kind, name, action) =>
    execute(kind, name, (calls) => {
      if (calls.getChannel().getConnectivityState(false) === shutDown)
        throw new Error('Channel closed before call started')
      return action(calls)
    })
  return client
}

export type Credentials = { readonly username: string; readonly password: string }

/** The client, and the credentials that each append must pass: see `openClient`. */
export type Connection = { readonly client: EventStoreDBClient; readonly credentials: Credentials }

/**
 * Detects a silent node: a ping after three seconds, and a broken connection after three more. With the client's
 * defaults of ten and ten seconds a frozen leader caused an outage of 15 s, with these of 9 s (measured on a cluster of
 * three, docs/operations/eventstoredb.md). A slow server still answers pings, because they do not pass its queues.
 */
const keepAlive = { keepAliveInterval: '3000', keepAliveTimeout: '3000' }

/** Suppresses the client's console warning about intervals below ten seconds during startup. */
const withoutAdvice = <Made>(make: () => Made): Made => {
  const { warn } = console
  console.warn = (...args: unknown[]) => {
    if (!String(args[0]).startsWith('Specified KeepAliveInterval')) warn(...args)
  }
  try {
    return make()
  } finally {
    console.warn = warn
  }
}

const open = (text: string): EventStoreDBClient => {
  try {
    return withoutAdvice(() => EventStoreDBClient.connectionString(text))
  } catch (error) {
    throw new StartRefused(`EVENTSTORE_URL names a file of certificates: ${(error as Error).message}`, {
      cause: error,
    })
  }
}

/**
 * Opens a client on an `esdb://` address. It sends nothing yet.
 *
 * Appends always pass credentials, even to a server that does not check them. This is the public way to avoid the batch
 * append of the client, whose state is shared by the whole process: a connection that breaks during backpressure ends
 * the process with unhandled rejections (936 of 1,000 appends, measured), disposing one client rejects the appends of
 * all others, and one failed query of the server's features is cached permanently. With credentials each append is a
 * separate call with its own deadline and error (docs/decisions/0005).
 *
 * @throws AddressRefused; StartRefused for a certificate file that cannot be read
 */
export const openClient = (url: string): Connection => {
  const address = parseAddress(url)
  return {
    client: withErrorGuard(open(connectionString(address, keepAlive))),
    credentials: address.credentials ?? { username: 'none', password: 'none' },
  }
}

export type ReadDependencies = { readonly connection: Connection; readonly readTimeoutMs: number }

/**
 * Returns all values of a bounded read. It does not return an iterator: a caller that stopped early would leave the
 * call open permanently, and the client sets no deadline for reads.
 *
 * @param timeoutMs time limit of the whole read, milliseconds
 * @throws LogUnavailable
 */
export const readToEnd = async <Value>(read: StreamingRead<Value>, timeoutMs: number): Promise<Value[]> => {
  const values: Value[] = []
  let timer: NodeJS.Timeout | undefined
  try {
    await new Promise<void>((resolve, reject) => {
      timer = setTimeout(
        () => reject(new LogUnavailable(`EventStoreDB did not answer a read within ${timeoutMs} ms`)),
        timeoutMs,
      )
      read.on('data', (value: Value) => values.push(value))
      read.once('end', resolve)
      // Never removed: an error event without a listener ends the process.
      read.on('error', reject)
    })
    return values
  } catch (error) {
    read.cancel().catch(() => undefined)
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Up to `count` events of a stream from a revision on. With `end`, the last events, newest first. Empty for an absent
 * stream.
 * @throws LogUnavailable
 */
export const readPage = async (
  { connection, readTimeoutMs }: ReadDependencies,
  stream: StreamName,
  { from, count }: { readonly from: number | 'end'; readonly count: number },
): Promise<StoredEvent[]> => {
  const read = connection.client.readStream(stream, {
    direction: from === 'end' ? BACKWARDS : FORWARDS,
    fromRevision: from === 'end' ? END : BigInt(from),
    maxCount: count,
    requiresLeader: true,
  })
  try {
    return (await readToEnd(read, readTimeoutMs)).map(toStored)
  } catch (error) {
    if (isStreamAbsent(error)) return []
    throw logUnavailable(error)
  }
}

const firstPage = 16
const nextPages = 500

/**
 * The positions and streams of all events of the server, from the last one backwards: events of Farebox, of the server
 * itself and of other programs.
 * @throws LogUnavailable
 */
export async function* positionsBackwards({ connection, readTimeoutMs }: ReadDependencies) {
  let from: number | null = null
  for (let count = firstPage; ; count = nextPages) {
    const read = connection.client.readAll({
      direction: BACKWARDS,
      fromPosition: from === null ? END : fromPosition(from),
      maxCount: count,
      requiresLeader: true,
    })
    const page = await readToEnd(read, readTimeoutMs).catch((error) => {
      throw logUnavailable(error)
    })
    for (const { event } of page) {
      if (event === undefined) continue
      from = toPosition(event.position)
      yield { position: from, stream: event.streamId }
    }
    if (page.length < count) return
  }
}
