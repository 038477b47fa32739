import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { BudgetedTraffic, TrafficReports } from '../../features/plans/index.ts'
import { type Clock, isoHour, isoTime, type MonotonicClock } from '../../kernel/clock.ts'
import type { PlanId } from '../../kernel/ids.ts'
import type { Scheduler } from '../../platform/work/scheduler.ts'
import type { KnownPlan, PlanDirectory } from '../authenticate/plan-directory.ts'
import type { Denied, Spending } from '../gateway-ports.ts'
import { countTraffic } from '../workers.ts'
import {
  Budget,
  type BudgetTerms,
  isPlan,
  keyOf,
  type LeaseAnswer,
  type LeaseRequest,
  type PeriodTerms,
} from './budget.ts'
import type { Reporter } from './reporter.ts'

/**
 * The hour that a process meters its bytes in. It changes only between two batches of metered bytes, never within one.
 * So the traffic records of an hour and its metered bytes contain the same bytes.
 */
export type MeteringHour = {
  /** The start of the hour (ISO 8601). */
  current(): string
  /** Call it in the same step that takes all consumed bytes for a batch. Begins the next hour if it is time. */
  batchTaken(): void
  /** The bytes of all taken batches are counted in Postgres. */
  batchReported(): void
  /** All consumed bytes that are not counted will never be. */
  batchLost(): void
  onBatchTaken(step: () => void): void
  onBatchReported(step: () => void): void
  onBatchLost(step: () => void): void
  /** Calls `step` at the end of each hour, before `onBatchTaken` and while `current` still returns that hour. */
  onHourEnd(step: () => void): void
}

export const createMeteringHour = (clock: Clock): MeteringHour => {
  let hour = isoHour(clock())
  const hourSteps: (() => void)[] = []
  const takenSteps: (() => void)[] = []
  const reportedSteps: (() => void)[] = []
  const lostSteps: (() => void)[] = []
  return {
    current: () => hour,
    batchTaken: () => {
      const nextHour = isoHour(clock())
      if (nextHour > hour) for (const step of hourSteps) step()
      for (const step of takenSteps) step()
      if (nextHour > hour) hour = nextHour
    },
    batchReported: () => {
      for (const step of reportedSteps) step()
    },
    batchLost: () => {
      for (const step of lostSteps) step()
    },
    onBatchTaken: (step) => void takenSteps.push(step),
    onBatchReported: (step) => void reportedSteps.push(step),
    onBatchLost: (step) => void lostSteps.push(step),
    onHourEnd: (step) => void hourSteps.push(step),
  }
}

/** A tunnel on a budget. Call `close` once when it ends. */
export type OpenBudget = {
  readonly denied: false
  readonly spending: Spending
  /** Retains the available bytes of this process while the tunnel waits for another budget. */
  retain(): () => void
  close(): void
}

