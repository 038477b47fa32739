import type pg from 'pg'
import type { TrafficMetered } from '../../domain/plans/events.ts'
import type { PlanId } from '../../kernel/ids.ts'
import { planStream } from '../../kernel/streams.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { plansTable } from '../invariants/fulfilment-invariants.ts'
import { type Findings, firstRows } from './finding.ts'

/** The used bytes of a plan according to the log. Reads the whole stream. */
export const planUsedBytes = async (log: Pick<EventLog, 'readStream'>, planId: PlanId): Promise<number> => {
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
  const report = (problem: string): void => findings.add({ where: 'log', check: 'traffic', problem })
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
