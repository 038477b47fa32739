import type pg from 'pg'
import { type Clock, isoTime } from '../../kernel/clock.ts'

/** The state of the delivery to a target. */
export type Delivered = {
  /** The revision of the last delivered seal; -1 before the first. */
  readonly revision: number
  readonly eventId: string | null
  /** The reason why the next delivery fails, and since when; null when nothing is wrong. */
  readonly problem: { readonly text: string; readonly since: string } | null
}

/** The delivery state of one log to one target. The revision only decreases through `forget`. */
export type DeliveryCursor = {
  read(): Promise<Delivered>
  /** Records that the target has the seal of this revision and all earlier ones. */
  advance(revision: number, eventId: string): Promise<void>
  fail(problem: string): Promise<void>
  /** Removes the problem. */
  recovered(): Promise<void>
  /** Resets the state: all seals are delivered again. */
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
