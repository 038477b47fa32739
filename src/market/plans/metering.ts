import type pg from 'pg'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { type AccountId, newId, type PlanId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import { handle } from '../../platform/eventstore/commands/handle.ts'
import { decided } from '../../platform/eventstore/decision.ts'
import type { Actor } from '../../platform/eventstore/event.ts'
import { foldedOn } from '../../platform/eventstore/fold.ts'
import { recall } from '../../platform/eventstore/remembered.ts'
import { createPages } from '../../platform/work/worklist.ts'
import { planStream } from '../../terms/streams.ts'
import { alarmsOf, decideMetering, meteringIntervalMs, remainingBytes } from './decide.ts'
import type { PlanEvent } from './events.ts'
import { type PlanState, planFold } from './fold.ts'
import { recallLeases } from './recall-leases.ts'
import {
  type Counter,
  createTrafficCounters,
  type DueCounter,
  dueCounters,
  type Settled,
  type TrafficBatch,
} from './traffic-counters.ts'
import { createTrafficReports } from './traffic-reports.ts'

export type BatchAnswer =
  | {
      readonly counted: true
      /** Each plan's used bytes, this batch included. */
      readonly usedBytes: ReadonlyMap<PlanId, number>
      /** Ids that no plan has: of these nothing was counted. */
      readonly unknown: readonly PlanId[]
    }
  /** The reporter's last batch, or an older one, was sent again. */
  | { readonly counted: false }

export type MeterAnswer =
  | { readonly metered: true; readonly usedBytes: number; readonly remainingBytes: number | null }
  | { readonly metered: false; readonly reason: 'unknown_plan' | 'already_reported' }

/** The one port that whatever meters a plan reports through. What it answered is durable and counted once. */
export type Meter = {
  /**
   * Counts a batch: one commit for any number of plans, so a gateway sums its connections and sends about once a second.
   * A plan that passes an alarm (low, exhausted) is in the log when this returns, or soon after when the log is down.
   */
  report(batch: TrafficBatch): Promise<BatchAnswer>
  /** One report under a name of its own; the name is counted once in seven days. */
  reportOnce(report: {
    readonly planId: PlanId
    readonly reportId: string
    readonly bytes: number
  }): Promise<MeterAnswer>
  /**
   * Writes the plan's counter to the log before something is decided on what is left of it. Gateways sell nothing of the
   * plan for some seconds after it.
   * @throws CommandOverload when a gateway does not give back what it holds
   */
  settle(planId: PlanId): Promise<void>
  /** Writes what is due to the log; the number of plans looked at. */
  sweep(): Promise<number>
  /** Forgets reporters that have long been silent. */
  forget(): Promise<void>
}

const sweptAtOnce = 500

export const createMeter = (deps: {
  readonly pool: pg.Pool
  readonly runner: CommandRunner
  readonly clock: Clock
  readonly logger: { error(fields: object, message: string): void }
  /** Who reports: the actor of `TrafficMetered`. Default: the system. */
  readonly actor?: Actor
  readonly correlationId?: string
}): Meter => {
  const { pool, runner, clock, logger, actor = { kind: 'system', name: 'metering' } } = deps
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
        correlationId: deps.correlationId ?? newId('run'),
        ...(account !== null && { account }),
      },
      { stream: planStream(planId), fold: planFold },
      (before, { nowMs }) => {
        const events = decide(before, nowMs)
        const state = foldedOn(planFold, before, events, nowMs)
        return { ...decided(...events), state, alarms: alarmsOf(state, nowMs) }
      },
    )
    return { state, alarms, logged: changed }
  }

  const due = createPages<DueCounter>(pool, {
    ...dueCounters,
    values: () => [isoTime(clock() - meteringIntervalMs), isoTime(clock())],
    limit: sweptAtOnce,
  })

  /** The plan as the log has it. */
  const look = (planId: PlanId) => run(planId, null, () => [])

  const log = async (planIds: readonly PlanId[], anyway: boolean): Promise<void> => {
    const settleOne = async ({ planId, accountId, usedBytes }: Counter): Promise<Settled> => {
      const { state, logged, alarms } = await run(planId, accountId, (plan, nowMs) =>
        decideMetering(plan, { usedBytes, anyway }, nowMs),
      )
      return { planId, loggedBytes: state.plan?.usedBytes ?? 0, logged, alarms }
    }
    // Commands that are run at once are written in one batch.
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
      const { state, alarms } = await look(planId)
      if (!state.plan) return null
      return { accountId: state.plan.accountId as AccountId, usedBytes: state.plan.usedBytes, alarms }
    },
  })

  const report: Meter['report'] = async (batch) => {
    const answer = await reports.report(batch)
    if (!answer.counted) return answer
    const { alarmed, usedBytes, unknown } = answer
    if (alarmed.length > 0)
      // The bytes are safe; whatever keeps the log from hearing of them now, the next sweep tells it.
      await log(alarmed, false).catch((err) =>
        logger.error({ err, planIds: alarmed }, 'traffic was counted and is written to the log later'),
      )
    return { counted: true, usedBytes, unknown }
  }

  return {
    report,
    reportOnce: async ({ planId, reportId, bytes }) => {
      const { state } = await look(planId)
      if (!state.plan) return { metered: false, reason: 'unknown_plan' }
      // Release 0.1.0 kept the names of reports in the log.
      if (recall(state.reports, reportId)) return { metered: false, reason: 'already_reported' }
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
      const found = await due()
      if (found.length > 0)
        await log(
          found.map(({ plan_id: planId }) => planId),
          false,
        )
      return found.length
    },
    forget: () => counters.forget(clock()),
  }
}
