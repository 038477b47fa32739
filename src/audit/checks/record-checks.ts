import type pg from 'pg'
import type { PeriodClosed } from '../../domain/periods/events.ts'
import type { TrafficMetered } from '../../domain/plans/events.ts'
import {
  type Closings,
  closingsOf,
  createPeriodFold,
  differenceOf,
  type PeriodEnds,
  type PeriodReport,
} from '../../features/finance/index.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { PlanId } from '../../kernel/ids.ts'
import { planStream } from '../../kernel/streams.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { plansTable } from '../invariants/fulfilment-invariants.ts'
import { subjectOf } from '../invariants/invariant.ts'
import type { ReadEvent } from './event-reader.ts'
import { eventLocationOf, type Findings, firstRows } from './finding.ts'

/** Rebuilds the report of every month and compares each closing with it (docs/finance/periods.md). */
export const createPeriodCheck = (findings: Findings, ends: PeriodEnds) => {
  const fold = createPeriodFold(ends)
  const closings = new Map<string, Closings>()

  const problemOf = ({ data }: PeriodClosed): string | null => {
    const final = closings.get(data.period)
    if (final !== undefined) return differenceOf(data, final)
    const report = fold
      .open()
      .slice(0, -1)
      .find(({ period }) => period === data.period)
    return report === undefined
      ? `${data.period} was closed before it was over`
      : differenceOf(data, closingsOf(report))
  }

  const reportsUpTo = (event: RecordedEvent): readonly PeriodReport[] => {
    try {
      return fold.take(event)
    } catch {
      // The event cannot be booked; the check of the postings reports the reason. Its amounts are missing in its month.
      fold.passBy(event.id)
      return []
    }
  }

  const checkEvent = ({ stored, event, ordinal }: ReadEvent): void => {
    if (event === null) {
      fold.passBy(stored.id)
      return
    }
    for (const report of reportsUpTo(event)) closings.set(report.period, closingsOf(report))
    if (event.type !== 'PeriodClosed') return
    const problem = problemOf(event as RecordedEvent<PeriodClosed>)
    if (problem !== null) findings.addForEvent('periods', eventLocationOf(stored, ordinal), problem)
  }

  return {
    /** Takes the next events of the log in decoded form. */
    take(page: readonly ReadEvent[]): void {
      for (const readEvent of page) checkEvent(readEvent)
    },
  }
}

/** The used bytes of a plan according to the log. Reads the whole stream. */
const planUsedBytes = async (log: Pick<EventLog, 'readStream'>, planId: PlanId): Promise<number> => {
  let usedBytes = 0
  for await (const { type, data } of log.readStream(planStream(planId)))
    if (type === 'TrafficMetered') usedBytes = (JSON.parse(data) as TrafficMetered['data']).usedBytes
  return usedBytes
}

/** The table that is compared with the log. */
export const trafficTable = 'work.traffic'

/** Counted traffic that is not in the log yet. A server appends it within about a minute. */
export type UnloggedTraffic = { readonly plans: number; readonly bytes: number }

type Row = { plan_id: PlanId; used_bytes: number; logged: number }

/**
 * Compares the traffic counters with the used bytes in the log. Create it before the log is read. A counter from before
 * that whose plan is missing at the end of the log belongs to no plan; a counter that starts meanwhile may belong to a
 * plan after the end.
 */
