import type pg from 'pg'
import { type Clock, isoTime } from '../../kernel/clock.ts'

/** What was brought to a place. */
export type Delivered = {
  /** Of the last seal; -1 before the first. */
  readonly revision: number
  readonly eventId: string | null
  /** Why the next one could not be brought, and since when; null while nothing is wrong. */
  readonly problem: { readonly text: string; readonly since: string } | null
}

/** How far one place of one log is. What is kept never goes back but by `forget`. */
export type DeliveryCursor = {
  read(): Promise<Delivered>
  /** The place has the seal of this revision, and all before it. */
  advance(revision: number, eventId: string): Promise<void>
  fail(problem: string): Promise<void>
  /** Nothing is wrong any more. */
  recovered(): Promise<void>
  /** All is to be brought again. */
  forget(): Promise<void>
}

export const createDeliveryCursor = (
  pool: pg.Pool,
  clock: Clock,
  { logId, target }: { readonly logId: string; readonly target: string },
): DeliveryCursor => ({
  async read() {
    const { rows } = await pool.query<{
      revision: number
      event_id: string | null
      problem: string | null
      failing_since: Date | string | null
    }>(
      'select revision, event_id, problem, failing_since from work.seal_delivery where log_id = $1 and target = $2',
      [logId, target],
    )
    const [row] = rows
    if (row === undefined) return { revision: -1, eventId: null, problem: null }
    const since = row.failing_since === null ? null : new Date(row.failing_since).toISOString()
    return {
      revision: Number(row.revision),
      eventId: row.event_id,
      problem: row.problem === null || since === null ? null : { text: row.problem, since },
    }
  },

  async advance(revision, eventId) {
    await pool.query(
      `insert into work.seal_delivery as d (log_id, target, revision, event_id, delivered_at)
       values ($1, $2, $3, $4, $5)
       on conflict (log_id, target) do update
         set revision = excluded.revision, event_id = excluded.event_id, delivered_at = excluded.delivered_at,
             problem = null, failing_since = null
         where d.revision < excluded.revision`,
      [logId, target, revision, eventId, isoTime(clock())],
    )
  },

  async fail(problem) {
    await pool.query(
      `insert into work.seal_delivery as d (log_id, target, revision, problem, failing_since)
       values ($1, $2, -1, $3, $4)
       on conflict (log_id, target) do update
         set problem = excluded.problem, failing_since = coalesce(d.failing_since, excluded.failing_since)`,
      [logId, target, problem.slice(0, 500), isoTime(clock())],
    )
  },

  async recovered() {
    await pool.query(
      'update work.seal_delivery set problem = null, failing_since = null where log_id = $1 and target = $2',
      [logId, target],
    )
  },

  async forget() {
    await pool.query('delete from work.seal_delivery where log_id = $1 and target = $2', [logId, target])
  },
})
