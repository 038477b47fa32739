import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { StreamName } from '../../../kernel/streams.ts'
import { createBatchLoader } from '../../postgres/batch-loader.ts'
import { int8Array, textArray } from '../../postgres/pipeline.ts'
import { LogUnavailable } from '../errors.ts'
import type { Appended, EventLog, StoredEvent, SubscribeOptions } from '../port.ts'
import type { NewestKnownEvent, RecentAppends, Waker } from './revision-cache.ts'

const pageSize = 1_000

const columns = 'e.position, e.stream, e.revision, e.id, e.type, e.data, e.metadata'
type EventRow = [number, StreamName, number, string, string, string, string]

const stored = ([position, stream, revision, id, type, data, metadata]: EventRow): StoredEvent => ({
  position: Number(position),
  stream,
  revision: Number(revision),
  id,
  type,
  data,
  metadata,
})

type Reads = Pick<
  EventLog,
  'readStream' | 'readStreams' | 'lastOf' | 'readAll' | 'readBefore' | 'eventAt' | 'head' | 'logId'
>

/** A trigger refuses the removal of the row, so it was removed by hand. */
const throwMissingHead = (): never => {
  throw new Error(
    'the row of log.head is missing, which has the id and the end of the log: the database was changed manually. Restore a backup, or put the row back: its log_id is the one in engine.checkpoints',
  )
}

/**
 * The reads of the log over the pool, one prepared statement each. Rows are fetched as arrays, which are faster to
 * parse. A failed read throws `LogUnavailable` with the error of the driver as its cause.
 */
export const createReads = (pool: pg.Pool, newestKnown: Pick<NewestKnownEvent, 'read'>): Reads => {
  const rows = async <Row extends unknown[]>(
    name: string,
    text: string,
    values: unknown[],
  ): Promise<Row[]> => {
    const query: pg.QueryArrayConfig = { name: `farebox-${name}`, text, values, rowMode: 'array' }
    try {
      return (await pool.query<Row>(query)).rows
    } catch (error) {
      throw new LogUnavailable(`the log cannot be read: ${(error as Error).message}`, { cause: error })
    }
  }

  const events = async (name: string, text: string, values: unknown[]): Promise<StoredEvent[]> => {
    const found = (await rows<EventRow>(name, text, values)).map(stored)
    newestKnown.read(found)
    return found
  }

  const streamPage = async (stream: StreamName, from: number): Promise<StoredEvent[]> => {
    const text = `
      select ${columns} from log.events e
      where e.stream = $1::text and e.revision >= $2::bigint order by e.revision limit $3::int`
    return events('read-stream', text, [stream, from, pageSize])
  }

  /** Every GET needs one. Batched, fifty concurrent clients cost one or two statements. */
  const lastOf = createBatchLoader<StreamName, Appended>(async (streams) => {
    const text = `
      select t.stream, e.revision, e.position from unnest($1::text[]) t(stream)
      cross join lateral (
        select l.revision, l.position from log.events l where l.stream = t.stream order by l.revision desc limit 1
      ) e`
    const found = await rows<[StreamName, number, number]>('last-of', text, [textArray(streams)])
    return new Map(
      found.map(([stream, revision, position]) => [
        stream,
        { revision: Number(revision), position: Number(position) },
      ]),
    )
  })

  return {
    async *readStream(stream, from = 0) {
      for (let next = from; ; ) {
        const page = await streamPage(stream, next)
        yield* page
        if (page.length < pageSize) return
        next = page.at(-1)!.revision + 1
      }
    },

    async readStreams(tails, limitEach) {
      const found = new Map<StreamName, StoredEvent[]>()
      if (tails.length === 0) return found
      // `lateral` enforces one index range per stream, however long the planner expects the array to be.
      const text = `
        select ${columns} from unnest($1::text[], $2::bigint[]) with ordinality t(stream, first, n)
        cross join lateral (
          select * from log.events l where l.stream = t.stream and l.revision >= t.first order by l.revision
          limit $3::int
        ) e order by t.n, e.revision`
      const values = [
        textArray(tails.map((each) => each.stream)),
        int8Array(tails.map((each) => each.from)),
        limitEach ?? null,
      ]
      for (const event of await events('read-streams', text, values)) {
        const list = found.get(event.stream)
        if (list === undefined) found.set(event.stream, [event])
        else list.push(event)
      }
      return found
    },

    lastOf: async (stream) => (await lastOf(stream)) ?? null,

    async readAll(after, limit) {
      const text = `
        select ${columns} from log.events e where e.position > $1::bigint order by e.position limit $2::int`
      return events('read-all', text, [after, limit])
    },

    async readBefore(position, limit) {
      const text = `
        select ${columns} from log.events e where e.position < $1::bigint order by e.position desc limit $2::int`
      return events('read-before', text, [position, limit])
    },

    async eventAt(position) {
      const text = `select ${columns} from log.events e where e.position = $1::bigint`
      return (await events('event-at', text, [position]))[0] ?? null
    },

    async head() {
      const [head] = await rows<[number]>('head', 'select last_position from log.head', [])
      return Number((head ?? throwMissingHead())[0])
    },

    async logId() {
      const [head] = await rows<[string]>('log-id', 'select log_id from log.head', [])
      return (head ?? throwMissingHead())[0]
    },
  }
}

const defaultBatch = 1_000
/** Back-off while Postgres cannot be reached, doubling. */
const firstRetryMs = 50
const lastRetryMs = 2_000

type SubscriptionSources = {
  readonly readAll: EventLog['readAll']
  readonly recent: RecentAppends
  readonly waker: Waker
  /** Aborted when the log closes. */
  readonly closed: AbortSignal
  readonly onTrouble: (description: string, error: Error) => void
}

/**
 * Delivers all events after a position until the signal aborts or the log closes. Events come in order of position,
 * from `readAll` or from the recent appends of this process. A wake-up only triggers the next read, so a lost or
 * repeated wake-up is harmless. A failed read is retried from the same position.
 */
export const subscribe = async function* (
  { readAll, recent, waker, closed, onTrouble }: SubscriptionSources,
  { after, maxBatch = defaultBatch, signal }: SubscribeOptions,
): AsyncGenerator<readonly StoredEvent[]> {
  const ended = AbortSignal.any([signal, closed])
  const nextAfter = async (position: number): Promise<readonly StoredEvent[]> => {
    const recentEvents = recent.after(position, maxBatch)
    if (recentEvents !== null) return recentEvents
    await recent.settled(position)
    return recent.after(position, maxBatch) ?? readAll(position, maxBatch)
  }
  let position = after
  let retryMs = firstRetryMs
  while (!ended.aborted) {
    let batch: readonly StoredEvent[]
    try {
      batch = await nextAfter(position)
    } catch (error) {
      if (ended.aborted) return
      onTrouble('reading the log for a subscription failed', error as Error)
      await sleep(retryMs, undefined, { signal: ended }).catch(() => undefined)
      retryMs = Math.min(2 * retryMs, lastRetryMs)
      continue
    }
    retryMs = firstRetryMs
    const last = batch.at(-1)
    if (last !== undefined) {
      position = last.position
      if (ended.aborted) return
      yield batch
    }
    if (batch.length < maxBatch) await waker.waitPast(position, ended)
  }
}
