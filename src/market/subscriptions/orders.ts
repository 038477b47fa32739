import type { Kysely } from 'kysely'
import type { ReadDatabase } from '../../../projections/database.ts'
import type { KeptDetails } from '../../../projections/orders.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { AccountId, OrderId, SubscriptionId } from '../../kernel/ids.ts'
import { endOfPeriod, type Period } from '../../terms/interval.ts'
import { maxOrdersOfPeriod, orderIdOfPeriod } from './names.ts'

/** What says when each period began. Instants are ISO 8601 UTC. */
export type Schedule = {
  readonly startedAt: string
  readonly period: Period
  readonly currentPeriodEnd: string
}

/**
 * Every order that a subscription may have, oldest first: of each period that was paid, and of the next one, which is
 * there when its order failed or came too late and was refunded; before each, those of the period that failed. Null: it
 * did not start.
 */
export const orderIdsOfSchedule = (
  subscriptionId: SubscriptionId,
  schedule: Schedule | null,
): readonly OrderId[] => {
  const ids = [orderIdOfPeriod(subscriptionId, null)]
  if (schedule === null) return ids
  const [startMs, lastMs] = [Date.parse(schedule.startedAt), Date.parse(schedule.currentPeriodEnd)]
  for (let n = 1; endOfPeriod(startMs, schedule.period, n) <= lastMs; n += 1) {
    const periodStart = isoTime(endOfPeriod(startMs, schedule.period, n))
    for (let failed = 0; failed < maxOrdersOfPeriod; failed += 1)
      ids.push(orderIdOfPeriod(subscriptionId, periodStart, failed))
  }
  return ids
}

/**
 * Every order that a subscription of the account may have. Their ids follow from its periods, so that no order carries a
 * column or an entry of an index for it.
 */
export const orderIdsOfSubscription = async (
  db: Kysely<ReadDatabase>,
  account: AccountId,
  subscriptionId: string,
): Promise<readonly OrderId[]> => {
  const row = await db
    .selectFrom('read.subscriptions as held')
    .innerJoin('read.orders as o', 'o.order_id', 'held.order_id')
    .where('held.account_id', '=', account)
    .where('held.subscription_id', '=', subscriptionId)
    .select(['held.started_at', 'held.current_period_end', 'o.details'])
    .executeTakeFirst()
  const paid = row && (JSON.parse(row.details) as KeptDetails).subscription
  const schedule = paid && {
    startedAt: row.started_at,
    period: paid.period,
    currentPeriodEnd: row.current_period_end,
  }
  return orderIdsOfSchedule(subscriptionId as SubscriptionId, schedule ?? null)
}
