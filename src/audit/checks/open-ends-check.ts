import type pg from 'pg'
import { pluralize } from '../../kernel/formats.ts'
import type { Table } from '../../platform/projections/read-model.ts'
import { deliveriesTable } from '../invariants/delivery-invariants.ts'
import { ordersTable } from '../invariants/order-invariants.ts'
import {
  depositRefundsTable,
  depositsTable,
  manualTable,
  paymentsTable,
  topupsTable,
} from '../invariants/reason-invariants.ts'
import { batchesTable, triesTable } from '../invariants/scrape-invariants.ts'
import { rentalsTable } from '../invariants/stock-invariants.ts'
import { paidPeriodsTable, subscriptionsTable } from '../invariants/subscription-invariants.ts'
import { addEventFindings, type EventLocationRow, type Findings } from './finding.ts'

/** The bound for work that the service does by itself within moments of an event. Milliseconds. */
const promptBoundMs = 60 * 60 * 1000
/** The bound for work that depends on a receiver, a payer, or the end of a period and its grace. Milliseconds. */
const waitingBoundMs = 7 * 24 * 60 * 60 * 1000

/**
 * Work that must follow an event and is missing in the log. `sql` returns `position` of the last event that leaves it
 * open, `problem` in words, and `since_ms`, the time when it became due; null means the time of that event.
 */
type UnfinishedWork = {
  readonly boundMs: number
  /** Whether work in a queue is left out. */
  readonly isQueued: boolean
  readonly sql: (schema: string) => string
}

/** Ids of the work in the queues of the service at the start of a verification. */
const queuedTable = { name: 'queued_before' }

/**
 * Stores the ids of queued work. Call it before the log is read: work that finishes meanwhile leaves its queue after
 * its event is appended. Queued work may stay open for any time: retries continue after an outage, a slow receiver has
 * a backlog, a provider may be down for weeks.
 */
export const rememberQueuedWork = async (client: pg.Client, schema: string): Promise<true> => {
  await client.query(
    `create unlogged table ${schema}.${queuedTable.name} as
       select delivery_id collate "C" as id from work.webhook_deliveries where status = 'pending'
       union all select deposit_id collate "C" from work.deposit_looks where status = 'pending'`,
  )
  return true
}

const defineWork = (
  boundMs: number,
  tables: readonly Pick<Table, 'name'>[],
  sql: (...names: readonly string[]) => string,
): UnfinishedWork => ({
  boundMs,
  isQueued: tables.some(({ name }) => name === queuedTable.name),
  sql: (schema) => sql(...tables.map(({ name }) => `${schema}.${name}`)),
})

