import type pg from 'pg'
import type { DepositDetails } from '../../domain/deposits/events.ts'
import { depositStatuses } from '../../domain/deposits/fold.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { DepositId } from '../../kernel/ids.ts'
import type { QueueTable } from '../../platform/work/queue-table.ts'
import type { Schedule } from '../../platform/work/standard-queue.ts'

const maxPauseMs = 3_600_000

/** How long after its n-th look a deposit is looked at again. */
export const pollSchedule =
  (firstPollMs: number): Schedule =>
  (polls) =>
    Math.min(maxPauseMs, firstPollMs * polls)

/** A deposit whose provider is to be asked. */
export type PollItem = { readonly deposit_id: DepositId; readonly attempts: number }

/** Its rounds as a queue; `pollQueue` adds what depends on the setting. */
export const pollTable: QueueTable = {
  name: 'deposit-looks',
  table: 'work.deposit_looks',
  key: ['deposit_id'],
  owner: 'gateway_id',
  longestWaitMs: maxPauseMs,
  columns: [],
  // A look that was answered leaves the status of the deposit.
  failed: `d.result not in (${depositStatuses.map((status) => `'${status}'`).join(', ')})`,
}

/**
 * An owner is a gateway: whoever answers slowly holds up the deposits of no other. Of one gateway those come first that are
 * late by the largest share of their pause: a young deposit a minute late is more likely to have been paid than a two weeks
 * old one that is late by ten. Before its first look a deposit's `due_at` is when it was opened, so that the setting counts
 * for those that are open too.
 */
export const pollQueue = (firstPollMs: number): QueueTable => {
  const first = `make_interval(secs => ${firstPollMs / 1000}::float8)`
  return {
    ...pollTable,
    ready: (now) => `d.attempts > 0 or d.due_at <= ${now} - ${first}`,
    order: (
      now,
    ) => `extract(epoch from ${now} - d.due_at - case d.attempts when 0 then ${first} else interval '0' end)
      / least(${maxPauseMs}, ${firstPollMs}::float8 * greatest(1, d.attempts)) desc`,
  }
}

/**
 * Puts a deposit into the rounds of looks, once; one that is in them, or was, stays as it is. It is written before the
 * invoice is made: no deposit that can be paid is missing.
 */
export const schedulePolling = async (
  pool: pg.Pool,
  {
    depositId,
    gatewayId,
    openedAt,
  }: Pick<DepositDetails, 'depositId' | 'gatewayId'> & { readonly openedAt: string },
): Promise<void> => {
  await pool.query({
    name: 'watch-deposit',
    text: `insert into work.deposit_looks (deposit_id, gateway_id, due_at)
           values ($1::text, $2::text, $3::timestamptz)
           on conflict (deposit_id) do nothing`,
    values: [depositId, gatewayId, openedAt],
  })
}

/**
 * Puts those deposits into the rounds that should be and are not: watched still or not closed, and not looked at since
 * the end of their watch. They are few: a process died before it wrote its row, an earlier version kept other rows, or
 * the log came without them. It reads all deposits, and so it runs seldom.
 */
export const scheduleMissingPolls = async (pool: pg.Pool, nowMs: number): Promise<number> => {
  const { rowCount } = await pool.query({
    name: 'find-unwatched-deposits',
    text: `insert into work.deposit_looks as look (deposit_id, gateway_id, due_at)
           select deposit_id, d.gateway_id, d.opened_at
             from read.deposits d left join work.deposit_looks l using (deposit_id)
            where (d.watch_until >= $1::timestamptz or d.status in ('awaiting_payment', 'processing'))
              and (l.deposit_id is null or l.finished_at < d.watch_until)
           on conflict (deposit_id) do update set status = 'pending', finished_at = null
           where look.status <> 'pending'`,
    values: [isoTime(nowMs)],
  })
  return rowCount ?? 0
}
