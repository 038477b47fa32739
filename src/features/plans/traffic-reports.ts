import { LRUCache } from 'lru-cache'
import type { Alarms } from '../../domain/plans/decide.ts'
import type { Clock } from '../../kernel/clock.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import type { AccountId, PlanId } from '../../kernel/ids.ts'
import type { createTrafficCounters, TrafficBatch } from './traffic-counters.ts'

/** A plan whose counting begins: what was used of it before, and when the log is to hear of it. */
export type CountedPlan = {
  readonly accountId: AccountId
  readonly usedBytes: number
  readonly alarms: Alarms
}

export type ReportAnswer =
  | {
      readonly counted: true
      /** Each plan's used bytes, this batch included. */
      readonly usedBytes: ReadonlyMap<PlanId, number>
      /** Plans that passed an alarm: the log is to hear of them now. */
      readonly alarmed: readonly PlanId[]
      /** Ids that no plan has: of these nothing was counted. */
      readonly unknown: readonly PlanId[]
    }
  /** The reporter's last batch, or an older one, was sent again. */
  | { readonly counted: false }

/** Counts traffic durably on Postgres. It writes nothing to the log, so a gateway needs no more than this. */
export type TrafficReports = {
  /** Starts a counter for each plan that has none, so that its traffic can be leased; the ids that no plan has. */
  begin(planIds: readonly PlanId[]): Promise<readonly PlanId[]>
  report(batch: TrafficBatch): Promise<ReportAnswer>
}

/** One report, and a batch's part for one plan. */
const maxReportBytes = 1e15
const maxKnownPlans = 100_000

/** @throws RangeError for a batch that no reporter sends */
const checked = ({ reporter, sequence, traffic }: TrafficBatch): void => {
  if (reporter === '' || reporter.length > 200) throw new RangeError('a reporter has 1 to 200 characters')
  if (!Number.isSafeInteger(sequence) || sequence < 0)
    throw new RangeError(`a sequence is a whole number from 0 on, not ${sequence}`)
  for (const [planId, bytes] of traffic)
    if (!Number.isSafeInteger(bytes) || bytes < 0 || bytes > maxReportBytes)
      throw new RangeError(`${planId}: bytes are whole, from 0 to ${maxReportBytes}, not ${bytes}`)
}

/** @param deps `plan` tells of a plan that has no counter yet; null: there is no such plan */
export const createTrafficReports = (deps: {
  readonly counters: ReturnType<typeof createTrafficCounters>
  readonly plan: (planId: PlanId) => Promise<CountedPlan | null>
  readonly clock: Clock
}): TrafficReports => {
  const { counters, clock } = deps
  const counted = new LRUCache<PlanId, true>(growingCacheOptions(maxKnownPlans))

  const begin: TrafficReports['begin'] = async (planIds) => {
    const fresh = planIds.filter((planId) => !counted.has(planId))
    if (fresh.length === 0) return []
    const known = await counters.known(fresh)
    const unknown: PlanId[] = []
    const start = async (planId: PlanId): Promise<void> => {
      if (!known.has(planId)) {
        const plan = await deps.plan(planId)
        if (plan === null) return void unknown.push(planId)
        const { accountId, usedBytes, alarms } = plan
        await counters.start({ planId, accountId, usedBytes }, alarms)
      }
      counted.set(planId, true)
    }
    await Promise.all(fresh.map(start))
    return unknown
  }

  return {
    begin,
    report: async (batch) => {
      checked(batch)
      const unknown = await begin([...batch.traffic.keys()])
      const known = new Map(batch.traffic)
      for (const planId of unknown) known.delete(planId)
      const added = await counters.add({ ...batch, traffic: known }, clock())
      if (added === null) return { counted: false }
      return {
        counted: true,
        usedBytes: new Map(added.map(({ planId, usedBytes }) => [planId, usedBytes])),
        alarmed: added.filter((plan) => plan.alarmed).map(({ planId }) => planId),
        unknown,
      }
    },
  }
}
