import { countedSpan } from '../../domain/plans/traffic-budgets.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { PlanId } from '../../kernel/ids.ts'
import type { KnownPlan, KnownTrafficBudget } from '../authenticate/plan-directory.ts'
import type { AbortHandler, AbortHandlers, Denied, Spending } from '../gateway-ports.ts'
import { trafficBudgetReached } from '../refusals.ts'
import { keyOf, type PeriodTerms } from './budget.ts'
import type { Budgets, OpenBudget } from './budgets.ts'

/** What connects a tunnel to traffic budgets besides its plan; null: none. */
export type BudgetedLine = { readonly lineSet: string | null; readonly whitelistEntryId: string | null }

/** The spending of a tunnel that also counts in its traffic budgets. */
export type LimitedSpending = {
  readonly spending: Pick<Spending, 'take' | 'giveBack' | 'more'>
  /** Opens the current period of each budget. Call it once before the first byte. */
  start(): Promise<Denied | null>
  /** Calls `onReached` when one of the budgets is used up. */
  onReached(onReached: AbortHandler): void
  close(): void
}

export type TrafficBudgets = {
  limit(plan: KnownPlan, line: BudgetedLine, spending: Spending): LimitedSpending
  /** Applies new, changed, reset and removed budgets of a plan to its open tunnels. */
  apply(plan: KnownPlan): void
}

type OpenPeriod = { readonly terms: PeriodTerms; readonly budget: OpenBudget; readonly stop: () => void }

/** The traffic budgets of the open tunnels of this process. */
export const createTrafficBudgets = ({
  budgets,
  abortHandlers,
  clock,
}: {
  readonly budgets: Pick<Budgets, 'open' | 'setLimit'>
  readonly abortHandlers: AbortHandlers
  readonly clock: Clock
}): TrafficBudgets => {
  const openTunnels = new Map<PlanId, Set<(plan: KnownPlan) => void>>()

  /** The current periods of the budgets that count the bytes of a line, and the end of the first of them. */
  const periodsOf = ({ budgets }: KnownPlan, line: BudgetedLine) => {
    const nowMs = clock()
    let endsAtMs = Number.POSITIVE_INFINITY
    const periods = new Map<string, PeriodTerms>()
    for (const budget of budgets) {
      if (!isCounted(budget, line)) continue
      const { fromMs, toMs } = countedSpan(budget, budget.resetAtMs, nowMs)
      endsAtMs = Math.min(endsAtMs, toMs)
      const { budgetId, limitBytes } = budget
      const terms = {
        budgetId,
        countedFromMs: fromMs,
        limitBytes,
        reached: () => trafficBudgetReached(toMs, clock()),
      }
      periods.set(keyOf(terms), terms)
    }
    return { periods, endsAtMs }
  }

  const limit = (first: KnownPlan, line: BudgetedLine, plan: Spending): LimitedSpending => {
    let known = first
    const open = new Map<string, OpenPeriod>()
    /** The open periods are not the current ones of all budgets. */
    let isOutdated = true
    let endsAtMs = Number.POSITIVE_INFINITY
    let isClosed = false
    let running: Promise<Denied | null> | null = null
    let onReached: AbortHandler = () => undefined

    const end = (key: string, { budget, stop }: OpenPeriod): void => {
      open.delete(key)
      stop()
      budget.close()
    }
    const openCurrent = async (): Promise<Denied | null> => {
      isOutdated = false
      const current = periodsOf(known, line)
      endsAtMs = current.endsAtMs
      for (const [key, period] of open) if (!current.periods.has(key)) end(key, period)
      for (const [key, terms] of current.periods) {
        budgets.setLimit(terms)
        if (open.has(key)) continue
        const budget = await budgets.open(terms)
        if (budget.denied) {
          isOutdated = true
          return budget
        }
        if (isClosed) {
          budget.close()
          return null
        }
        const stop = abortHandlers.on(budget.spending.ended, (denied) => {
          if (clock() < endsAtMs) onReached(denied)
        })
        open.set(key, { terms, budget, stop })
      }
      return null
    }
    const bringUpToDate = async (): Promise<Denied | null> => {
      while (isPastPeriod()) {
        running ??= openCurrent().finally(() => {
          running = null
        })
        const denied = await running
        if (denied) return denied
      }
      return null
    }
    const isPastPeriod = (): boolean =>
      isOutdated || running !== null || (open.size > 0 && clock() >= endsAtMs)

    const giveBack = (periods: Iterable<OpenPeriod>, bytes: number, direction: 'up' | 'down'): void => {
      if (bytes > 0) for (const { budget } of periods) budget.spending.giveBack(bytes, direction)
    }
    const takeLimited = (wanted: number, direction: 'up' | 'down'): number => {
      let bytes = wanted
      const taken: OpenPeriod[] = []
      for (const period of open.values()) {
        const allowed = period.budget.spending.take(bytes, direction)
        giveBack(taken, bytes - allowed, direction)
        bytes = allowed
        taken.push(period)
      }
      const allowed = plan.take(bytes, direction)
      giveBack(taken, bytes - allowed, direction)
      return allowed
    }

    const apply = (plan: KnownPlan): void => {
      if (JSON.stringify(plan.budgets) !== JSON.stringify(known.budgets)) isOutdated = true
      known = plan
    }
    const tunnels = openTunnels.get(first.planId) ?? new Set()
    openTunnels.set(first.planId, tunnels.add(apply))

    return {
      start: bringUpToDate,
      onReached: (handler) => {
        onReached = handler
      },
      spending: {
        take: (wanted, direction) => {
          if (isPastPeriod()) return 0
          return open.size === 0 ? plan.take(wanted, direction) : takeLimited(wanted, direction)
        },
        giveBack: (bytes, direction) => {
          plan.giveBack(bytes, direction)
          if (open.size > 0) giveBack(open.values(), bytes, direction)
        },
        more: async (wanted, least) => {
          const denied = isPastPeriod() ? await bringUpToDate() : null
          if (denied) return denied
          if (open.size === 0) return plan.more(wanted, least)
          // All tunnels wait for their budgets in the same order and retain only earlier ones. So no two processes wait
          // for each other.
          const releases: (() => void)[] = []
          try {
            for (const [, { budget }] of [...open].sort(([one], [other]) => (one < other ? -1 : 1))) {
              const reached = await budget.spending.more(wanted, least)
              // The next `take` opens the period that follows.
              if (reached && clock() < endsAtMs) return reached
              releases.push(budget.retain())
            }
            return await plan.more(wanted, least)
          } finally {
            for (const release of releases) release()
          }
        },
      },
      close: () => {
        isClosed = true
        for (const [key, period] of open) end(key, period)
        tunnels.delete(apply)
        if (tunnels.size === 0 && openTunnels.get(first.planId) === tunnels) openTunnels.delete(first.planId)
      },
    }
  }

  return {
    limit,
    apply: (plan) => {
      for (const apply of openTunnels.get(plan.planId) ?? []) apply(plan)
    },
  }
}

const isCounted = (budget: KnownTrafficBudget, { lineSet, whitelistEntryId }: BudgetedLine): boolean => {
  if (budget.scope === 'line_set') return budget.lineSet === lineSet
  if (budget.scope === 'whitelist_entry') return budget.whitelistEntryId === whitelistEntryId
  return true
}