/** The traffic of all plans and traffic budgets that this gateway process serves. */
export type Budgets = {
  /** Opens a tunnel on a budget. Resolves when traffic is available, or with the reason why none is. */
  open(terms: BudgetTerms): Promise<OpenBudget | Denied>
  /** Changes the limit of an open period. */
  setLimit(terms: PeriodTerms): void
  /** Cuts the plan's tunnels and passes no more traffic. A later tunnel requests a new lease. */
  deny(planId: PlanId, denied: Denied): void
  /** Begins the next metering hour if it is time. Does nothing while bytes may wait for their report. */
  advanceHour(): void
  /** The plans with open tunnels. */
  openPlans(): readonly PlanId[]
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
const retryMs = 100
/** A used-up plan is requested again after this time, milliseconds. So a top-up has effect within it. */
const retryDeniedMs = 200

/** After this long without a renewal all leases count as lost, milliseconds: others may soon lease their bytes. */
const leaseLostMs = 50_000

type Batch = {
  /** The hour of the bytes. */
  readonly hour: string
  readonly consumed: readonly { readonly terms: BudgetTerms; readonly bytes: number }[]
  readonly rounds: ReadonlyMap<string, ReturnType<Budget['snapshot']> & { readonly terms: BudgetTerms }>
}

/**
 * @param dependencies `reporter` sends no batches but these
 */
export const startBudgets = (dependencies: {
  readonly scheduler: Pick<Scheduler, 'record'>
  readonly reports: TrafficReports
  readonly leases: Leases
  readonly reporter: Reporter
  readonly meteringHour: MeteringHour
  readonly monotonicMs: MonotonicClock
  readonly logger: Pick<Logger, 'warn'>
}): Budgets => {
  const { reports, leases, reporter, meteringHour, monotonicMs, logger } = dependencies
  const runRecorder = dependencies.scheduler.record(countTraffic)
  /** By `keyOf` their terms. */
  const budgets = new Map<string, Budget>()
  /** Replaced budgets with consumed bytes that are not reported yet. */
  const replaced = new Set<Budget>()
  const registeredPlans = new Set<PlanId>()
  let pendingBatch: Batch | null = null
  let timer: NodeJS.Timeout | undefined
  let dueAtMs = Number.POSITIVE_INFINITY
  let runningRound: Promise<void> | null = null
  /** A round was requested while another one was running, which may have started too early for it. */
  let isRoundRequested = false
  let isFailing = false
  let renewedMs = monotonicMs()
  let isStopped = false

  const schedule = (delayMs: number): void => {
    const atMs = monotonicMs() + delayMs
    if (isStopped || atMs >= dueAtMs) return
    dueAtMs = atMs
    clearTimeout(timer)
    timer = setTimeout(() => {
      dueAtMs = Number.POSITIVE_INFINITY
      if (runningRound) isRoundRequested = true
      else void round()
    }, delayMs)
  }

  const collectBatch = (): Batch => {
    const rounds: Map<string, ReturnType<Budget['snapshot']> & { readonly terms: BudgetTerms }> = new Map()
    const consumed = new Map<string, { readonly terms: BudgetTerms; readonly bytes: number }>()
    const add = (key: string, terms: BudgetTerms, bytes: number): void => {
      if (bytes > 0) consumed.set(key, { terms, bytes: (consumed.get(key)?.bytes ?? 0) + bytes })
    }
    for (const budget of replaced) add(keyOf(budget.terms), budget.terms, budget.snapshot().consumedBytes)
    replaced.clear()
    for (const [key, budget] of budgets) {
      const taken = budget.snapshot()
      add(key, budget.terms, taken.consumedBytes)
      rounds.set(key, { ...taken, terms: budget.terms })
    }
    reporter.nextBatch()
    const hour = meteringHour.current()
    meteringHour.batchTaken()
    return { hour, consumed: [...consumed.values()], rounds }
  }

  const report = async ({ hour, consumed }: Batch): Promise<void> => {
    if (consumed.length === 0) return
    const traffic = new Map<PlanId, number>()
    const budgeted: BudgetedTraffic[] = []
    for (const { terms, bytes } of consumed)
      if (isPlan(terms)) traffic.set(terms.planId, bytes)
      else budgeted.push({ budgetId: terms.budgetId, countedFromMs: terms.countedFromMs, bytes })
    await reporter.send(async (name, sequence) => {
      const { counted } = await reports.report({ reporter: name, sequence, hour, traffic, budgeted })
      return counted
    })
  }

  const renew = async ({ rounds }: Batch): Promise<void> => {
    const newPlanIds = [...rounds.values()].flatMap(({ terms }) =>
      isPlan(terms) && !registeredPlans.has(terms.planId) ? [terms.planId] : [],
    )
    const unknownPlanIds = new Set<string>(newPlanIds.length > 0 ? await reports.begin(newPlanIds) : [])
    for (const planId of newPlanIds) if (!unknownPlanIds.has(planId)) registeredPlans.add(planId)
    const renewals = [...rounds].filter(([key]) => !unknownPlanIds.has(key))
    if (renewals.length === 0) return
    const requestedMs = monotonicMs()
    const answers = await leases.renew(renewals.map(([, { request, terms }]) => ({ ...request, terms })))
    for (const [key, { request, isUnused }] of renewals) {
      const budget = budgets.get(key)
      if (request.requested < 0) {
        // A tunnel may have opened meanwhile. The next round then requests a lease again.
        if (isUnused && budget?.hasNoTunnels()) budgets.delete(key)
        continue
      }
      const answer = answers.get(key)
      if (answer) budget?.applyLease(answer, requestedMs)
    }
  }

  /**
   * Drops bytes consumed under leases that another process may have by now. They stay unbilled, to avoid a double
   * charge.
   */
  const forgetLost = (): void => {
    if (monotonicMs() - renewedMs < leaseLostMs) return
    if (pendingBatch !== null || budgets.size > 0)
      logger.warn('traffic reports failed for too long: the bytes consumed meanwhile stay unbilled')
    pendingBatch = null
    replaced.clear()
    for (const budget of budgets.values()) budget.dropLease()
    meteringHour.batchLost()
  }

  const runRound = async (): Promise<void> => {
    const startedMs = monotonicMs()
    if (budgets.size > 0) forgetLost()
    const batch = pendingBatch ?? collectBatch()
    pendingBatch = batch
    await report(batch)
    meteringHour.batchReported()
    await renew(batch)
    pendingBatch = null
    renewedMs = startedMs
  }

  const round = (): Promise<void> => {
    if (runningRound) return runningRound
    clearTimeout(timer)
    dueAtMs = Number.POSITIVE_INFINITY
    runningRound = runRecorder
      .run(runRound)
      .then(
        () => {
          if (isFailing) logger.warn('traffic is reported again')
          isFailing = false
        },
        (err) => {
          if (!isFailing)
            logger.warn({ err }, 'traffic reports fail: tunnels continue until their leases are used up')
          isFailing = true
        },
      )
      .finally(() => {
        runningRound = null
        for (const budget of budgets.values()) budget.expireWaiters()
        if (budgets.size === 0 && pendingBatch === null) return
        const isStarving = [...budgets.values()].some((budget) => budget.isStarving())
        schedule(isRoundRequested && !isFailing ? batchWindowMs : isFailing || isStarving ? retryMs : roundMs)
        isRoundRequested = false
      })
    return runningRound
  }

  const requestRound = (): void => schedule(batchWindowMs)

  const budgetOf = (terms: BudgetTerms): Budget => {
    const key = keyOf(terms)
    const existing = budgets.get(key)
    const denial = existing?.denial()
    if (existing && !(denial && denial.forMs >= retryDeniedMs)) return existing
    if (existing) replaced.add(existing)
    // There is no lease, so none can be lost.
    if (isDrained()) {
      renewedMs = monotonicMs()
      meteringHour.batchTaken()
    }
    const budget = new Budget(terms, { monotonicMs, requestLease: requestRound })
    budgets.set(key, budget)
    return budget
  }

  const isDrained = (): boolean => pendingBatch === null && replaced.size === 0 && budgets.size === 0

  return {
    open: async (terms) => {
      const budget = budgetOf(terms)
      budget.openTunnel()
      const close = (): void => {
        budget.closeTunnel()
        schedule(roundMs)
      }
      const denied = await budget.more()
      if (denied) {
        close()
        return denied
      }
      let lease = budget.lease
      /** Bytes taken under `lease`. */
      let taken = 0
      const resetOnNewLease = (): void => {
        if (lease === budget.lease) return
        lease = budget.lease
        taken = 0
      }
      return {
        denied: false,
        close,
        retain: () => budget.retain(),
        spending: {
          take: (wanted) => {
            resetOnNewLease()
            const bytes = budget.take(wanted)
            taken += bytes
            return bytes
          },
          // Bytes of a lost lease were not counted, and other processes may consume them.
          giveBack: (wanted) => {
            resetOnNewLease()
            const bytes = Math.min(wanted, taken)
            taken -= bytes
            budget.giveBack(bytes)
          },
          more: (wanted, least) => budget.more(wanted, least),
          ended: budget.ended,
        },
      }
    },
    setLimit: (terms) => budgets.get(keyOf(terms))?.setLimit(terms),
    deny: (planId, denied) => budgets.get(planId)?.deny(denied),
    advanceHour: () => {
      if (!isDrained()) return
      meteringHour.batchTaken()
      meteringHour.batchReported()
    },
    openPlans: () =>
      [...budgets.values()].flatMap((budget) =>
        isPlan(budget.terms) && !budget.hasNoTunnels() ? [budget.terms.planId] : [],
      ),
    flush: async () => {
      await runningRound
      await round()
    },
    stop: async () => {
      for (const budget of budgets.values()) budget.close()
      for (let attempt = 0; attempt < 10 && !isDrained(); attempt += 1) {
        await runningRound
        await round()
        if (isFailing) await new Promise((done) => setTimeout(done, retryMs))
      }
      isStopped = true
      clearTimeout(timer)
      for (const budget of budgets.values()) budget.stop()
    },
  }
}

/**
 * After this long, seconds, other processes may lease the bytes of a process that does not renew. That process stopped
 * at half of this time, by its monotonic clock. Bytes that it consumed and did not report are unbilled.
 */
const expireSeconds = 60

/** The smallest slab, unless less is left, bytes. */
const smallestSlab = 64 * 1024

/** One process gets at most this fraction (1/8) of the remaining bytes at once, so slabs shrink as a plan runs low. */
const share = 8

const maxPlans = 50_000

type LeaseRow = LeaseAnswer & {
  readonly plan_id: PlanId
  /** Total and used bytes of the plan, from the row and the counter that the lease was calculated with. */
  readonly total: number | null
  readonly used: number
}

type Renewal = LeaseRequest & { readonly terms: BudgetTerms }

/** Leases of this process, in whole bytes. Any number of plans needs one round trip and one commit. */
export const createLeases = (dependencies: {
  readonly pool: pg.Pool
  readonly worker: string
  /** Reads the plan from the log (plan-directory.ts). */
  readonly findPlan: PlanDirectory['find']
  readonly monotonicMs: MonotonicClock
}) => {
  const { pool, worker, findPlan, monotonicMs } = dependencies

  const lastSeen = new LRUCache<PlanId, KnownPlan>({ max: maxPlans })

  const planOf = async (planId: PlanId, total: number): Promise<KnownPlan | null> => {
    try {
      const known = await findPlan(planId)
      // A top-up may have been appended since the plan was read.
      const plan = (known?.totalBytes ?? 0) < total ? await findPlan(planId, monotonicMs()) : known
      if (plan) lastSeen.set(planId, plan)
      return plan
    } catch (error) {
      // While the log is unavailable, open tunnels continue with the plan as last read.
      const plan = lastSeen.get(planId)
      if (plan) return plan
      throw error
    }
  }

  /** Limits a grant to the bytes that the plan has left by the log, because SQL can change a row and a counter. */
  const confirmGrant = async ({ plan_id, total, used, ...answer }: LeaseRow): Promise<LeaseAnswer> => {
    if (total === null || answer.free === null) return answer
    const plan = await planOf(plan_id, total)
    const overstatedBytes =
      Math.max(0, total - (plan?.totalBytes ?? 0)) + Math.max(0, (plan?.usedBytes ?? 0) - used)
    const free = Math.max(0, answer.free - overstatedBytes)
    return { ...answer, free, granted: Math.min(answer.granted, free) }
  }

  const renewPeriods = async (
    requests: readonly (Renewal & { readonly terms: PeriodTerms })[],
  ): Promise<readonly (readonly [string, LeaseAnswer])[]> => {
    const { rows } = await pool.query<
      Omit<LeaseAnswer, 'paused'> & { budget_id: string; counted_from: string }
    >({
      name: 'gateway-lease-budgets',
      text: `select budget_id, counted_from, granted, free, elsewhere
               from work.lease_traffic_budgets($1::text, $2::text[], $3::timestamptz[], $4::bigint[], $5::bigint[],
                                               $6::bigint[], $7::bigint, $8::int, $9::int)`,
      values: [
        worker,
        requests.map(({ terms }) => terms.budgetId),
        requests.map(({ terms }) => isoTime(terms.countedFromMs)),
        requests.map(({ terms }) => terms.limitBytes),
        requests.map(({ reserved: held }) => held),
        requests.map(({ requested: wanted }) => wanted),
        smallestSlab,
        share,
        expireSeconds,
      ],
    })
    return rows.map(({ budget_id: budgetId, counted_from: countedFrom, ...answer }) => [
      `${budgetId} ${Date.parse(countedFrom)}`,
      { ...answer, paused: false },
    ])
  }

  const renewPlans = async (
    requests: readonly LeaseRequest[],
  ): Promise<readonly (readonly [string, LeaseAnswer])[]> => {
    const { rows } = await pool.query<LeaseRow>({
      name: 'gateway-lease',
      text: `select plan_id, granted, free, elsewhere, paused, total, used
                 from work.lease_traffic($1::text, $2::text[], $3::bigint[], $4::bigint[], $5::bigint, $6::int, $7::int)`,
      values: [
        worker,
        requests.map(({ key }) => key),
        requests.map(({ reserved: held }) => held),
        requests.map(({ requested: wanted }) => wanted),
        smallestSlab,
        share,
        expireSeconds,
      ],
    })
    const plansToGrant = new Set<string>(
      requests.flatMap(({ key, requested: wanted }) => (wanted > 0 ? [key] : [])),
    )
    return Promise.all(
      rows.map(async (row) => {
        const answer = plansToGrant.has(row.plan_id) ? await confirmGrant(row) : row
        return [row.plan_id, answer] as const
      }),
    )
  }

  return {
    /** By key. The answer omits plans without a counter, and plans whose row is not read yet. */
    renew: async (requests: readonly Renewal[]): Promise<ReadonlyMap<string, LeaseAnswer>> => {
      const plans = requests.filter(({ terms }) => isPlan(terms))
      const periods = requests.flatMap(({ terms, ...request }) =>
        isPlan(terms) ? [] : [{ ...request, terms }],
      )
      const answers = await Promise.all([
        plans.length === 0 ? [] : renewPlans(plans),
        periods.length === 0 ? [] : renewPeriods(periods),
      ])
      return new Map(answers.flat())
    },
  }
}

/** Ends the leases of a process that has ended. */
export const endLeasesOf = async (pool: pg.Pool, worker: string): Promise<void> => {
  await pool.query(
    `with periods as (delete from work.traffic_budget_leases where worker = $1::text)
     delete from work.gateway_leases where worker = $1::text`,
    [worker],
  )
}

export type Leases = ReturnType<typeof createLeases>
