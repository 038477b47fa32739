import { defineEvent, type EventOf } from '../../kernel/event.ts'
import { cents, exactly, id, integer, list, orNull, pastTime, text, time } from '../../kernel/event-fields.ts'
import { interval, period, target } from '../shared/order-terms.ts'

/** `subscription-{id}`: repeated orders, each paid from the wallet. */
const stream = 'subscription-{subscription}'

const idFields = { subscriptionId: id('sub', 'the subscription'), accountId: id('acc', 'who pays') }
const planId = orNull(id('pln', 'the plan of the period; null for addresses'))
const purchaseFields = {
  orderId: id('ord', 'the order that pays the period'),
  planId,
  proxyIds: list(id('prx', 'a rental'), 'the rentals of the period; empty for a plan'),
  amountCents: cents('0 or more', 'what the period cost'),
}
const currentPeriodEnd = time('the end of the last period that was paid')
const productId = text('the product of the catalogue')

export const subscriptionStarted = defineEvent('SubscriptionStarted', {
  stream,
  means: 'The first period was paid.',
  fields: {
    ...idFields,
    ...purchaseFields,
    keyId: orNull(id('key', 'the key that asked for it; its cap holds for the renewals')),
    productId,
    quantity: integer('units of the product', 'above 0', 'of each period'),
    target,
    interval,
    period,
    fingerprint: text('what a retry under the same `Idempotency-Key` must ask for again'),
    startedAt: pastTime('every period counts from here'),
    currentPeriodEnd,
  },
})
export type SubscriptionStarted = EventOf<typeof subscriptionStarted>

export const subscriptionRenewed = defineEvent('SubscriptionRenewed', {
  stream,
  means: 'Another period was paid, by an order whose id the subscription and `periodStart` give.',
  fields: { ...idFields, ...purchaseFields, periodStart: time('when the period starts'), currentPeriodEnd },
})
export type SubscriptionRenewed = EventOf<typeof subscriptionRenewed>

export const subscriptionCancelScheduled = defineEvent('SubscriptionCancelScheduled', {
  stream,
  means: 'Its end was asked for; it happens at the end of the period that is paid.',
  fields: { ...idFields, endsAt: time('when') },
})
export type SubscriptionCancelScheduled = EventOf<typeof subscriptionCancelScheduled>

const endedFields = { ...idFields, productId, planId, currentPeriodEnd }

export const subscriptionCanceled = defineEvent('SubscriptionCanceled', {
  stream,
  means: 'The period that was paid is over, or a period that was not paid was given up.',
  fields: {
    ...endedFields,
    status: exactly('canceled', 'its status from here on'),
    reason: exactly('requested', 'why'),
    canceledAt: pastTime('when'),
  },
})
export type SubscriptionCanceled = EventOf<typeof subscriptionCanceled>

export const subscriptionExpired = defineEvent('SubscriptionExpired', {
  stream,
  means: 'It could not be renewed within the grace.',
  fields: {
    ...endedFields,
    status: exactly('expired', 'its status from here on'),
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
