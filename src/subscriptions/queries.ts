import type { Kysely } from 'kysely'
import type { ReadDatabase } from '../../projections/database.ts'
import type { SubscriptionRow } from '../../projections/subscriptions.ts'
import { isoTime } from '../clock.ts'
import type { AccountId } from '../ids.ts'
import type { SubscriptionStatus } from './record.ts'

/** A subscription of the account, or undefined: absent and foreign read alike. */
export const findSubscription = (
  db: Kysely<ReadDatabase>,
  account: AccountId,
  subscriptionId: string,
): Promise<SubscriptionRow | undefined> =>
  db
    .selectFrom('read.subscriptions')
    .selectAll()
    .where('subscription_id', '=', subscriptionId)
    .where('account_id', '=', account)
    .executeTakeFirst()

/** A page of the account's subscriptions, newest first, and how many fit the filter. */
export const listSubscriptions = async (
  db: Kysely<ReadDatabase>,
  account: AccountId,
  filter: {
    readonly limit: number
    readonly offset: number
    readonly status: SubscriptionStatus | undefined
  },
  nowMs: number,
): Promise<{ subscriptions: readonly SubscriptionRow[]; total: number }> => {
  let fitting = db.selectFrom('read.subscriptions').where('account_id', '=', account)
  // The same rules as `subscriptionStatus`.
  const { status } = filter
  if (status === 'canceled' || status === 'expired') fitting = fitting.where('ended_as', '=', status)
  if (status === 'active' || status === 'past_due')
    fitting = fitting
      .where('ended_as', 'is', null)
      .where('current_period_end', status === 'active' ? '>' : '<=', isoTime(nowMs))
  const [subscriptions, counted] = await Promise.all([
    fitting
      .selectAll()
      .orderBy('started_at', 'desc')
      .orderBy('subscription_id', 'desc')
      .limit(filter.limit)
      .offset(filter.offset)
      .execute(),
    fitting.select((is) => is.fn.countAll<number>().as('total')).executeTakeFirstOrThrow(),
  ])
  return { subscriptions, total: counted.total }
}
