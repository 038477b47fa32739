import { LRUCache } from 'lru-cache'
import type { Alarms } from '../../domain/plans/decide.ts'
import type { Clock } from '../../kernel/clock.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import type { AccountId, PlanId } from '../../kernel/ids.ts'
import type { createTrafficCounters, TrafficBatch } from './traffic-counters.ts'

/** A plan without a counter: its bytes in the log, and the alarms at which they must be written to the log. */
export type CountedPlan = {
  readonly accountId: AccountId
  readonly usedBytes: number
  readonly alarms: Alarms
}

export type ReportAnswer =
  | {
      readonly counted: true
      /** Each plan's used bytes, including this batch. */
      readonly usedBytes: ReadonlyMap<PlanId, number>
      /** Plans that passed an alarm. Their traffic must be written to the log now. */
      readonly alarmed: readonly PlanId[]
      /** Ids without a plan. Nothing was counted for them. */
      readonly unknown: readonly PlanId[]
    }
  /** The reporter sent its last batch, or an older one, again. */
  | { readonly counted: false }

/** Counts traffic durably in Postgres. It does not write to the log, and is all that a gateway needs. */
export type TrafficReports = {
  /** Creates missing counters, so that the plans' traffic can be leased. Returns the ids without a plan. */
  begin(planIds: readonly PlanId[]): Promise<readonly PlanId[]>
  report(batch: TrafficBatch): Promise<ReportAnswer>
}

/** The largest number of bytes of one report, and of one plan in a batch. */
const maxReportBytes = 1e15
const maxKnownPlans = 100_000

/** @throws RangeError for an invalid batch */
const checked = ({ reporter, sequence, traffic }: TrafficBatch): void => {
  if (reporter === '' || reporter.length > 200) throw new RangeError('a reporter has 1 to 200 characters')
  if (!Number.isSafeInteger(sequence) || sequence < 0)
    throw new RangeError(`a sequence is a whole number from 0 on, not ${sequence}`)
  for (const [planId, bytes] of traffic)
    if (!Number.isSafeInteger(bytes) || bytes < 0 || bytes > maxReportBytes)
      throw new RangeError(`${planId}: bytes are whole, from 0 to ${maxReportBytes}, not ${bytes}`)
}

/** @param deps `plan` reads a plan that has no counter yet; null: the plan does not exist */
export const createTrafficReports = (deps: {
  readonly counters: ReturnType<typeof createTrafficCounters>
  readonly plan: (planId: PlanId) => Promise<CountedPlan | null>
  readonly clock: Clock
}): TrafficReports => {
  const { counters, clock } = deps
  const countedPlans = new LRUCache<PlanId, true>(growingCacheOptions(maxKnownPlans))

  const begin: TrafficReports['begin'] = async (planIds) => {
    const newPlanIds = planIds.filter((planId) => !countedPlans.has(planId))
    if (newPlanIds.length === 0) return []
    const existingCounters = await counters.known(newPlanIds)
    const unknownPlans: PlanId[] = []
    const startCounter = async (planId: PlanId): Promise<void> => {
      if (!existingCounters.has(planId)) {
        const plan = await deps.plan(planId)
        if (plan === null) return void unknownPlans.push(planId)
        const { accountId, usedBytes, alarms } = plan
        await counters.start({ planId, accountId, usedBytes }, alarms)
      }
      countedPlans.set(planId, true)
    }
    await Promise.all(newPlanIds.map(startCounter))
    return unknownPlans
  }

  return {
    begin,
    report: async (batch) => {
      checked(batch)
      const unknownPlans = await begin([...batch.traffic.keys()])
      const knownTraffic = new Map(batch.traffic)
      for (const planId of unknownPlans) knownTraffic.delete(planId)
      const added = await counters.add({ ...batch, traffic: knownTraffic }, clock())
      if (added === null) return { counted: false }
      return {
        counted: true,
        usedBytes: new Map(added.map(({ planId, usedBytes }) => [planId, usedBytes])),
        alarmed: added.filter((plan) => plan.alarmed).map(({ planId }) => planId),
        unknown: unknownPlans,
      }
    },
  }
}
