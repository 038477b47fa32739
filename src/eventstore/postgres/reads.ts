import type pg from 'pg'
import type { Appended, EventLog, StoredEvent, StreamName } from '../port.ts'
import { int8Array, textArray } from './arrays.ts'

const pageSize = 1_000

const columns = 'e.position, e.stream, e.revision, e.id, e.type, e.data, e.metadata'
type Row = [number, StreamName, number, string, string, string, string]

const stored = ([position, stream, revision, id, type, data, metadata]: Row): StoredEvent => ({
  position: Number(position),
  stream,
  revision: Number(revision),
  id,
  type,
  data,
  metadata,
})

type Reads = Pick<EventLog, 'readStream' | 'readStreams' | 'lastOf' | 'readAll' | 'head' | 'logId'>

/** The reading half of the log: one prepared statement each, over the pool. Rows travel as arrays: less to parse. */
export const createReads = (pool: pg.Pool): Reads => {
  const rows = async (name: string, text: string, values: unknown[]): Promise<Row[]> => {
    const query: pg.QueryArrayConfig = { name: `farebox-${name}`, text, values, rowMode: 'array' }
    return (await pool.query<Row>(query)).rows
  }

  const streamPage = async (stream: StreamName, from: number): Promise<StoredEvent[]> => {
    const text = `
      select ${columns} from log.events e
      where e.stream = $1::text and e.revision >= $2::bigint order by e.revision limit $3::int`
    return (await rows('read-stream', text, [stream, from, pageSize])).map(stored)
  }

  return {
    async *readStream(stream, from = 0) {
      for (let next = from; ; ) {
        const page = await streamPage(stream, next)
        yield* page
        if (page.length < pageSize) return
        next = page.at(-1)!.revision + 1
      }
    },

    async readStreams(tails) {
      const events = new Map<StreamName, StoredEvent[]>()
      if (tails.length === 0) return events
      // The lateral keeps it to one index range a stream, whatever the planner guesses of the array's length.
      const text = `
        select ${columns} from unnest($1::text[], $2::bigint[]) with ordinality t(stream, first, n)
        cross join lateral (
          select * from log.events l where l.stream = t.stream and l.revision >= t.first order by l.revision
        ) e order by t.n, e.revision`
      const values = [textArray(tails.map((each) => each.stream)), int8Array(tails.map((each) => each.from))]
      for (const row of await rows('read-streams', text, values)) {
        const event = stored(row)
        const list = events.get(event.stream)
        if (list === undefined) events.set(event.stream, [event])
        else list.push(event)
      }
      return events
    },

    async lastOf(stream): Promise<Appended | null> {
      const text = `
        select ${columns} from log.events e where e.stream = $1::text order by e.revision desc limit 1`
      const [row] = await rows('last-of', text, [stream])
      if (row === undefined) return null
      const { revision, position } = stored(row)
      return { revision, position }
    },

    async readAll(after, limit) {
      const text = `
        select ${columns} from log.events e where e.position > $1::bigint order by e.position limit $2::int`
      return (await rows('read-all', text, [after, limit])).map(stored)
    },

    async head() {
      const { rows: found } = await pool.query('select last_position from log.head')
      return Number(found[0].last_position)
    },

    async logId() {
      const { rows: found } = await pool.query('select log_id from log.head')
      return found[0].log_id
    },
  }
}
