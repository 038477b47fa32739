import type { Logger } from 'pino'
import type { TrafficReports } from '../../features/plans/index.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { PlanId } from '../../kernel/ids.ts'
import type { Scheduler } from '../../platform/work/scheduler.ts'
import type { Denied, Spending } from '../gateway-ports.ts'
import { countTraffic } from '../workers.ts'
import { type BudgetTerms, PlanBudget } from './budget.ts'
import type { Leases } from './leases.ts'

/** What this gateway process sells of every plan that it serves. */
export type Budgets = {
  /**
   * Lets a tunnel sell traffic of a plan: resolves once there is some to sell, or with why there is none. `leave` must be
   * called once when the tunnel ends.
   */
  enter(
    terms: BudgetTerms,
  ): Promise<{ readonly denied: false; readonly spending: Spending; leave(): void } | Denied>
  /** Cuts the plan's tunnels and lets nothing more pass. A tunnel that comes later asks anew. */
  deny(planId: PlanId, denied: Denied): void
  /** The plans that tunnels are open on. */
  open(): readonly PlanId[]
  /** Reports what was sold and renews the leases now; resolves when that is done. */
  flush(): Promise<void>
  /** Cuts nothing: ends every lease, and reports what was sold. Call it when no tunnel is left. */
  stop(): Promise<void>
}

/** A round for everything that was sold; a tunnel that starves begins one at once. */
const roundMs = countTraffic.trigger.everyMs
/** Between rounds that starving tunnels began, so that they share one. */
const batchWindowMs = 2
/** How often a round is tried that the books did not take, and one that found the rest of a plan leased elsewhere. */
const againMs = 100
/** A tunnel may ask again for a plan that was used up: a top-up acts within this time. */
const deniedForMs = 200

/** After this long without a renewal every lease counts as lost, milliseconds: others may sell its bytes soon. */
const lostMs = 50_000

type Batch = {
  readonly sequence: number
  readonly sold: ReadonlyMap<PlanId, number>
  readonly rounds: ReadonlyMap<PlanId, ReturnType<PlanBudget['snapshot']>>
}

/**
 * @param deps `worker` names this process once and for all: no other ever has the name
 */
