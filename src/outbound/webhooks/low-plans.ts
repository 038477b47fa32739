import type {
  PlanRanLow,
  PlanToppedUp,
  PlanUnitsWithdrawn,
  TrafficMetered,
} from '../../market/plans/events.ts'
import { isLow } from '../../market/plans/low.ts'
import type { RecordedEvent } from '../../platform/eventstore/event.ts'

/** A plan that is low, as the fact says that made it so and those that came after. */
export type LowPlan = Omit<PlanRanLow['data'], 'customerId'>

const prefix = 'plan-'

/**
 * The plans that are low, folded in log order: so a new endpoint is told of each plan that is low at its position.
 * Facts of plans that are not low cost one look-up. An expired plan is low no more.
 */
export const createLowPlans = (initial: Iterable<LowPlan>) => {
  const plans = new Map<string, LowPlan>()
  const byAccount = new Map<string, Set<string>>()

  const put = (plan: LowPlan): void => {
    plans.set(plan.planId, plan)
    const known = byAccount.get(plan.accountId)
    if (known) known.add(plan.planId)
    else byAccount.set(plan.accountId, new Set([plan.planId]))
  }
  const remove = (plan: LowPlan): void => {
    plans.delete(plan.planId)
    const known = byAccount.get(plan.accountId)
    known?.delete(plan.planId)
    if (known?.size === 0) byAccount.delete(plan.accountId)
  }
  for (const plan of initial) put(plan)

  const changeTo = (plan: LowPlan): void => {
    if (isLow(plan.totalBytes, plan.usedBytes)) put(plan)
    else remove(plan)
  }

  return {
    /** The id of the plan that changed, or null. */
    fold(event: RecordedEvent): string | null {
      if (event.type === 'PlanRanLow') {
        const { data } = event as RecordedEvent<PlanRanLow>
        put(data)
        return data.planId
      }
      if (plans.size === 0 || !event.stream.startsWith(prefix)) return null
      const plan = plans.get(event.stream.slice(prefix.length))
      if (!plan) return null
      switch (event.type) {
        case 'PlanToppedUp': {
          const { bytes } = (event as RecordedEvent<PlanToppedUp>).data
          changeTo({ ...plan, totalBytes: plan.totalBytes + bytes })
          return plan.planId
        }
        case 'PlanUnitsWithdrawn': {
          const { bytes } = (event as RecordedEvent<PlanUnitsWithdrawn>).data
          changeTo({ ...plan, totalBytes: plan.totalBytes - bytes })
          return plan.planId
        }
        case 'TrafficMetered':
          changeTo({ ...plan, usedBytes: (event as RecordedEvent<TrafficMetered>).data.usedBytes })
          return plan.planId
        case 'PlanExpired':
          remove(plan)
          return plan.planId
        default:
          return null
      }
    },
    get: (planId: string): LowPlan | undefined => plans.get(planId),
    /** Plans of an account that are low at an instant, ISO 8601. */
    of: (accountId: string, at: string): readonly LowPlan[] =>
      [...(byAccount.get(accountId) ?? [])]
        .map((planId) => plans.get(planId)!)
        .filter(({ expiresAt }) => expiresAt === null || expiresAt > at),
  }
}

export type LowPlans = ReturnType<typeof createLowPlans>

/** The payload of `plan.low_traffic` (spec.md, "Plan snapshot") less what is added when it is sent: label and product name. */
export const lowPlanData = ({ planId, productId, totalBytes, usedBytes, expiresAt }: LowPlan) => ({
  planId,
  productId,
  totalBytes,
  remainingBytes: Math.max(0, totalBytes - usedBytes),
  expiresAt,
})
