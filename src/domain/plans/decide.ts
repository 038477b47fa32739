import { isoTime } from '../../kernel/clock.ts'
import { findRemembered } from '../../kernel/recent-ids.ts'
import type { OrderDetails } from '../shared/order-terms.ts'
import type { PlanEvent } from './events.ts'
import { isLow, type PlanAnswer, type PlanState, thresholdPct } from './fold.ts'

const dayMs = 24 * 60 * 60 * 1000

type PlanDecision = { readonly events: readonly PlanEvent[]; readonly answer: PlanAnswer }

/** A plan with an end is expired from that time on, even before an event records it. */
const isExpired = (state: PlanState, nowMs: number): boolean =>
  state.plan !== null && state.plan.expiresAtMs !== null && state.plan.expiresAtMs <= nowMs

/** Bytes left to use, never below 0; null for a time-based plan. */
export const remainingBytes = (plan: NonNullable<PlanState['plan']>): number | null =>
  plan.totalBytes === null ? null : Math.max(0, plan.totalBytes - plan.usedBytes)

/**
 * Activates the plan with the order's units, or adds them to it. The refusal is `plan_expired` and gives no event. The
 * caller appends `recordRefusal` for an order that is paid already, because that needs a recorded refusal. An order
 * that was answered before gets the same answer.
 * @throws if the order does not fit the plan, e.g. another account's plan
 */
export const decidePlanOrder = (state: PlanState, order: OrderDetails, nowMs: number): PlanDecision => {
  const previousAnswer = findRemembered(state.answers, order.orderId)
  if (previousAnswer) return { events: [], answer: previousAnswer }
  const fulfilled: PlanAnswer = { outcome: 'fulfilled', at: isoTime(nowMs) }
  const { plan } = state
  if (plan) {
    const isOtherAccount = plan.accountId !== order.accountId || plan.customerId !== order.customerId
    if (isOtherAccount) throw new Error(`order ${order.orderId} names the plan of another account`)
    if (isExpired(state, nowMs)) return { events: [], answer: { outcome: 'refused', reason: 'plan_expired' } }
    if (order.bytes === null) throw new Error(`order ${order.orderId} adds no traffic to a held plan`)
    return {
      events: [{ type: 'PlanToppedUp', data: { orderId: order.orderId, bytes: order.bytes } }],
      answer: fulfilled,
    }
  }
  if (order.planId === null) throw new Error(`order ${order.orderId} names no plan`)
  if (order.shape !== 'gateway_gb' && order.shape !== 'gateway_time')
    throw new Error(`a ${order.shape} product has no plan`)
  if (order.renewal === 'extend') throw new Error('a plan is topped up or bought again, never extended')
  return {
    events: [
      {
        type: 'PlanActivated',
        data: {
          planId: order.planId,
          orderId: order.orderId,
          accountId: order.accountId,
          customerId: order.customerId,
          productId: order.productId,
          shape: order.shape,
          renewal: order.renewal,
          bytes: order.bytes,
          speedUnits: order.shape === 'gateway_time' ? order.quantity : null,
          startedAt: isoTime(nowMs),
          expiresAt: order.periodDays === null ? null : isoTime(nowMs + order.periodDays * dayMs),
        },
      },
    ],
    answer: fulfilled,
  }
}

/** The event that records a refusal, so that no later attempt fulfils an order that is being refunded. */
export const recordRefusal = (orderId: string): PlanEvent => ({
  type: 'PlanOrderRefused',
  data: { orderId, reason: 'plan_expired' },
})

/** Without other events, a plan's counter is written to the log at most once in this time, milliseconds. */
export const meteringIntervalMs = 5 * 60 * 1000

/** When the plan must be metered at once: at a number of used bytes, and at a time since the epoch. Null: never. */
export type Alarms = { readonly bytes: number | null; readonly atMs: number | null }

type PlanDetails = NonNullable<PlanState['plan']>

/** The fewest used bytes at which a plan with this total is low. */
const lowThresholdBytes = (totalBytes: number): number =>
  totalBytes - Math.floor((totalBytes * thresholdPct) / 100)

