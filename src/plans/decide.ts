import { isoTime } from '../clock.ts'
import { recall } from '../ledger/remembered.ts'
import type { OrderDetails } from '../orders/details.ts'
import type { PlanEvent } from './events.ts'
import type { PlanAnswer, PlanState } from './fold.ts'

const dayMs = 24 * 60 * 60 * 1000

export type PlanDecision = { readonly events: readonly PlanEvent[]; readonly answer: PlanAnswer }

/** A plan that runs out of time is over from its end on, whether or not anything recorded that yet. */
export const isExpired = (state: PlanState, nowMs: number): boolean =>
  state.plan !== null && state.plan.expiresAtMs !== null && state.plan.expiresAtMs <= nowMs

/** Bytes left to use, never below 0; null for a plan that is sold by time. */
export const remainingBytes = (plan: NonNullable<PlanState['plan']>): number | null =>
  plan.totalBytes === null ? null : Math.max(0, plan.totalBytes - plan.usedBytes)

/**
 * Activates the plan with the order's units, or adds them to it; refuses with `plan_expired` (no event: who needs the
 * refusal on record appends `recordRefusal`). An order that was answered before gets that answer.
 */
export const decidePlanOrder = (state: PlanState, order: OrderDetails, nowMs: number): PlanDecision => {
  const known = recall(state.answers, order.orderId)
  if (known) return { events: [], answer: known }
  const fulfilled: PlanAnswer = { outcome: 'fulfilled', at: isoTime(nowMs) }
  const { plan } = state
  if (plan) {
    const foreign = plan.accountId !== order.accountId || plan.customerId !== order.customerId
    if (foreign) throw new Error(`order ${order.orderId} names the plan of another account`)
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

/** Puts a refusal on record, so that no later attempt fulfils an order that is being refunded. */
export const recordRefusal = (orderId: string): PlanEvent => ({
  type: 'PlanOrderRefused',
  data: { orderId, reason: 'plan_expired' },
})

export type MeterAnswer =
  | { readonly metered: true; readonly usedBytes: number; readonly remainingBytes: number | null }
  | { readonly metered: false; readonly reason: 'unknown_plan' | 'already_reported' }

/** Counts a traffic report once. What passes the total is counted too; the plan is then exhausted. */
export const decideMetering = (
  state: PlanState,
  report: { readonly reportId: string; readonly bytes: number },
): { readonly events: readonly PlanEvent[]; readonly answer: MeterAnswer } => {
  const { plan } = state
  if (!plan) return { events: [], answer: { metered: false, reason: 'unknown_plan' } }
  if (recall(state.reports, report.reportId))
    return { events: [], answer: { metered: false, reason: 'already_reported' } }
  const usedBytes = plan.usedBytes + report.bytes
  if (!Number.isSafeInteger(usedBytes)) throw new Error('the traffic of a plan passes 9 PB')
  const events: PlanEvent[] = [
    { type: 'TrafficMetered', data: { reportId: report.reportId, bytes: report.bytes, usedBytes } },
  ]
  const empty = plan.totalBytes !== null && usedBytes >= plan.totalBytes
  if (empty && !plan.exhausted) events.push({ type: 'PlanExhausted', data: { usedBytes } })
  return {
    events,
    answer: { metered: true, usedBytes, remainingBytes: remainingBytes({ ...plan, usedBytes }) },
  }
}

/**
 * Takes back the units of a refunded order as far as they are unused: traffic by its bytes, a plan sold by time by
 * ending it. Once per refund.
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
  return bytes === 0
    ? []
    : [{ type: 'PlanUnitsWithdrawn', data: { orderId: order.orderId, refundId, bytes } }]
}