export const createTrafficCheck = async (options: {
  readonly client: pg.ClientBase
  readonly schema: string
  readonly log: Pick<EventLog, 'readStream'>
  readonly findings: Findings
}) => {
  const { client, schema, log, findings } = options
  await client.query(
    `create unlogged table ${schema}.counted_before as select plan_id collate "C" as plan_id from ${trafficTable}`,
  )
  const report = (problem: string): void => findings.addForLog('traffic', problem)
  const plans = `${schema}.${plansTable.name}`
  const counters = `${trafficTable} t join ${plans} p on p.plan_id = t.plan_id collate "C"`

  const countersSql = (where: string): string =>
    `select t.plan_id, t.used_bytes, p.used_bytes as logged from ${counters} where ${where}`

  return {
    /** Call after the last event, when the rules have written their tables. */
    end: async (): Promise<UnloggedTraffic> => {
      const unknownPlans = await firstRows<{ plan_id: string }>(
        client,
        `select b.plan_id from ${schema}.counted_before b
          where not exists (select from ${plans} p where p.plan_id = b.plan_id)`,
        'plan_id',
      )
      for (const { plan_id } of unknownPlans.rows)
        report(`${trafficTable} counts traffic of the plan ${plan_id}, which the log does not have`)
      findings.addUnshown(unknownPlans.total - unknownPlans.rows.length)
      const lowCounters = await firstRows<Row>(client, countersSql('t.used_bytes < p.used_bytes'), 'plan_id')
      for (const { plan_id, used_bytes, logged } of lowCounters.rows)
        report(`${trafficTable} counts ${used_bytes} bytes of plan ${plan_id}, the log has ${logged} already`)
      findings.addUnshown(lowCounters.total - lowCounters.rows.length)
      const undatedCounters = await client.query<Row>(
        `${countersSql('t.used_bytes > p.used_bytes and t.counted_since is null')} order by t.plan_id collate "C"`,
      )
      // A server may have appended the rest since the log was read: read the stream again, after the counter.
      for (const { plan_id, used_bytes } of undatedCounters.rows) {
        const logged = await planUsedBytes(log, plan_id)
        if (used_bytes > logged)
          report(
            `${trafficTable} counts ${used_bytes} bytes of plan ${plan_id}, the log has ${logged}, and no report says when the rest was counted`,
          )
      }
      const unloggedTotals = await client.query<UnloggedTraffic>(
        `select count(*) as plans, coalesce(sum(t.used_bytes - p.used_bytes), 0)::bigint as bytes from ${counters}
          where t.used_bytes > p.used_bytes and t.counted_since is not null`,
      )
      return unloggedTotals.rows[0]!
    },
  }
}

/** The gateways' clock may be ahead of the one that recorded an event. Milliseconds. */
const skewMs = 60_000

/**
 * Compares the traffic counters with the hours of `traffic.metered_hours`, which are written in the same statement. The
 * oldest hours are deleted after some days, so a counter is at least what the log had before the oldest hour, plus the
 * hours since. A counter that is set back between two events of the log is below that. Create it before the log is read.
 */