export const startBudgets = (deps: {
  readonly scheduler: Pick<Scheduler, 'record'>
  readonly reports: TrafficReports
  readonly leases: Leases
  readonly worker: string
  readonly monotonicMs: MonotonicClock
  readonly logger: Pick<Logger, 'warn'>
}): Budgets => {
  const { reports, leases, worker, monotonicMs, logger } = deps
  const runs = deps.scheduler.record(countTraffic)
  const budgets = new Map<PlanId, PlanBudget>()
  /** Budgets that were replaced, whose last sales are not reported yet. */
  const replaced = new Set<PlanBudget>()
  const begun = new Set<PlanId>()
  let sequence = 0
  let unanswered: Batch | null = null
  let timer: NodeJS.Timeout | undefined
  let dueAtMs = Number.POSITIVE_INFINITY
  let running: Promise<void> | null = null
  /** A round was asked for while one was running that may not have seen why. */
  let again = false
  let failing = false
  let renewedMs = monotonicMs()
  let stopped = false

  const schedule = (inMs: number): void => {
    const atMs = monotonicMs() + inMs
    if (stopped || atMs >= dueAtMs) return
    dueAtMs = atMs
    clearTimeout(timer)
    timer = setTimeout(() => {
      dueAtMs = Number.POSITIVE_INFINITY
      if (running) again = true
      else void round()
    }, inMs)
  }

  const gather = (): Batch => {
    const sold = new Map<PlanId, number>()
    const rounds = new Map<PlanId, ReturnType<PlanBudget['snapshot']>>()
    const add = (planId: PlanId, bytes: number): void => {
      if (bytes > 0) sold.set(planId, (sold.get(planId) ?? 0) + bytes)
    }
    for (const budget of replaced) add(budget.planId, budget.snapshot().sold)
    replaced.clear()
    for (const [planId, budget] of budgets) {
      const taken = budget.snapshot()
      add(planId, taken.sold)
      rounds.set(planId, taken)
    }
    sequence += 1
    return { sequence, sold, rounds }
  }

  const report = async ({ sequence, sold }: Batch): Promise<void> => {
    if (sold.size === 0) return
    await reports.report({ reporter: worker, sequence, traffic: sold })
  }

  const renew = async ({ rounds }: Batch): Promise<void> => {
    const fresh = [...rounds.keys()].filter((planId) => !begun.has(planId))
    const unknown = new Set(fresh.length > 0 ? await reports.begin(fresh) : [])
    for (const planId of fresh) if (!unknown.has(planId)) begun.add(planId)
    const asked = [...rounds].filter(([planId]) => !unknown.has(planId))
    if (asked.length === 0) return
    const askedMs = monotonicMs()
    const answers = await leases.renew(asked.map(([, { request }]) => request))
    for (const [planId, { request, over }] of asked) {
      const budget = budgets.get(planId)
      if (request.wanted < 0) {
        // A tunnel may have come meanwhile: the next round leases for it again.
        if (over && budget?.unused()) budgets.delete(planId)
        continue
      }
      const answer = answers.get(planId)
      if (answer) budget?.renewed(answer, askedMs)
    }
  }

  /** What was sold under leases that may be another's by now is the customer's: it is not counted as well. */
  const forgetLost = (): void => {
    if (monotonicMs() - renewedMs < lostMs) return
    if (unanswered !== null || budgets.size > 0)
      logger.warn('traffic could not be counted for too long: what was sold meanwhile is not counted')
    unanswered = null
    replaced.clear()
    for (const budget of budgets.values()) budget.forget()
  }

  const once = async (): Promise<void> => {
    const startedMs = monotonicMs()
    if (budgets.size > 0) forgetLost()
    const batch = unanswered ?? gather()
    unanswered = batch
    await report(batch)
    await renew(batch)
    unanswered = null
    renewedMs = startedMs
  }

  const round = (): Promise<void> => {
    if (running) return running
    clearTimeout(timer)
    dueAtMs = Number.POSITIVE_INFINITY
    running = runs
      .run(once)
      .then(
        () => {
          if (failing) logger.warn('traffic is counted again')
          failing = false
        },
        (err) => {
          if (!failing)
            logger.warn({ err }, 'traffic cannot be counted: what is leased is sold, then no more')
          failing = true
        },
      )
      .finally(() => {
        running = null
        for (const budget of budgets.values()) budget.expireWaiters()
        if (budgets.size === 0 && unanswered === null) return
        const starving = [...budgets.values()].some((budget) => budget.starves())
        schedule(again && !failing ? batchWindowMs : failing || starving ? againMs : roundMs)
        again = false
      })
    return running
  }

  const need = (): void => schedule(batchWindowMs)

  const budgetOf = (terms: BudgetTerms): PlanBudget => {
    const { planId } = terms
    const before = budgets.get(planId)
    const denial = before?.denial()
    if (before && !(denial && denial.forMs >= deniedForMs)) return before
    if (before) replaced.add(before)
    // Nothing is on lease, so nothing can have been lost.
    if (budgets.size === 0 && unanswered === null && replaced.size === 0) renewedMs = monotonicMs()
    const budget = new PlanBudget(terms, { monotonicMs, need })
    budgets.set(planId, budget)
    return budget
  }

  const drained = (): boolean => unanswered === null && replaced.size === 0 && budgets.size === 0

  return {
    enter: async (terms) => {
      const budget = budgetOf(terms)
      budget.enter()
      let left = false
      const leave = (): void => {
        if (left) return
        left = true
        budget.leave()
        schedule(roundMs)
      }
      const denied = await budget.more()
      if (denied) {
        leave()
        return denied
      }
      let lease = budget.lease
      /** Under that lease, bytes. */
      let taken = 0
      const countLease = (): void => {
        if (lease === budget.lease) return
        lease = budget.lease
        taken = 0
      }
      return {
        denied: false,
        leave,
        spending: {
          take: (wanted) => {
            countLease()
            const bytes = budget.take(wanted)
            taken += bytes
            return bytes
          },
          // What was taken under a lease that was lost was not counted, and others may sell it.
          giveBack: (wanted) => {
            countLease()
            const bytes = Math.min(wanted, taken)
            taken -= bytes
            budget.giveBack(bytes)
          },
          more: (wanted, least) => budget.more(wanted, least),
          ended: budget.ended,
        },
      }
    },
    deny: (planId, denied) => budgets.get(planId)?.deny(denied),
    open: () => [...budgets.values()].filter((budget) => !budget.unused()).map(({ planId }) => planId),
    flush: async () => {
      await running
      await round()
    },
    stop: async () => {
      for (const budget of budgets.values()) budget.close()
      for (let attempt = 0; attempt < 10 && !drained(); attempt += 1) {
        await running
        await round()
        if (failing) await new Promise((done) => setTimeout(done, againMs))
      }
      stopped = true
      clearTimeout(timer)
      for (const budget of budgets.values()) budget.stop()
    },
  }
}
