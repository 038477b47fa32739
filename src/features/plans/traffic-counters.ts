import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { Alarms } from '../../domain/plans/decide.ts'
import { type Clock, isoHour } from '../../kernel/clock.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import type { AccountId, PlanId } from '../../kernel/ids.ts'
import { logChannel, workAnnouncement } from '../../platform/eventstore/postgres/announcements.ts'

/** Bytes of a traffic budget in one of its periods, which began at `countedFromMs` (milliseconds since the epoch). */
export type BudgetedTraffic = {
  readonly budgetId: string
  readonly countedFromMs: number
  readonly bytes: number
}

/** A batch of counted bytes, in both directions. */
export type TrafficBatch = {
  /** The reporter's name, e.g. one start of one gateway process. Up to 200 characters. */
  readonly reporter: string
  /**
   * Increases with every batch of the reporter, which sends one batch at a time and repeats it until it is answered. A
   * batch with a sequence that is not above the last one was counted before.
   */
  readonly sequence: number
  readonly traffic: ReadonlyMap<PlanId, number>
  /** The bytes of `traffic` that count in traffic budgets. Default: none. */
  readonly budgeted?: readonly BudgetedTraffic[]
  /** The hour of the bytes (ISO 8601), for `traffic.metered_hours`. Default: the current hour. */
  readonly hour?: string
}

/** A counter that is due, and since when it is ahead of the log (ISO 8601). */
export type DueCounter = { readonly plan_id: PlanId; readonly counted_since: string }

/**
 * Counters that are due, oldest first: ahead of the log since the first parameter (an instant) or earlier, or past an
 * alarm at the second one, which is now. A counter that is ahead since a later time was written by a wrong clock.
 */
export const dueCounters = {
  name: 'traffic-due',
  read: `select plan_id, counted_since from work.traffic
          where counted_since is not null
            and (counted_since <= $1::timestamptz or counted_since > $2::timestamptz + interval '1 minute' or alarm_at <= $2::timestamptz or used_bytes >= alarm_bytes)`,
  key: { counted_since: 'timestamptz', plan_id: 'text' },
} as const

export type Counter = { readonly planId: PlanId; readonly accountId: AccountId; readonly usedBytes: number }

/** The new state of a counter after its traffic was written to the log. */
export type SettledCounter = {
  readonly planId: PlanId
  /** The plan's bytes in the log. */
  readonly loggedBytes: number
  readonly logged: boolean
  readonly alarms: Alarms
}

/** While there is traffic, this process announces it this often, so that no worker rests. Milliseconds. */
const announceEveryMs = 2_000

/** How long a reporter's last sequence is stored, so that its batches are counted once. */
const reporterRetentionMs = 8 * 24 * 60 * 60 * 1000

const iso = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())