export const createMeteredCheck = async (options: {
  readonly client: pg.ClientBase
  /** Reads the tables of `traffic`: code of their owner can run in it. */
  readonly live: pg.ClientBase
  readonly schema: string
  readonly findings: Findings
}) => {
  const { client, live, schema, findings } = options
  const before = `${schema}.metered_before`
  await client.query(
    `create unlogged table ${before} (plan_id text collate "C" primary key, used_bytes bigint not null)`,
  )
  const { rows } = await live.query<{ first: string | null }>(
    'select min(hour) as first from traffic.metered_hours',
  )
  const first = rows[0]?.first ?? null
  const lastBefore = first === null ? '' : new Date(Date.parse(first) - skewMs).toISOString()

  return {
    /** Takes the next events of the log in decoded form. */
    async take(page: readonly ReadEvent[]): Promise<void> {
      const used = new Map<string, number>()
      for (const { event, problem } of page)
        if (event?.type === 'TrafficMetered' && problem === null && event.metadata.recordedAt < lastBefore)
          used.set(subjectOf(event), (event as RecordedEvent<TrafficMetered>).data.usedBytes)
      if (used.size > 0)
        await client.query(
          `insert into ${before} as known select * from unnest($1::text[], $2::bigint[])
           on conflict (plan_id) do update set used_bytes = greatest(known.used_bytes, excluded.used_bytes)`,
          [[...used.keys()], [...used.values()]],
        )
    },
    /** Call after the last event. Counters that are below the log are not reported once more. */
    async end(): Promise<void> {
      const sums = await live.query<{ plan_id: string; bytes: number }>(
        `select plan_id, sum(bytes)::bigint as bytes from traffic.metered_hours
          where hour >= $1::timestamptz group by plan_id`,
        [first],
      )
      const low = await firstRows<{ plan_id: string; used_bytes: number; metered: number }>(
        client,
        `select * from (
           select m.plan_id, coalesce(t.used_bytes, 0) as used_bytes, m.bytes + coalesce(b.used_bytes, 0) as metered
             from unnest($1::text[], $2::bigint[]) as m (plan_id, bytes)
             left join ${trafficTable} t on t.plan_id = m.plan_id
             left join ${before} b on b.plan_id = m.plan_id
             left join ${schema}.${plansTable.name} p on p.plan_id = m.plan_id
            where coalesce(t.used_bytes >= p.used_bytes, true)) c
          where used_bytes < metered`,
        'plan_id',
        [sums.rows.map(({ plan_id }) => plan_id), sums.rows.map(({ bytes }) => bytes)],
      )
      for (const { plan_id, used_bytes, metered } of low.rows)
        findings.addForLog(
          'traffic',
          `${trafficTable} counts ${used_bytes} bytes of plan ${plan_id}, the log and traffic.metered_hours have ${metered}`,
        )
      findings.addUnshown(low.total - low.rows.length)
    },
  }
}

/**
 * Compares the metered hours of each plan with the records of its requests and with its statistics. A gateway writes
 * both after their bytes are counted, and without the bytes that it lost (metering hours in budgets.ts). Bytes without a
 * record are no finding: the request is in progress, its record was lost with its process, or no records are made.
 */
export const checkRecordedHours = async (options: {
  readonly live: pg.ClientBase
  readonly findings: Findings
}): Promise<void> => {
  const { live, findings } = options
  // One statement for each comparison, so that its tables are read at one moment.
  const high = await firstRows<{ plan_id: string; hour: string; recorded: number; metered: number }>(
    live,
    `select r.plan_id, to_char(r.hour at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"') as hour, r.recorded,
            coalesce(m.bytes, 0) as metered
       from (select plan_id, hour, sum(bytes_up + bytes_down)::bigint as recorded
               from (select plan_id, hour, bytes_up, bytes_down from traffic.requests
                     union all
                     select plan_id, hour, bytes_up, bytes_down from traffic.merged_hours) each
              group by plan_id, hour) r
       left join traffic.metered_hours m on m.plan_id = r.plan_id and m.hour = r.hour
      where r.recorded > coalesce(m.bytes, 0)`,
    'plan_id, hour',
  )
  for (const { plan_id, hour, recorded, metered } of high.rows)
    findings.addForLog(
      'traffic',
      `traffic.metered_hours has ${metered} bytes of plan ${plan_id} at ${hour}, the records of its requests have ${recorded}`,
    )
  findings.addUnshown(high.total - high.rows.length)
  // Metered hours are deleted by day, or at any time if no records are made: the first hour may be incomplete.
  const inWholeHours = 'where hour > (select min(hour) from traffic.metered_hours)'
  const highUsage = await firstRows<{ plan_id: string; used: number; metered: number }>(
    live,
    `select u.plan_id, u.used, coalesce(m.metered, 0) as metered
       from (select plan_id, sum(bytes_up + bytes_down)::bigint as used from work.plan_hours ${inWholeHours}
              group by plan_id) u
       left join (select plan_id, sum(bytes)::bigint as metered from traffic.metered_hours ${inWholeHours}
                   group by plan_id) m on m.plan_id = u.plan_id
      where u.used > coalesce(m.metered, 0)`,
    'plan_id',
  )
  for (const { plan_id, used, metered } of highUsage.rows)
    findings.addForLog(
      'traffic',
      `traffic.metered_hours has ${metered} bytes of plan ${plan_id} after its first hour, work.plan_hours has ${used}`,
    )
  findings.addUnshown(highUsage.total - highUsage.rows.length)
}

