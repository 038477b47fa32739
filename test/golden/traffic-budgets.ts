import {
  type BudgetTarget,
  decideBudget,
  decideBudgetRemoval,
  decideBudgetReset,
  decideReached,
  type TrafficBudgetEvent,
  type TrafficBudgetState,
  trafficBudgetIdOf,
  trafficBudgetRef,
} from '../../src/domain/plans/traffic-budgets.ts'
import type { Decided } from '../../src/kernel/decider.ts'
import type { AccountId, PlanId } from '../../src/kernel/ids.ts'
import type { History } from './history.ts'

/** A budget of an account's plan that is reached, raised, reset, removed and set again. */
export const makeTrafficBudgets = ({ fact, state }: History, accountId: AccountId, planId: PlanId): void => {
  const target: BudgetTarget = {
    scope: 'plan',
    planId,
    lineSet: null,
    whitelistEntryId: null,
    customerId: null,
    period: 'month',
  }
  const { stream, fold } = trafficBudgetRef(trafficBudgetIdOf(accountId, target))
  const decide = (decision: (before: TrafficBudgetState) => Decided<TrafficBudgetEvent>): void =>
    fact(stream, ...decision(state(stream, fold)).events)
  const set = (limitBytes: number, timeZone: string): void =>
    decide((before) => decideBudget(before, accountId, target, { limitBytes, timeZone }))
  const use = (usedBytes: number): void =>
    decide((before) => decideReached(before, { usedBytes, countedFromMs: before.resetAtMs }))
  set(1_000_000_000, 'UTC')
  use(800_000_000)
  set(1_250_000_000, 'Europe/Berlin')
  use(1_000_000_000)
  decide(decideBudgetReset)
  use(1_250_000_000)
  decide(decideBudgetRemoval)
  set(1_250_000_000, 'Europe/Berlin')
}