/** The durable counters between two `TrafficMetered`. They are in the service's Postgres, whatever the log is. */
export const createTrafficCounters = (pool: pg.Pool) => {
  let announcedMs = Number.NEGATIVE_INFINITY
  return {
    /** The plans that already have a counter. */
    known: async (planIds: readonly PlanId[]): Promise<ReadonlySet<PlanId>> => {
      const { rows } = await pool.query<{ plan_id: PlanId }>({
        name: 'traffic-known',
        text: 'select plan_id from work.traffic where plan_id = any ($1::text[])',
        values: [planIds],
      })
      return new Set(rows.map(({ plan_id: planId }) => planId))
    },

    /** Creates a plan's counter with the plan's bytes in the log. An existing counter is not changed. */
    start: async (counter: Counter, alarms: Alarms): Promise<void> => {
      await pool.query(
        `insert into work.traffic (plan_id, account_id, used_bytes, alarm_bytes, alarm_at)
       values ($1::text, $2::text, $3::bigint, $4::bigint, $5::timestamptz) on conflict do nothing`,
        [counter.planId, counter.accountId, counter.usedBytes, alarms.bytes, iso(alarms.atMs)],
      )
    },

    /**
     * Adds a batch to existing counters, atomically and once; null if it was counted before. One statement and one commit
     * for any number of plans. Rows are locked in the order of their keys, so that reporters cannot deadlock.
     */
    add: async (
      { reporter, sequence, traffic, budgeted = [], hour }: TrafficBatch,
      nowMs: number,
    ): Promise<readonly { planId: PlanId; usedBytes: number; alarmed: boolean }[] | null> => {
      const announces = performance.now() - announcedMs > announceEveryMs
      const { rows } = await pool.query<{ plan_id: PlanId | null; used_bytes: number; alarmed: boolean }>({
        name: 'traffic-add',
        text: `
        with taken as (
          insert into work.traffic_reporters as known (reporter, sequence, reported_at)
          values ($1::text, $2::bigint, $3::timestamptz)
          on conflict (reporter) do update set sequence = excluded.sequence, reported_at = excluded.reported_at
            where known.sequence < excluded.sequence
          returning reporter),
        locked as (
          select counter.plan_id, given.bytes
            from unnest($4::text[], $5::bigint[]) given (plan_id, bytes)
            join work.traffic counter using (plan_id)
           where exists (select from taken)
           order by counter.plan_id
             for update of counter),
        counted as (
          update work.traffic counter
             set used_bytes = least(counter.used_bytes + locked.bytes, ${Number.MAX_SAFE_INTEGER}),
                 counted_since = coalesce(counter.counted_since, $3::timestamptz)
            from locked where counter.plan_id = locked.plan_id
          returning counter.plan_id, counter.used_bytes,
                    coalesce(counter.used_bytes >= counter.alarm_bytes, false) as alarmed),
        hours as (
          insert into traffic.metered_hours as known (plan_id, hour, bytes)
          select plan_id, $7::timestamptz, bytes from locked order by plan_id
          on conflict (plan_id, hour) do update set bytes = known.bytes + excluded.bytes),
        budgeted as (
          select counter.budget_id, counter.counted_from, given.bytes
            from unnest($8::text[], $9::timestamptz[], $10::bigint[]) given (budget_id, counted_from, bytes)
            join work.traffic_budget_use counter using (budget_id, counted_from)
           where exists (select from taken)
           order by 1, 2
             for update of counter),
        budgets as (
          update work.traffic_budget_use counter set used_bytes = counter.used_bytes + budgeted.bytes
            from budgeted
           where counter.budget_id = budgeted.budget_id and counter.counted_from = budgeted.counted_from)
        select counted.*, case when alarmed or $6::boolean then pg_notify('${logChannel}', '${workAnnouncement}') end
          from taken left join counted on true`,
        values: [
          reporter,
          sequence,
          iso(nowMs),
          [...traffic.keys()],
          [...traffic.values()],
          announces,
          hour ?? isoHour(nowMs),
          budgeted.map(({ budgetId }) => budgetId),
          budgeted.map(({ countedFromMs }) => iso(countedFromMs)),
          budgeted.map(({ bytes }) => bytes),
        ],
      })
      if (announces) announcedMs = performance.now()
      if (rows.length === 0) return null
      return rows.flatMap(({ plan_id: planId, used_bytes: usedBytes, alarmed }) =>
        planId === null ? [] : [{ planId, usedBytes, alarmed }],
      )
    },

    read: async (planIds: readonly PlanId[]): Promise<readonly Counter[]> => {
      const { rows } = await pool.query<{ plan_id: PlanId; account_id: AccountId; used_bytes: number }>({
        name: 'traffic-read',
        text: 'select plan_id, account_id, used_bytes from work.traffic where plan_id = any ($1::text[])',
        values: [planIds],
      })
      return rows.map((row) => ({
        planId: row.plan_id,
        accountId: row.account_id,
        usedBytes: row.used_bytes,
      }))
    },

    /**
     * Records the plans' bytes in the log. Traffic that arrived meanwhile counts since `nowMs`. If the log has more than
     * the counter, such as after a restore of Postgres alone, the counter is raised.
     */
    settle: async (settled: readonly SettledCounter[], nowMs: number): Promise<void> => {
      await pool.query({
        name: 'traffic-settle',
        text: `
        with given as (
          select * from unnest($1::text[], $2::bigint[], $3::boolean[], $4::bigint[], $5::timestamptz[])
            as given (plan_id, logged_bytes, logged, alarm_bytes, alarm_at)),
        locked as (
          select given.* from given join work.traffic counter using (plan_id)
           order by counter.plan_id for update of counter)
        update work.traffic counter
           set used_bytes = greatest(counter.used_bytes, locked.logged_bytes),
               counted_since = case when counter.used_bytes <= locked.logged_bytes then null
                                    when locked.logged then $6::timestamptz
                                    else counter.counted_since end,
               alarm_bytes = locked.alarm_bytes,
               alarm_at = locked.alarm_at
          from locked where counter.plan_id = locked.plan_id`,
        values: [
          settled.map(({ planId }) => planId),
          settled.map(({ loggedBytes }) => loggedBytes),
          settled.map(({ logged }) => logged),
          settled.map(({ alarms }) => alarms.bytes),
          settled.map(({ alarms }) => iso(alarms.atMs)),
          iso(nowMs),
        ],
      })
    },

    /** Deletes reporters without a report for `reporterRetentionMs`. */
    deleteIdleReporters: async (nowMs: number): Promise<void> => {
      await pool.query('delete from work.traffic_reporters where reported_at < $1::timestamptz', [
        iso(nowMs - reporterRetentionMs),
      ])
    },
  }
}

/** A plan without a counter: its bytes in the log, and the alarms at which they must be written to the log. */
type CountedPlan = {
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
const assertValidBatch = ({ reporter, sequence, traffic }: TrafficBatch): void => {
  if (reporter === '' || reporter.length > 200) throw new RangeError('a reporter has 1 to 200 characters')
  if (!Number.isSafeInteger(sequence) || sequence < 0)
    throw new RangeError(`a sequence is a whole number from 0 on, not ${sequence}`)
  for (const [planId, bytes] of traffic)
    if (!Number.isSafeInteger(bytes) || bytes < 0 || bytes > maxReportBytes)
      throw new RangeError(`${planId}: bytes are whole, from 0 to ${maxReportBytes}, not ${bytes}`)
}

/** @param dependencies `plan` reads a plan that has no counter yet; null: the plan does not exist */
export const createTrafficReports = (dependencies: {
  readonly counters: ReturnType<typeof createTrafficCounters>
  readonly plan: (planId: PlanId) => Promise<CountedPlan | null>
  readonly clock: Clock
}): TrafficReports => {
  const { counters, clock } = dependencies
  const countedPlans = new LRUCache<PlanId, true>(growingCacheOptions(maxKnownPlans))

  const begin: TrafficReports['begin'] = async (planIds) => {
    const newPlanIds = planIds.filter((planId) => !countedPlans.has(planId))
    if (newPlanIds.length === 0) return []
    const existingCounters = await counters.known(newPlanIds)
    const unknownPlans: PlanId[] = []
    const startCounter = async (planId: PlanId): Promise<void> => {
      if (!existingCounters.has(planId)) {
        const plan = await dependencies.plan(planId)
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
      assertValidBatch(batch)
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