/** The next alarms of a plan. */
export const alarmsOf = (
  { plan }: { readonly plan: Pick<PlanDetails, 'totalBytes' | 'usedBytes' | 'expiresAtMs'> | null },
  nowMs: number,
): Alarms => {
  if (!plan) return { bytes: null, atMs: null }
  const { totalBytes, usedBytes, expiresAtMs } = plan
  const thresholds = totalBytes === null ? [] : [lowThresholdBytes(totalBytes), totalBytes]
  return {
    bytes: thresholds.find((threshold) => threshold > usedBytes) ?? null,
    atMs: expiresAtMs !== null && expiresAtMs > nowMs ? expiresAtMs : null,
  }
}

const ranLow = (plan: PlanDetails): PlanEvent => ({
  type: 'PlanRanLow',
  data: {
    planId: plan.planId,
    accountId: plan.accountId,
    customerId: plan.customerId,
    productId: plan.productId,
    totalBytes: plan.totalBytes ?? 0,
    usedBytes: plan.usedBytes,
    expiresAt: plan.expiresAtMs === null ? null : isoTime(plan.expiresAtMs),
  },
})

/** `PlanRanLow` if the plan has just fallen to 10 % or less. An expired plan does not run low. */
const lowEvents = (plan: PlanDetails, nowMs: number): readonly PlanEvent[] => {
  const isEnded = plan.expiresAtMs !== null && plan.expiresAtMs <= nowMs
  return !isEnded && !plan.low && isLow(plan.totalBytes, plan.usedBytes) ? [ranLow(plan)] : []
}

/**
 * Writes a plan's counter to the log if five minutes have passed since the last time, and at once if the plan has
 * become low, exhausted or expired. `anyway` writes it before a decision that depends on the rest. A counter that the
 * log already has adds nothing. Traffic above the total is counted too.
 */
export const decideMetering = (
  state: PlanState,
  usage: { readonly usedBytes: number; readonly anyway?: boolean },
  nowMs: number,
): readonly PlanEvent[] => {
  const { plan } = state
  if (!plan) return []
  const { usedBytes, anyway: isForced = false } = usage
  // Release 0.1.0 did not record that a plan ran low. Such a plan is recorded as low even without more traffic.
  const lowTrafficEvents = lowEvents({ ...plan, usedBytes: Math.max(usedBytes, plan.usedBytes) }, nowMs)
  const { expiresAtMs, meteredAtMs } = plan
  const needsFinalMetering = expiresAtMs !== null && expiresAtMs <= nowMs && (meteredAtMs ?? 0) < expiresAtMs
  const isIntervalOver = meteredAtMs === null || nowMs - meteredAtMs >= meteringIntervalMs
  const hasNewTraffic = usedBytes > plan.usedBytes
  const isNowExhausted =
    hasNewTraffic && plan.totalBytes !== null && usedBytes >= plan.totalBytes && !plan.exhausted
  if (
    !(
      lowTrafficEvents.length > 0 ||
      isNowExhausted ||
      (hasNewTraffic && (isForced || isIntervalOver || needsFinalMetering))
    )
  )
    return []
  return [
    ...(hasNewTraffic
      ? [{ type: 'TrafficMetered', data: { bytes: usedBytes - plan.usedBytes, usedBytes } } as const]
      : []),
    ...(isNowExhausted ? [{ type: 'PlanExhausted', data: { usedBytes } } as const] : []),
    ...lowTrafficEvents,
  ]
}

/** Gives the plan's lines another password; null for a plan that was never activated. */
export const decideRotation = ({ plan }: PlanState): PlanEvent | null =>
  plan && { type: 'PlanCredentialRotated', data: { generation: plan.generation + 1 } }

/**
 * Takes back the unused units of a refunded order, once per refund: bytes of traffic, or the rest of a plan sold by
 * time, which then ends.
 */
export const decideWithdrawal = (
  state: PlanState,
  withdrawal: { readonly order: OrderDetails; readonly refundId: string },
  nowMs: number,
): readonly PlanEvent[] => {
  const { plan } = state
  const { order, refundId } = withdrawal
  if (!plan || state.withdrawn.has(refundId)) return []
  if (plan.totalBytes === null)
    return isExpired(state, nowMs) ? [] : [{ type: 'PlanExpired', data: { expiredAt: isoTime(nowMs) } }]
  const bytes = Math.min(order.bytes ?? 0, remainingBytes(plan) ?? 0)
  if (bytes === 0) return []
  return [
    { type: 'PlanUnitsWithdrawn', data: { orderId: order.orderId, refundId, bytes } },
    ...lowEvents({ ...plan, totalBytes: plan.totalBytes - bytes }, nowMs),
  ]
}
