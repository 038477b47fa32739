import { BACKWARDS, END, FORWARDS, type StreamingRead } from '@eventstore/db-client'
import type { StreamName } from '../../../kernel/streams.ts'
import { LogUnavailable } from '../errors.ts'
import type { StoredEvent } from '../port.ts'
import type { Connection } from './client.ts'
import { fromPosition, toPosition, toStored } from './event-form.ts'
import { isStreamAbsent, logUnavailable } from './failures.ts'

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
