import type pg from 'pg'
import { isoTime } from '../../kernel/clock.ts'

/** How long deliveries and their attempts can be read and sent again. */
export const retentionMs = 30 * 24 * 60 * 60 * 1000

/** Rows of one statement, so that it never holds anything up for long. */
const chunk = 1_000

/** Erases URLs that were replaced and secrets whose overlap is over. */
export const eraseSuperseded = async (pool: pg.Pool, nowMs: number): Promise<void> => {
  await pool.query({
    name: 'webhooks-erase-superseded',
    text: `with due as (
             delete from work.webhook_superseded_values where erase_at <= $1::timestamptz returning value_id
           )
           delete from vault.webhook_values v using due where v.value_id = due.value_id`,
    values: [isoTime(nowMs)],
  })
}

/** Forgets deliveries whose outcome is older than the retention, with their attempts. The log keeps what became of them. */
export const forgetOldDeliveries = async (pool: pg.Pool, nowMs: number): Promise<void> => {
  for (;;) {
    const { rowCount } = await pool.query({
      name: 'webhooks-forget',
      text: `with old as (
               select delivery_id from work.webhook_deliveries
                where queued_at < $1::timestamptz and finished_at < $1::timestamptz
                order by queued_at limit ${chunk} for update skip locked
             ), attempts as (
               delete from work.webhook_attempts a using old where a.delivery_id = old.delivery_id
             )
             delete from work.webhook_deliveries d using old where d.delivery_id = old.delivery_id`,
      values: [isoTime(nowMs - retentionMs)],
    })
    if ((rowCount ?? 0) < chunk) return
  }
}
