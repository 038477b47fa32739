import type pg from 'pg'
import type { DepositDetails } from '../../domain/deposits/events.ts'
import { depositStatuses } from '../../domain/deposits/fold.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { DepositId } from '../../kernel/ids.ts'
import type { QueueTable } from '../../platform/work/queue-table.ts'
import type { Schedule } from '../../platform/work/standard-queue.ts'

const maxPauseMs = 3_600_000

/** The pause after a deposit's n-th poll, milliseconds. */
export const pollSchedule =
  (firstPollMs: number): Schedule =>
  (polls) =>
    Math.min(maxPauseMs, firstPollMs * polls)

/** A deposit to poll. */
export type PollItem = { readonly deposit_id: DepositId; readonly attempts: number }

/** The queue of polls; `pollQueue` adds the parts that depend on the setting. */
export const pollTable: QueueTable = {
  name: 'deposit-looks',
  table: 'work.deposit_looks',
  key: ['deposit_id'],
  owner: 'gateway_id',
  longestWaitMs: maxPauseMs,
  columns: [],
  // An answered poll stores the status of the deposit as its result.
  failed: `d.result not in (${depositStatuses.map((status) => `'${status}'`).join(', ')})`,
}

/**
 * The queue's owners are gateways, so that a slow gateway does not delay the deposits of another one. Of one gateway,
 * the deposits that are late by the largest share of their pause are first: a young deposit that is a minute late is
 * more likely to be paid than a two weeks old one that is ten minutes late. Before its first poll a deposit's `due_at`
 * is the time of its opening, so that a changed setting also applies to open deposits.
 */
export const pollQueue = (firstPollMs: number): QueueTable => {
  const firstInterval = `make_interval(secs => ${firstPollMs / 1000}::float8)`
  return {
    ...pollTable,
    ready: (now) => `d.attempts > 0 or d.due_at <= ${now} - ${firstInterval}`,
    order: (
      now,
    ) => `extract(epoch from ${now} - d.due_at - case d.attempts when 0 then ${firstInterval} else interval '0' end)
      / least(${maxPauseMs}, ${firstPollMs}::float8 * greatest(1, d.attempts)) desc`,
  }
}

/**
 * Adds a deposit to the polling queue once. A deposit that is or was in the queue is not changed. The row is written
 * before the invoice is created, so that no payable deposit is missing.
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
 * Adds the deposits that are missing in the queue: still watched or not closed, and not polled since the end of their
 * watch. They are rare: a process crashed before it wrote the row, an earlier version stored other rows, or the log was
 * moved without the rows. The query reads all deposits, so it runs rarely.
 * @returns the number of added deposits
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
