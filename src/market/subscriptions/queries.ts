import { type Kysely, sql } from 'kysely'
import type { ReadDatabase } from '../../../projections/database.ts'
import { isoTime } from '../../kernel/clock.ts'
import { countedPage } from '../../platform/postgres/counted-page.ts'
import type { Scope } from '../../terms/holder.ts'
import type { RenewalDatabase } from './migrations.ts'
import type { SubscriptionStatus, SubscriptionView } from './record.ts'

export type SubscriptionQueries = Kysely<ReadDatabase & RenewalDatabase>

/** Why the period that begins at an instant could not be paid when it was last tried; null: nothing refused it. */
export const refusedReasonOf = async (
  db: SubscriptionQueries,
  subscriptionId: string,
  periodStart: string,
): Promise<string | null> => {
  const row = await db
    .selectFrom('work.renewals')
    .select('reason')
    .where('subscription_id', '=', subscriptionId)
    .where('period_start', '=', periodStart)
    .executeTakeFirst()
  return row?.reason ?? null
}

/** The account's subscriptions, each with what refused the payment of its next period. No customer has one. */
const subscriptionsOf = (db: SubscriptionQueries, { accountId, customerId }: Scope) => {
  const ofAccount = db
    .selectFrom('read.subscriptions as held')
    .leftJoin('work.renewals as refused', (join) =>
      join
        .onRef('refused.subscription_id', '=', 'held.subscription_id')
        .onRef('refused.period_start', '=', 'held.current_period_end'),
    )
    .where('held.account_id', '=', accountId)
    .selectAll('held')
    .select('refused.reason as refused_reason')
  return customerId === null ? ofAccount : ofAccount.where(sql<boolean>`false`)
}

/** A subscription within the scope, or undefined: absent and foreign read alike. */
export const findSubscription = (
  db: SubscriptionQueries,
  scope: Scope,
  subscriptionId: string,
): Promise<SubscriptionView | undefined> =>
  subscriptionsOf(db, scope).where('held.subscription_id', '=', subscriptionId).executeTakeFirst()

const fittingSubscriptions = (
  db: SubscriptionQueries,
  scope: Scope,
  status: SubscriptionStatus | undefined,
  nowMs: number,
) => {
  let fitting = subscriptionsOf(db, scope)
  // The same rules as `subscriptionStatus`.
  if (status === 'canceled' || status === 'expired') fitting = fitting.where('held.ended_as', '=', status)
  if (status === 'active')
    fitting = fitting
      .where('held.ended_as', 'is', null)
      .where((is) =>
        is.or([is('held.current_period_end', '>', isoTime(nowMs)), is('refused.reason', 'is', null)]),
      )
  if (status === 'past_due')
    fitting = fitting
      .where('held.ended_as', 'is', null)
      .where('held.current_period_end', '<=', isoTime(nowMs))
      .where('refused.reason', 'is not', null)
  return fitting
}

/** A page of the subscriptions within the scope, newest first, and how many fit the filter. */
export const listSubscriptions = async (
  db: SubscriptionQueries,
  scope: Scope,
  filter: {
    readonly limit: number
    readonly offset: number
    readonly status: SubscriptionStatus | undefined
  },
  nowMs: number,
): Promise<{ subscriptions: readonly SubscriptionView[]; total: number }> => {
  const fitting = fittingSubscriptions(db, scope, filter.status, nowMs)
  const { rows, total } = await countedPage(
    fitting.orderBy('held.started_at', 'desc').orderBy('held.subscription_id', 'desc'),
    fitting.clearSelect().select((is) => is.fn.countAll<number>().as('total')),
    filter,
  )
  return { subscriptions: rows, total }
}

/** Up to `limit` subscriptions within the scope, newest first, that come after one; null: from the newest on. */
export const subscriptionsAfter = (
  db: SubscriptionQueries,
  scope: Scope,
  page: {
    readonly status: SubscriptionStatus | undefined
    readonly after: { readonly at: string; readonly id: string } | null
    readonly limit: number
  },
  nowMs: number,
): Promise<readonly SubscriptionView[]> => {
  let fitting = fittingSubscriptions(db, scope, page.status, nowMs)
  if (page.after !== null) {
    const { at, id } = page.after
    fitting = fitting
      .where('held.started_at', '<=', at)
      .where(sql<boolean>`(held.started_at, held.subscription_id) < (${at}::timestamptz, ${id}::text)`)
  }
  return fitting
    .orderBy('held.started_at', 'desc')
    .orderBy('held.subscription_id', 'desc')
    .limit(page.limit)
    .execute()
}
