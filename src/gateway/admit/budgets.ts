import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { TrafficReports } from '../../features/plans/index.ts'
import { type Clock, isoHour, type MonotonicClock } from '../../kernel/clock.ts'
import type { PlanId } from '../../kernel/ids.ts'
import type { Scheduler } from '../../platform/work/scheduler.ts'
import type { KnownPlan, PlanDirectory } from '../authenticate/plan-directory.ts'
import type { Denied, Spending } from '../gateway-ports.ts'
import { countTraffic } from '../workers.ts'
import { type BudgetTerms, type LeaseAnswer, type LeaseRequest, PlanBudget } from './budget.ts'

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
  onBatchTaken(step: () => void): void
  onBatchReported(step: () => void): void
  /** Calls `step` at the end of each hour, before `onBatchTaken` and while `current` still returns that hour. */
  onHourEnd(step: () => void): void
}

export const createMeteringHour = (clock: Clock): MeteringHour => {
  let hour = isoHour(clock())
  const hourSteps: (() => void)[] = []
  const takenSteps: (() => void)[] = []
  const reportedSteps: (() => void)[] = []
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
    onBatchTaken: (step) => void takenSteps.push(step),
    onBatchReported: (step) => void reportedSteps.push(step),
    onHourEnd: (step) => void hourSteps.push(step),
  }
}

/** The traffic of all plans that this gateway process serves. */
export type Budgets = {
  /**
   * Opens a tunnel on a plan's budget. Resolves when traffic is available, or with the reason why none is. Call `close`
   * once when the tunnel ends.
   */
  open(
    terms: BudgetTerms,
  ): Promise<{ readonly denied: false; readonly spending: Spending; close(): void } | Denied>
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
  readonly sequence: number
  /** The hour of the bytes. */
  readonly hour: string
  readonly consumedBytes: ReadonlyMap<PlanId, number>
  readonly rounds: ReadonlyMap<PlanId, ReturnType<PlanBudget['snapshot']>>
}

/**
 * @param dependencies `worker` is a unique name of this process, which no other process ever uses
 */
export const startBudgets = (dependencies: {
  readonly scheduler: Pick<Scheduler, 'record'>
  readonly reports: TrafficReports
  readonly leases: Leases
  readonly worker: string
  readonly meteringHour: MeteringHour
  readonly monotonicMs: MonotonicClock
  readonly logger: Pick<Logger, 'warn'>
}): Budgets => {
  const { reports, leases, worker, meteringHour, monotonicMs, logger } = dependencies
  const runRecorder = dependencies.scheduler.record(countTraffic)
  const budgets = new Map<PlanId, PlanBudget>()
  /** Replaced budgets with consumed bytes that are not reported yet. */
  const replaced = new Set<PlanBudget>()
  const registeredPlans = new Set<PlanId>()
  let sequence = 0
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
    const consumedBytes = new Map<PlanId, number>()
    const rounds = new Map<PlanId, ReturnType<PlanBudget['snapshot']>>()
    const add = (planId: PlanId, bytes: number): void => {
      if (bytes > 0) consumedBytes.set(planId, (consumedBytes.get(planId) ?? 0) + bytes)
    }
    for (const budget of replaced) add(budget.planId, budget.snapshot().consumedBytes)
    replaced.clear()
    for (const [planId, budget] of budgets) {
      const taken = budget.snapshot()
      add(planId, taken.consumedBytes)
      rounds.set(planId, taken)
    }
    sequence += 1
    const hour = meteringHour.current()
    meteringHour.batchTaken()
    return { sequence, hour, consumedBytes, rounds }
  }

  const report = async ({ sequence, hour, consumedBytes }: Batch): Promise<void> => {
    if (consumedBytes.size === 0) return
    await reports.report({ reporter: worker, sequence, hour, traffic: consumedBytes })
  }

  const renew = async ({ rounds }: Batch): Promise<void> => {
    const newPlanIds = [...rounds.keys()].filter((planId) => !registeredPlans.has(planId))
    const unknownPlanIds = new Set(newPlanIds.length > 0 ? await reports.begin(newPlanIds) : [])
    for (const planId of newPlanIds) if (!unknownPlanIds.has(planId)) registeredPlans.add(planId)
    const renewals = [...rounds].filter(([planId]) => !unknownPlanIds.has(planId))
    if (renewals.length === 0) return
    const requestedMs = monotonicMs()
    const answers = await leases.renew(renewals.map(([, { request }]) => request))
    for (const [planId, { request, isUnused }] of renewals) {
      const budget = budgets.get(planId)
      if (request.requested < 0) {
        // A tunnel may have opened meanwhile. The next round then requests a lease again.
        if (isUnused && budget?.hasNoTunnels()) budgets.delete(planId)
        continue
      }
      const answer = answers.get(planId)
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

  const budgetOf = (terms: BudgetTerms): PlanBudget => {
    const { planId } = terms
    const existing = budgets.get(planId)
    const denial = existing?.denial()
    if (existing && !(denial && denial.forMs >= retryDeniedMs)) return existing
    if (existing) replaced.add(existing)
    // There is no lease, so none can be lost.
    if (isDrained()) {
      renewedMs = monotonicMs()
      meteringHour.batchTaken()
    }
    const budget = new PlanBudget(terms, { monotonicMs, requestLease: requestRound })
    budgets.set(planId, budget)
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
    deny: (planId, denied) => budgets.get(planId)?.deny(denied),
    advanceHour: () => {
      if (!isDrained()) return
      meteringHour.batchTaken()
      meteringHour.batchReported()
    },
    openPlans: () =>
      [...budgets.values()].filter((budget) => !budget.hasNoTunnels()).map(({ planId }) => planId),
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

  return {
    /** The answer omits plans without a counter, and plans whose row is not read yet. */
    renew: async (requests: readonly LeaseRequest[]): Promise<ReadonlyMap<PlanId, LeaseAnswer>> => {
      const { rows } = await pool.query<LeaseRow>({
        name: 'gateway-lease',
        text: `select plan_id, granted, free, elsewhere, paused, total, used
                 from work.lease_traffic($1::text, $2::text[], $3::bigint[], $4::bigint[], $5::bigint, $6::int, $7::int)`,
        values: [
          worker,
          requests.map(({ planId }) => planId),
          requests.map(({ reserved: held }) => held),
          requests.map(({ requested: wanted }) => wanted),
          smallestSlab,
          share,
          expireSeconds,
        ],
      })
      const plansToGrant = new Set(
        requests.flatMap(({ planId, requested: wanted }) => (wanted > 0 ? [planId] : [])),
      )
      return new Map(
        await Promise.all(
          rows.map(async (row) => {
            const answer = plansToGrant.has(row.plan_id) ? await confirmGrant(row) : row
            return [row.plan_id, answer] as const
          }),
        ),
      )
    },
  }
}

/** Ends the leases of a process that has ended. */
export const endLeasesOf = async (pool: pg.Pool, worker: string): Promise<void> => {
  await pool.query('delete from work.gateway_leases where worker = $1::text', [worker])
}

export type Leases = ReturnType<typeof createLeases>