const unfinishedWork: readonly UnfinishedWork[] = [
  defineWork(
    promptBoundMs,
    [ordersTable],
    (table) => `
  select last_position as position, null::bigint as since_ms, 'order ' || order_id || ' ' || due as problem
    from (select *, case
        when answer is null and outcome is null and debited_micros is not null
          then 'is paid, and its allocation owner gave no answer'
        when answer = 'fulfilled' and outcome is null then 'was fulfilled, and its own stream does not say so'
        when answer = 'refused' and outcome is null then 'was refused by its allocation owner, and did not fail'
        when debited_micros is not null and not placed then 'is paid, and its own stream does not say so'
        when debited_micros is null and placed then 'says that it is paid, and its payment is missing'
        when debited_micros is not null and outcome in ('failed', 'canceled') and decided_cents < price_cents
          then 'was not fulfilled, and no refund of the whole payment was decided'
        when exists (select from jsonb_each(refunds) as refund
            where not (refund.value ->> 'landed')::boolean)
          then 'has a refund that was decided, and did not come to its end'
      end as due from ${table}) as orders
   where due is not null`,
  ),
  defineWork(
    promptBoundMs,
    [depositsTable, ordersTable],
    (deposits, table) => `
  select d.last_position as position, null::bigint as since_ms,
         'deposit ' || d.deposit_id || ' is over, and order ' || o.order_id || ' still awaits it' as problem
    from ${deposits} d join ${table} o on o.awaits = d.deposit_id
   where d.state = 'closed' and not o.held
     and o.outcome is null and not o.placed and o.debited_micros is null`,
  ),
  defineWork(
    promptBoundMs,
    [paymentsTable],
    (table) => `
  select last_position as position, null::bigint as since_ms, 'payment ' || payment_id || ' of deposit ' || deposit_id ||
         case when credited then ' was credited, and the deposit does not say so' else ' arrived, and no ledger credits it' end
         as problem
    from ${table} where not marked`,
  ),
  defineWork(
    promptBoundMs,
    [depositsTable],
    (table) => `
  select last_position as position, null::bigint as since_ms,
         'deposit ' || deposit_id || ' has what it invoiced, and does not say that it is paid' as problem
    from ${table} where credited_micros >= invoiced_micros and coalesce(settled_micros, 0) < invoiced_micros`,
  ),
  defineWork(
    waitingBoundMs,
    [depositsTable, queuedTable],
    (table, queueName) => `
  select last_position as position, closes_ms as since_ms,
         'deposit ' || deposit_id || ' is neither paid nor closed, and its time is over' as problem
    from ${table} d where state = 'open' and credited_micros < invoiced_micros
     and not exists (select from ${queueName} q where q.id = d.deposit_id)`,
  ),
  defineWork(
    waitingBoundMs,
    [depositRefundsTable],
    (table) => `
  select last_position as position, null::bigint as since_ms, 'refund ' || refund_id || ' of deposit ' || deposit_id ||
         case state when 'requested' then ' was requested, and neither made nor refused'
           else ' was ' || state || ', and its amount is still held' end as problem
    from ${table} where state = 'requested' or held`,
  ),
  defineWork(
    waitingBoundMs,
    [topupsTable],
    (table) => `
  select last_position as position, null::bigint as since_ms,
         'top-up ' || open_topup_id || ' was requested, and neither paid nor failed' as problem
    from ${table} where open_topup_id is not null`,
  ),
  defineWork(
    promptBoundMs,
    [manualTable],
    (table) => `
  select last_position as position, null::bigint as since_ms, case state
           when 'recorded' then 'a movement by hand was recorded, and neither moved nor withdrawn'
           else 'a movement by hand was moved, and its record does not say so' end as problem
    from ${table} where state in ('recorded', 'moved')`,
  ),
  defineWork(
    promptBoundMs,
    [triesTable],
    (table) => `
  select last_position as position, null::bigint as since_ms, 'call ' || hold_id || ' ' || case
           when outcome is null then 'was started, and never ended'
           else 'is over, and its hold is not' end as problem
    from ${table} where outcome is null or (held and not is_hold_over)`,
  ),
  defineWork(
    promptBoundMs,
    [paidPeriodsTable],
    (table) => `
  select last_position as position, null::bigint as since_ms,
         'order ' || order_id || ' paid a period, and its subscription does not name it' as problem
    from ${table} where fulfilled and not refunded`,
  ),
  defineWork(
    waitingBoundMs,
    [subscriptionsTable],
    (table) => `
  select last_position as position, period_ends_ms as since_ms, 'subscription ' || subscription_id ||
         ' is neither renewed nor over, and the period that was paid is' as problem
    from ${table}`,
  ),
  defineWork(
    waitingBoundMs,
    [rentalsTable, ordersTable],
    (table, ordersName) => `
  select o.last_position as position, r.expires_ms as since_ms,
         'rental ' || r.proxy_id || ' is over, and its address was not taken back' as problem
    from ${table} r join ${ordersName} o using (order_id) where r.open`,
  ),
  defineWork(
    waitingBoundMs,
    [batchesTable],
    (table) => `
  select last_position as position, null::bigint as since_ms,
         'batch ' || batch_id || ' was taken on, and is not over' as problem
    from ${table} where not finished`,
  ),
  defineWork(
    waitingBoundMs,
    [deliveriesTable, queuedTable],
    (table, queueName) => `
  select last_position as position, null::bigint as since_ms,
         'delivery ' || delivery_id || ' came to no end' as problem
    from ${table} d where not exists (select from ${queueName} q where q.id = d.delivery_id)`,
  ),
]

type Row = EventLocationRow & { problem: string }

/** The time that a service has to finish overdue work after a long outage. Milliseconds. */
const catchUpMs = 10 * 60 * 1000

/**
 * Checks that the work that other streams require is in the log: the end of an order, a payment, a call. Work that may
 * be in a queue is left out if `rememberQueuedWork` could not read the queues.
 *
 * Work that started less than its bound before the end of the log is ignored: another process may continue it after a
 * crash. The end is the last event before the last minutes of the log. After an outage that lasted until then, only
 * events from before the outage count.
 */
export const checkUnfinishedWork = async (
  client: pg.Client,
  schema: string,
  findings: Findings,
  isQueueKnown: boolean,
): Promise<void> => {
  const { rows: lastTimeRows } = await client.query<{ last_ms: number | null }>(
    `select max(recorded_ms) as last_ms from ${schema}.event_places
      where recorded_ms <= (select max(recorded_ms) from ${schema}.event_places) - ${catchUpMs}`,
  )
  const lastMs = lastTimeRows[0]?.last_ms
  if (lastMs === null || lastMs === undefined) return
  for (const { sql, boundMs, isQueued } of unfinishedWork) {
    if (isQueued && !isQueueKnown) continue
    await addEventFindings<Row>(
      client,
      findings,
      `select o.problem, e.* from (${sql(schema)}) o join ${schema}.event_places e using (position)
        where coalesce(o.since_ms, e.recorded_ms) < $1::bigint`,
      ({ problem }) => ({
        check: 'invariants',
        problem: `${problem}, ${pluralize(Math.floor(boundMs / 3_600_000), 'hour')} and more before the end of the log`,
      }),
      [lastMs - boundMs],
    )
  }
}
