import { defineEvent, type EventOf } from '../../kernel/event.ts'
import {
  anyId,
  exactly,
  id,
  integer,
  oneOf,
  orAbsent,
  orNull,
  pastTime,
  text,
  time,
} from '../../kernel/event-fields.ts'

/** `plan-{id}`: the allocation owner of gateway orders. 1 GB = 1,000,000,000 bytes. */
const stream = 'plan-{plan}'

const owner = {
  planId: id('pln', 'the plan'),
  accountId: id('acc', 'its account'),
  customerId: orNull(anyId("the reseller's customer; null for an own plan")),
  productId: text('the product of the catalogue'),
}
const orderId = id('ord', 'the order')
const usedBytes = integer('bytes', '0 or more', 'the sum of all counted bytes')

export const planActivated = defineEvent('PlanActivated', {
  stream,
  means: 'An order opened the plan.',
  fields: {
    ...owner,
    orderId,
    shape: oneOf(['gateway_gb', 'gateway_time'], 'sold by traffic, or by time'),
    renewal: oneOf(['topup', 'repurchase'], 'how it is renewed'),
    bytes: orNull(integer('bytes', 'above 0', 'bought; null for a plan sold by time')),
    speedUnits: orNull(integer('speed units', 'above 0', 'bought; null for a plan sold by traffic')),
    startedAt: pastTime('when'),
    expiresAt: orNull(time('when it ends; null: when it is used up')),
  },
})
export const planToppedUp = defineEvent('PlanToppedUp', {
  stream,
  means: 'An order added to the plan.',
  fields: { orderId, bytes: integer('bytes', 'above 0', 'added') },
})
/** The first answer to an order is final: an order refused here is never fulfilled later. */
export const planOrderRefused = defineEvent('PlanOrderRefused', {
  stream,
  means: 'The plan refused the order. The first answer for an order is final.',
  fields: { orderId, reason: exactly('plan_expired', 'why') },
})
export const planUnitsWithdrawn = defineEvent('PlanUnitsWithdrawn', {
  stream,
  means: 'A refund withdrew the unused units of an order.',
  fields: {
    orderId,
    refundId: text('the refund'),
    bytes: integer('bytes', '0 or more', 'taken back'),
  },
})
export const trafficMetered = defineEvent('TrafficMetered', {
  stream,
  means:
    'The bytes counted since the last one: at most every five minutes, and at once when the plan becomes low, exhausted or expired. Release 0.1.0 wrote one for each report.',
  fields: {
    reportId: orAbsent(text('the report; release 0.1.0 only')),
    bytes: integer('bytes', '0 or more', 'counted since the event before it'),
    usedBytes,
  },
})
export const planRanLow = defineEvent('PlanRanLow', {
  stream,
  means:
    '10 % or less of the plan is left: appended with the event that caused it, each time the plan falls to 10 %. (The webhook is sent only once.)',
  fields: {
    ...owner,
    totalBytes: integer('bytes', '0 or more', "the plan's total"),
    usedBytes,
    expiresAt: orNull(time('when it ends; null: when it is used up')),
  },
})
export const planExhausted = defineEvent('PlanExhausted', {
  stream,
  means: "The plan's traffic is used up.",
  fields: { usedBytes },
})
export const planExpired = defineEvent('PlanExpired', {
  stream,
  means: "The plan's time has ended.",
  fields: { expiredAt: pastTime('when it ended') },
})
export const planCredentialRotated = defineEvent('PlanCredentialRotated', {
  stream,
  means: 'The plan got a new password.',
  fields: { generation: integer('rotations', '0 or more', 'counts the passwords of the plan') },
})

export type PlanActivated = EventOf<typeof planActivated>
export type PlanToppedUp = EventOf<typeof planToppedUp>
export type PlanOrderRefused = EventOf<typeof planOrderRefused>
export type PlanUnitsWithdrawn = EventOf<typeof planUnitsWithdrawn>
export type TrafficMetered = EventOf<typeof trafficMetered>
export type PlanRanLow = EventOf<typeof planRanLow>
export type PlanExhausted = EventOf<typeof planExhausted>
export type PlanExpired = EventOf<typeof planExpired>
export type PlanCredentialRotated = EventOf<typeof planCredentialRotated>

export const planEventDefinitions = [
  planActivated,
  planToppedUp,
  planOrderRefused,
  planUnitsWithdrawn,
  trafficMetered,
  planRanLow,
  planExhausted,
  planExpired,
  planCredentialRotated,
] as const
export type PlanEvent = EventOf<(typeof planEventDefinitions)[number]>
