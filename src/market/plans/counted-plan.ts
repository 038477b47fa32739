import type pg from 'pg'
import type { AccountId, PlanId } from '../../kernel/ids.ts'
import { alarmsOf } from './decide.ts'
import type { CountedPlan } from './traffic-reports.ts'

/**
 * A plan as its read model has it, for a process that counts its traffic and does not read the log. Null: no such plan.
 * What the read model does not know yet lies in the counter, which such a plan has already.
 */
export const readCountedPlan = async (
  pool: pg.Pool,
  planId: PlanId,
  nowMs: number,
): Promise<CountedPlan | null> => {
  const { rows } = await pool.query<{
    readonly account_id: AccountId
    readonly total_bytes: number | null
    readonly used_bytes: number
    readonly expires_at: string | null
  }>({
    name: 'counted-plan',
    text: 'select account_id, total_bytes, used_bytes, expires_at from read.plans where plan_id = $1::text',
    values: [planId],
  })
  const [row] = rows
  if (row === undefined) return null
  const expiresAtMs = row.expires_at === null ? null : Date.parse(row.expires_at)
  const alarms = alarmsOf(
    { plan: { totalBytes: row.total_bytes, usedBytes: row.used_bytes, expiresAtMs } },
    nowMs,
  )
  return { accountId: row.account_id, usedBytes: row.used_bytes, alarms }
}
