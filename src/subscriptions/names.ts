import { type AccountId, deriveId, type OrderId, type SubscriptionId } from '../ids.ts'

/** One subscription a key for ever; apart from the keys of orders and deposits. */
export const subscriptionIdOf = (account: AccountId, idempotencyKey: string): SubscriptionId =>
  deriveId('sub', [account, 'subscription', idempotencyKey])

/** The order of a subscription's period: `first`, or the instant at which the period starts, ISO 8601. */
export const orderIdOfPeriod = (subscription: SubscriptionId, periodStart: string | null): OrderId =>
  deriveId('ord', [subscription, periodStart ?? 'first'])
