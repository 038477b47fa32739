import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { alarmsOf, decideMetering, meteringIntervalMs, remainingBytes } from '../../domain/plans/decide.ts'
import type { PlanEvent } from '../../domain/plans/events.ts'
import { type PlanState, planFold } from '../../domain/plans/fold.ts'
import { type Clock, hasElapsed, isoTime } from '../../kernel/clock.ts'
import { applyDecided, decided } from '../../kernel/decider.ts'
import type { Actor } from '../../kernel/event.ts'
import { type AccountId, newId, type PlanId } from '../../kernel/ids.ts'
import { findRemembered } from '../../kernel/recent-ids.ts'
import { planStream } from '../../kernel/streams.ts'
import { CommandOverload, type CommandRunner, handle } from '../../platform/commands/command.ts'
import type { RunningWorker, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { createPages } from '../../platform/work/worklist.ts'
import {
  type Counter,
  createTrafficCounters,
  createTrafficReports,
  type DueCounter,
  dueCounters,
  type ReportAnswer,
  type SettledCounter,
  type TrafficBatch,
} from './traffic-counters.ts'

/** Gateways renew their leases twice a second. They return the unused rest of a plan whose leases are paused. */
const waitMs = 3_000
const everyMs = 20
const pauseSeconds = 5
/** The leases of a crashed gateway, which returns nothing, expire after this time. */
const leaseSeconds = 60

/**
 * Makes every gateway report the consumed bytes of a plan and return the rest. No traffic of the plan is leased for some
 * seconds, so that a decision can use the remaining bytes.
 * @throws CommandOverload if a gateway does not answer; its leases expire within a minute
 */
const recallLeases = async (pool: pg.Pool, planId: PlanId): Promise<void> => {
  const { rowCount } = await pool.query({
    name: 'traffic-pause',
    text: `update work.traffic set leases_paused_until = clock_timestamp() + make_interval(secs => ${pauseSeconds})
            where plan_id = $1::text`,
    values: [planId],
  })
  if (rowCount === 0) return
  const deadlineMs = performance.now() + waitMs
  for (;;) {
    const { rows } = await pool.query<{ readonly held: boolean }>({
      name: 'traffic-held',
      text: `select exists (select from work.gateway_leases
                             where plan_id = $1::text and bytes > 0
                               and renewed_at > clock_timestamp() - make_interval(secs => ${leaseSeconds})) as held`,
      values: [planId],
    })
    if (!rows[0]?.held) return
    if (performance.now() >= deadlineMs)
      throw new CommandOverload(
        'a gateway does not answer and may still consume traffic of this plan; try again in a minute',
        leaseSeconds,
      )
    await sleep(everyMs)
  }
}

type MeterAnswer =
  | { readonly metered: true; readonly usedBytes: number; readonly remainingBytes: number | null }
  | { readonly metered: false; readonly reason: 'unknown_plan' | 'already_reported' }

/** The only interface for metering a plan. A reported batch is durable and counted once. */
export type Meter = {
  /**
   * Counts a batch: one commit for any number of plans, so that a gateway sums its connections and sends about once a
   * second. A plan that passes an alarm (low, exhausted) is in the log when this returns, or soon after if the log is
   * down.
   */
  report(batch: TrafficBatch): Promise<ReportAnswer>
  /** Counts one report with its own id. An id is counted once in seven days. */
  reportOnce(report: {
    readonly planId: PlanId
    readonly reportId: string
    readonly bytes: number
  }): Promise<MeterAnswer>
  /**
   * Writes the plan's counter to the log before a decision that uses the remaining bytes. Gateways lease no traffic of
   * the plan for some seconds after it.
   * @throws CommandOverload if a gateway does not return its leased bytes
   */
  settle(planId: PlanId): Promise<void>
  /** Writes due counters to the log. Returns the number of checked plans. */
  sweep(): Promise<number>
  /** Deletes reporters without recent reports. */
  forget(): Promise<void>
}

const sweepBatchSize = 500

export const createMeter = (dependencies: {
  readonly pool: pg.Pool
  readonly runner: CommandRunner
  readonly clock: Clock
  readonly logger: { error(fields: object, message: string): void }
  /** The actor of `TrafficMetered`. Default: the system. */
  readonly actor?: Actor
  readonly correlationId?: string
}): Meter => {
  const { pool, runner, clock, logger, actor = { kind: 'system', name: 'metering' } } = dependencies
  const counters = createTrafficCounters(pool)

  const run = async (
    planId: PlanId,
    account: AccountId | null,
    decide: (state: PlanState, nowMs: number) => readonly PlanEvent[],
  ) => {
    const { state, alarms, changed } = await handle(
      runner,
      {
        name: 'log-traffic',
        actor,
        correlationId: dependencies.correlationId ?? newId('run'),
        ...(account !== null && { account }),
      },
      { stream: planStream(planId), fold: planFold },
      (before, { nowMs }) => {
        const events = decide(before, nowMs)
        const state = applyDecided(planFold, before, events, nowMs)
        return { ...decided(...events), state, alarms: alarmsOf(state, nowMs) }
      },
    )
    return { state, alarms, logged: changed }
  }

  const due = createPages<DueCounter>(pool, {
    ...dueCounters,
    values: () => [isoTime(clock() - meteringIntervalMs), isoTime(clock())],
    limit: sweepBatchSize,
  })

  /** The current state of the plan in the log. */
  const readPlanState = (planId: PlanId) => run(planId, null, () => [])

  const log = async (planIds: readonly PlanId[], isForced: boolean): Promise<void> => {
    const settleOne = async ({ planId, accountId, usedBytes }: Counter): Promise<SettledCounter> => {
      const { state, logged, alarms } = await run(planId, accountId, (plan, nowMs) =>
        decideMetering(plan, { usedBytes, anyway: isForced }, nowMs),
      )
      return { planId, loggedBytes: state.plan?.usedBytes ?? 0, logged, alarms }
    }
    // Concurrent commands are appended in one batch.
    const outcomes = await Promise.allSettled((await counters.read(planIds)).map(settleOne))
    const settled = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))
    if (settled.length > 0) await counters.settle(settled, clock())
    const failed = outcomes.find((outcome) => outcome.status === 'rejected')
    if (failed) throw failed.reason
  }

  const reports = createTrafficReports({
    counters,
    clock,
    plan: async (planId) => {
      const { state, alarms } = await readPlanState(planId)
      if (!state.plan) return null
      return { accountId: state.plan.accountId as AccountId, usedBytes: state.plan.usedBytes, alarms }
    },
  })

  const report: Meter['report'] = async (batch) => {
    const answer = await reports.report(batch)
    if (!answer.counted) return answer
    const { alarmed } = answer
    if (alarmed.length > 0)
      // The bytes are already durable. If the log is not available now, the next sweep writes them.
      await log(alarmed, false).catch((err) =>
        logger.error({ err, planIds: alarmed }, 'traffic was counted and is written to the log later'),
      )
    return answer
  }

  return {
    report,
    reportOnce: async ({ planId, reportId, bytes }) => {
      const { state } = await readPlanState(planId)
      if (!state.plan) return { metered: false, reason: 'unknown_plan' }
      // Release 0.1.0 stored the ids of reports in the log.
      if (findRemembered(state.reports, reportId)) return { metered: false, reason: 'already_reported' }
      const answer = await report({
        reporter: `${planId}/${reportId}`,
        sequence: 1,
        traffic: new Map([[planId, bytes]]),
      })
      if (!answer.counted) return { metered: false, reason: 'already_reported' }
      const usedBytes = answer.usedBytes.get(planId) ?? 0
      return { metered: true, usedBytes, remainingBytes: remainingBytes({ ...state.plan, usedBytes }) }
    },
    settle: async (planId) => {
      await recallLeases(pool, planId)
      await log([planId], true)
    },
    sweep: async () => {
      const dueRows = await due()
      if (dueRows.length > 0)
        await log(
          dueRows.map(({ plan_id: planId }) => planId),
          false,
        )
      return dueRows.length
    },
    forget: () => counters.deleteIdleReporters(clock()),
  }
}

export const trafficSweep = worker({
  name: 'traffic-sweep',
  about: 'Writes the traffic of plans to the log',
  // A gateway reports twice a second. A webhook receiver is notified of a low plan within two seconds.
  trigger: { everyMs: 500, quietMs: 10_000 },
  per: 'process',
  process: 'server',
})
const cleanupIntervalMs = 60 * 60 * 1000

/**
 * Writes due counters to the log, including those of crashed processes. Several processes may run it: a counter that is
 * already in the log adds nothing.
 */
export const startTrafficSweep = (dependencies: {
  readonly scheduler: Scheduler
  readonly meter: Meter
  readonly clock: Clock
}): RunningWorker => {
  const { scheduler, meter, clock } = dependencies
  let cleanedUpAtMs = Number.NEGATIVE_INFINITY
  return scheduler.start(trafficSweep, async () => {
    await meter.sweep()
    if (!hasElapsed(cleanedUpAtMs, clock(), cleanupIntervalMs)) return
    cleanedUpAtMs = clock()
    await meter.forget()
  })
}
