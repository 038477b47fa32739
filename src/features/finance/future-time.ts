import type pg from 'pg'
import { isoTime, maxAheadMs } from '../../kernel/clock.ts'

/**
 * A warning if the log has events that were recorded while the clocks of server and Postgres were ahead, and their time
 * is still in the future; else null. Read from accounting time, which is the latest recording time so far.
 */
export const readFutureTime = async (pool: Pick<pg.Pool, 'query'>, nowMs: number): Promise<string | null> => {
  const { rows } = await pool.query<{ at: string | null }>('select max(at) as at from read.journal_clock')
  const at = rows[0]?.at ?? null
  return at === null || Date.parse(at) <= nowMs + maxAheadMs
    ? null
    : `the log has events of the future, recorded up to ${at}, and it is ${isoTime(nowMs)} now: what follows is booked at ${at} until that time has come`
}