/** The fields of a run that a link covers, as one text. It is the same in every time zone and after every restore. */
const contentSql = (row: string): string => `jsonb_build_array(${row}.run_id, ${row}.log_id, ${row}.actor,
  extract(epoch from ${row}.started_at), extract(epoch from ${row}.finished_at), ${row}.outcome, ${row}.result)::text`

const sha256Sql = (text: string): string => `encode(sha256(convert_to(${text}, 'UTF8')), 'hex')`

/** The digest before the first link: of all verdicts from before the chain existed, without one run. */
const originSql = (
  excludedRunId: string,
): string => `(select ${sha256Sql(`coalesce(string_agg(${contentSql('o')}, ' ' order by o.run_id collate "C"), '')`)}
  from work.verifications o where o.link is null and o.outcome in ('clean', 'differs')
    and o.run_id is distinct from ${excludedRunId})`

/** Appends a finished run to the chain. Its transaction must have the lock of `lockChain`. */
export const linkRun = async (client: pg.ClientBase, runId: string): Promise<void> => {
  await client.query(
    `with last as (select link, link_digest from work.verifications where link is not null order by link desc limit 1),
          before as (select coalesce((select link from last), 0) as link,
                            coalesce((select link_digest from last), ${originSql('$1::text')}) as digest)
     update work.verifications v
        set link = before.link + 1, link_digest = ${sha256Sql(`before.digest || ' ' || ${contentSql('v')}`)}
       from before where v.run_id = $1::text`,
    [runId],
  )
}

/** Serializes the creation of links across processes. */
export const lockChain = async (client: pg.ClientBase): Promise<void> => {
  await client.query("select pg_advisory_xact_lock(hashtextextended('farebox verification links', 0))")
}

/** The state of the chain of runs: the number of links, the last digest (null without links), and the problems. */
export type RunsChain = {
  readonly links: number
  readonly digest: string | null
  /** The first problems, oldest first; empty when nothing is wrong. */
  readonly findings: readonly string[]
}

/**
 * Checks every link. A finding names the run where the chain breaks because a run was changed, removed or inserted.
 * @param maxFindings the maximum number of findings; null: all
 */
export const checkRuns = async (pool: pg.Pool, maxFindings: number | null = 20): Promise<RunsChain> => {
  const { rows } = await pool.query<{ links: number; digest: string | null }>(
    `select count(*) as links,
            (select link_digest from work.verifications where link is not null order by link desc limit 1) as digest
       from work.verifications where link is not null`,
  )
  const { links, digest } = rows[0]!
  const brokenLinks = await pool.query<{ run_id: string; link: number; missing: number }>(
    `select run_id, link, missing from (
       select v.run_id, v.link, v.link - lag(v.link, 1, 0::bigint) over w - 1 as missing,
              v.link_digest is distinct from
                ${sha256Sql(`coalesce(lag(v.link_digest) over w, ${originSql('null')}) || ' ' || ${contentSql('v')}`)} as differs
         from work.verifications v where v.link is not null window w as (order by v.link)
     ) as chain where missing > 0 or differs order by link limit $1::bigint`,
    [maxFindings],
  )
  const findings = brokenLinks.rows.map(({ run_id, link, missing }) =>
    missing > 0
      ? `before run ${run_id} (link ${link}) ${missing} of the chain ${missing === 1 ? 'is' : 'are'} missing: removed`
      : link === 1
        ? `run ${run_id} (link 1) does not fit: it was changed, or a verdict from before the chain was changed, removed or inserted`
        : `run ${run_id} (link ${link}) does not fit: it was changed, or the digest of the run before it was`,
  )
  return { links, digest, findings }
}
