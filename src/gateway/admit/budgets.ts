import type { Logger } from 'pino'
import type { TrafficReports } from '../../features/plans/index.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { PlanId } from '../../kernel/ids.ts'
import type { Scheduler } from '../../platform/work/scheduler.ts'
import type { Denied, Spending } from '../gateway-ports.ts'
import { countTraffic } from '../workers.ts'
import { type BudgetTerms, PlanBudget } from './budget.ts'
import type { Leases } from './leases.ts'

/** The traffic of all plans that this gateway process serves. */
export type Budgets = {
  /**
   * Opens a tunnel on a plan's budget. Resolves when traffic is available, or with the reason why none is. Call `leave`
   * once when the tunnel ends.
   */
  enter(
    terms: BudgetTerms,
  ): Promise<{ readonly denied: false; readonly spending: Spending; leave(): void } | Denied>
  /** Cuts the plan's tunnels and passes no more traffic. A later tunnel requests a new lease. */
  deny(planId: PlanId, denied: Denied): void
  /** The plans with open tunnels. */
  open(): readonly PlanId[]
  /** Reports consumed bytes and renews the leases now. Resolves when both are done. */
  flush(): Promise<void>
  /** Ends every lease and reports consumed bytes. Cuts no tunnel: call it when no tunnel is open. */
  stop(): Promise<void>
}

/** Between regular rounds, milliseconds. A tunnel that needs a lease starts a round at once. */
const roundMs = countTraffic.trigger.everyMs
/** Delay of a round that a tunnel started, milliseconds, so that several tunnels share it. */
const batchWindowMs = 2
/** Delay of the next round after one that failed, or that found the rest of a plan leased elsewhere, milliseconds. */
const againMs = 100
/** A used-up plan is requested again after this time, milliseconds. So a top-up has effect within it. */
const deniedForMs = 200

/** After this long without a renewal all leases count as lost, milliseconds: others may soon lease their bytes. */
const lostMs = 50_000

type Batch = {
  readonly sequence: number
  readonly sold: ReadonlyMap<PlanId, number>
  readonly rounds: ReadonlyMap<PlanId, ReturnType<PlanBudget['snapshot']>>
}

/**
 * @param deps `worker` is a unique name of this process, which no other process ever uses
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
  /** Replaced budgets with consumed bytes that are not reported yet. */
  const replaced = new Set<PlanBudget>()
  const begun = new Set<PlanId>()
  let sequence = 0
  let unanswered: Batch | null = null
  let timer: NodeJS.Timeout | undefined
  let dueAtMs = Number.POSITIVE_INFINITY
  let running: Promise<void> | null = null
  /** A round was requested while another one was running, which may have started too early for it. */
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
        // A tunnel may have opened meanwhile. The next round then requests a lease again.
        if (over && budget?.unused()) budgets.delete(planId)
        continue
      }
      const answer = answers.get(planId)
      if (answer) budget?.renewed(answer, askedMs)
    }
  }

  /**
   * Drops bytes consumed under leases that another process may have by now. They stay unbilled, to avoid a double
   * charge.
   */
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
    // There is no lease, so none can be lost.
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
      /** Bytes taken under `lease`. */
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
          // Bytes of a lost lease were not counted, and other processes may consume them.
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
