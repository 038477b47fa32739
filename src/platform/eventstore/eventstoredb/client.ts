import { BACKWARDS, END, EventStoreDBClient, FORWARDS, type StreamingRead } from '@eventstore/db-client'
import type { StreamName } from '../../../kernel/streams.ts'
import { StartRefused } from '../../postgres/errors.ts'
import { LogUnavailable } from '../errors.ts'
import type { StoredEvent } from '../port.ts'
import { connectionString, parseAddress } from './address.ts'
import { fromPosition, isStreamAbsent, logUnavailable, toPosition, toStored } from './conversions.ts'

/** Runs at most `limit` at once; the rest wait in the order of arrival. */
export const createConcurrencyLimiter = (limit: number) => {
  const waiting: (() => void)[] = []
  let running = 0

  return async <Value>(run: () => Promise<Value>): Promise<Value> => {
    if (running < limit) running++
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      return await run()
    } finally {
      const next = waiting.shift()
      // The place is handed on, so nobody who comes now can take it first.
      if (next === undefined) running--
      else next()
    }
  }
}

export type ConcurrencyLimiter = ReturnType<typeof createConcurrencyLimiter>

/** What is used of a gRPC client. */
type Calls = { getChannel(): { getConnectivityState(connect: boolean): number } }
type Execute = (kind: unknown, name: string, action: (calls: Calls) => Promise<unknown>) => Promise<unknown>

/** What the client does behind its public methods, looked up on the instance at each call. */
type Inside = {
  handleError: (calls: Calls, error: Error) => Promise<void>
  execute: Execute
}

/** `connectivityState.SHUTDOWN` of gRPC. */
const shutDown = 4

/**
 * Keeps two failures of the client from ending the process, for it lets go of two promises (6.2.1, `dist/Client/index.js`
 * and `dist/streams/appendToStream/append.js`):
 *
 * - after a failed call it waits in `handleError` for the channel that others are opening by then, and nobody waits for
 *   `handleError`. While no leader is found that channel fails, and so does what nobody waits for. Whoever asked for the
 *   channel is told of the same failure.
 * - an append calls gRPC inside an async executor. On a channel that was closed between the two, gRPC throws there: the
 *   append itself is never answered. Such a call is refused before, by the words that gRPC has for it elsewhere.
 *
 * Nothing else is caught: a rejection of anybody else still ends the process.
 */
export const guarded = (client: EventStoreDBClient): EventStoreDBClient => {
  const inside = client as unknown as Inside
  const { handleError, execute } = inside
  inside.handleError = (calls, error) => handleError(calls, error).catch(() => undefined)
  inside.execute = (kind, name, action) =>
    execute(kind, name, (calls) => {
      if (calls.getChannel().getConnectivityState(false) === shutDown)
        throw new Error('Channel closed before call started')
      return action(calls)
    })
  return client
}

export type Credentials = { readonly username: string; readonly password: string }

/** The client and what each append must pass: see `openClient`. */
export type Connection = { readonly client: EventStoreDBClient; readonly credentials: Credentials }

/**
 * How a node that says nothing any more is noticed: it is asked after three seconds, and given up three later. The
 * client's own ten and ten made a frozen leader cost 15 s, these 9 (seen on a cluster of three, docs/operations.md).
 * A server that is merely slow answers from outside its queues.
 */
const keepAlive = { keepAliveInterval: '3000', keepAliveTimeout: '3000' }

/** The client advises on the console against an interval below ten seconds; a start's output is for its own lines. */
const withoutAdvice = <Made>(make: () => Made): Made => {
  const { warn } = console
  console.warn = (...said: unknown[]) => {
    if (!String(said[0]).startsWith('Specified KeepAliveInterval')) warn(...said)
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
 * Opens a client on an `esdb://` address. Nothing is sent yet.
 *
 * Appends pass their credentials themselves, even where none are checked, because that is the public way past the
 * client's batch append, whose state is shared by the whole process: a connection that breaks while its writes are
 * held back ends the process with unhandled rejections (936 of 1,000 appends, seen), disposing one client rejects the
 * appends of all others, and one failed look-up of the server's features is remembered for ever. With credentials each
 * append is a call of its own with a deadline and an error of its own (docs/decisions/0005-eventstoredb-log.md).
 *
 * @throws AddressRefused; StartRefused for a file of certificates that cannot be read
 */
export const openClient = (url: string): Connection => {
  const address = parseAddress(url)
  return {
    client: guarded(open(connectionString(address, keepAlive))),
    credentials: address.credentials ?? { username: 'none', password: 'none' },
  }
}

export type ReadDeps = { readonly connection: Connection; readonly readTimeoutMs: number }

/**
 * All that a bounded read gives. It is read to its end here and not handed out as an iterator: a caller that stops
 * halfway would leave a call open for ever, and the client puts no deadline on reads.
 *
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
      // Never taken off: an error that nobody listens to ends the process.
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

/** Up to `count` events of a stream from a revision on, or its last ones, newest first. An absent stream gives none. */
export const readPage = async (
  { connection, readTimeoutMs }: ReadDeps,
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
 * Where the events of the whole server stand, from the last one backwards: ours, the server's own and other programs'.
 * @throws LogUnavailable
 */
export async function* positionsBackwards({ connection, readTimeoutMs }: ReadDeps) {
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
