import { defineEvent, type EventOf } from '../../kernel/event.ts'
import { cents, exactly, id, integer, list, orNull, pastTime, text, time } from '../../kernel/event-fields.ts'
import { interval, period, target } from '../shared/order-terms.ts'

/** `subscription-{id}`: repeated orders, each paid from the wallet. */
const stream = 'subscription-{subscription}'

const idFields = {
  subscriptionId: id('sub', 'the subscription'),
  accountId: id('acc', 'the account that pays'),
}
const planId = orNull(id('pln', 'the plan of the period; null for addresses'))
const purchaseFields = {
  orderId: id('ord', 'the order that pays the period'),
  planId,
  proxyIds: list(id('prx', 'a rental'), 'the rentals of the period; empty for a plan'),
  amountCents: cents('0 or more', 'the price of the period'),
}
const currentPeriodEnd = time('the end of the last paid period')
const productId = text('the product of the catalogue')

export const subscriptionStarted = defineEvent('SubscriptionStarted', {
  stream,
  means: 'The first period was paid.',
  fields: {
    ...idFields,
    ...purchaseFields,
    keyId: orNull(id('key', 'the key of the request; its cap applies to renewals')),
    productId,
    quantity: integer('units of the product', 'above 0', 'of each period'),
    target,
    interval,
    period,
    fingerprint: text('SHA-256 of the request, which a retry under the same `Idempotency-Key` must match'),
    startedAt: pastTime('the start of the first period, from which all periods count'),
    currentPeriodEnd,
  },
})
export type SubscriptionStarted = EventOf<typeof subscriptionStarted>

export const subscriptionRenewed = defineEvent('SubscriptionRenewed', {
  stream,
  means: 'Another period was paid, by an order whose id is derived from the subscription and `periodStart`.',
  fields: { ...idFields, ...purchaseFields, periodStart: time('when the period starts'), currentPeriodEnd },
})
export type SubscriptionRenewed = EventOf<typeof subscriptionRenewed>

export const subscriptionCancelScheduled = defineEvent('SubscriptionCancelScheduled', {
  stream,
  means: 'Cancellation was requested; it takes effect at the end of the paid period.',
  fields: { ...idFields, endsAt: time('when') },
})
export type SubscriptionCancelScheduled = EventOf<typeof subscriptionCancelScheduled>

const endedFields = { ...idFields, productId, planId, currentPeriodEnd }

export const subscriptionCanceled = defineEvent('SubscriptionCanceled', {
  stream,
  means: 'The paid period ended, or an unpaid period was abandoned.',
  fields: {
    ...endedFields,
    status: exactly('canceled', 'its new status'),
    reason: exactly('requested', 'why'),
    canceledAt: pastTime('when'),
  },
})
export type SubscriptionCanceled = EventOf<typeof subscriptionCanceled>

export const subscriptionExpired = defineEvent('SubscriptionExpired', {
  stream,
  means: 'It could not be renewed within the grace period.',
  fields: {
    ...endedFields,
    status: exactly('expired', 'its new status'),
    reason: text('the code of the last refusal, mostly `insufficient_balance`'),
    expiredAt: pastTime('when'),
  },
})
export type SubscriptionExpired = EventOf<typeof subscriptionExpired>

export const subscriptionEventDefinitions = [
  subscriptionStarted,
  subscriptionRenewed,
  subscriptionCancelScheduled,
  subscriptionCanceled,
  subscriptionExpired,
] as const
export type SubscriptionEvent = EventOf<(typeof subscriptionEventDefinitions)[number]>
