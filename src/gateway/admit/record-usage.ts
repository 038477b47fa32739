import type pg from 'pg'
import type { Failure } from '../../domain/exits/connection-failures.ts'
import type { Clock } from '../../kernel/clock.ts'
import { isDatabaseOutage } from '../../platform/postgres/errors.ts'
import type { HostRecording } from '../settings.ts'
import type { MeteringHour } from './budgets.ts'
import { recordedHost } from './record-requests.ts'
import type { Reporter } from './reporter.ts'

/** How one connection ended, for the statistics of its plan. */
type ConnectionOutcome = {
  readonly planId: string
  /** The error code; null: no error. */
  readonly error: Failure | null
  /** Null: no host was reached. */
  readonly host: string | null
  /** Bytes in both directions. */
  readonly bytes: number
}

/** Hourly statistics of each plan, and daily ones of its hosts. They are not used for billing. */
export type Usage = {
  /** Adds bytes that a connection passed since the last call. */
  traffic(planId: string, up: number, down: number): void
  ended(outcome: ConnectionOutcome): void
  /** Writes the collected statistics. Each batch is counted once, even if it is sent several times. */
  flush(): Promise<void>
}

type Hour = { up: number; down: number; connections: number }
type Host = { bytes: number; connections: number }
type Batch = {
  readonly hours: ReadonlyMap<string, Hour>
  readonly failures: ReadonlyMap<string, number>
  readonly hosts: ReadonlyMap<string, Host>
}

/** Hosts per process between two flushes. Further hosts are counted under `otherHosts` of their plan. */
const maxHosts = 20_000
export const otherHosts = '*'

const addHours = (hours: Map<string, Hour>, added: ReadonlyMap<string, Hour>): void => {
  for (const [key, row] of added) {
    const known = hours.get(key) ?? { up: 0, down: 0, connections: 0 }
    hours.set(key, {
      up: known.up + row.up,
      down: known.down + row.down,
      connections: known.connections + row.connections,
    })
  }
}

const keyOf = (...parts: readonly string[]): string => parts.join('\n')

export const createUsage = (dependencies: {
  readonly pool: pg.Pool
  readonly clock: Clock
  /** It sends no batches but these. */
  readonly reporter: Reporter
  /** How much of the hosts is counted. */
  readonly hosts: HostRecording
  readonly meteringHour: Pick<MeteringHour, 'current' | 'onBatchTaken' | 'onBatchReported' | 'onBatchLost'>
}): Usage => {
  const { pool, clock, reporter, hosts: hostRecording, meteringHour } = dependencies
  /** Bytes that are in no batch of metered bytes yet. */
  let hours = new Map<string, Hour>()
  /** Bytes in a batch that may not be counted yet. */
  let taken = new Map<string, Hour>()
  /** Hours to write: after their bytes are counted, so that they never exceed the metered ones. */
  let ready = new Map<string, Hour>()
  let failures = new Map<string, number>()
  let hosts = new Map<string, Host>()
  let pendingBatch: Batch | null = null

  meteringHour.onBatchTaken(() => {
    addHours(taken, hours)
    hours = new Map()
  })
  meteringHour.onBatchReported(() => {
    addHours(ready, taken)
    taken = new Map()
  })
  meteringHour.onBatchLost(() => {
    for (const stage of [taken, hours])
      for (const [key, row] of stage) stage.set(key, { ...row, up: 0, down: 0 })
  })

  /** Returns whether the batch was counted now. */
  const write = async (batch: Batch, name: string, sequence: number): Promise<boolean> => {
    const hourRows = [...batch.hours].map(([key, row]) => ({ key: key.split('\n'), row }))
    const failureRows = [...batch.failures].map(([key, count]) => ({ key: key.split('\n'), count }))
    const hostRows = [...batch.hosts].map(([key, row]) => ({ key: key.split('\n'), row }))
    const { rowCount } = await pool.query({
      name: 'gateway-usage',
      text: `
        with taken as (
          insert into work.traffic_reporters as known (reporter, sequence, reported_at) values ($1::text, $2::bigint, $3::timestamptz)
          on conflict (reporter) do update set sequence = excluded.sequence, reported_at = excluded.reported_at
            where known.sequence < excluded.sequence
          returning reporter),
        hours as (
          insert into work.plan_hours as known (plan_id, hour, bytes_up, bytes_down, connections)
          select given.* from unnest($4::text[], $5::timestamptz[], $6::bigint[], $7::bigint[], $8::bigint[]) given
           where exists (select from taken)
           order by 1, 2
          on conflict (plan_id, hour) do update
            set bytes_up = known.bytes_up + excluded.bytes_up, bytes_down = known.bytes_down + excluded.bytes_down,
                connections = known.connections + excluded.connections),
        failures as (
          insert into work.plan_failures as known (plan_id, hour, error, count)
          select given.* from unnest($9::text[], $10::timestamptz[], $11::text[], $12::bigint[]) given
           where exists (select from taken)
           order by 1, 2, 3
          on conflict (plan_id, hour, error) do update set count = known.count + excluded.count),
        hosts as (
          insert into work.plan_hosts as known (plan_id, day, host, bytes, connections)
          select given.* from unnest($13::text[], $14::date[], $15::text[], $16::bigint[], $17::bigint[])
                                given (plan_id, day, host, bytes, connections)
           where exists (select from taken)
             and not exists (select from work.plans_without_hosts without where without.plan_id = given.plan_id)
           order by 1, 2, 3
          on conflict (plan_id, day, host) do update
            set bytes = known.bytes + excluded.bytes, connections = known.connections + excluded.connections)
        select from taken`,
      values: [
        name,
        sequence,
        new Date(clock()).toISOString(),
        hourRows.map(({ key }) => key[0]),
        hourRows.map(({ key }) => key[1]),
        hourRows.map(({ row }) => row.up),
        hourRows.map(({ row }) => row.down),
        hourRows.map(({ row }) => row.connections),
        failureRows.map(({ key }) => key[0]),
        failureRows.map(({ key }) => key[1]),
        failureRows.map(({ key }) => key[2]),
        failureRows.map(({ count }) => count),
        hostRows.map(({ key }) => key[0]),
        hostRows.map(({ key }) => key[1]?.slice(0, 10)),
        hostRows.map(({ key }) => key[2]),
        hostRows.map(({ row }) => row.bytes),
        hostRows.map(({ row }) => row.connections),
      ],
    })
    return rowCount === 1
  }

  const hourOfPlan = (planId: string): Hour => {
    const key = keyOf(planId, meteringHour.current())
    const hourStats = hours.get(key) ?? { up: 0, down: 0, connections: 0 }
    hours.set(key, hourStats)
    return hourStats
  }

  return {
    traffic: (planId, up, down) => {
      const hourStats = hourOfPlan(planId)
      hourStats.up += up
      hourStats.down += down
    },
    ended: ({ planId, error, host, bytes }) => {
      const hour = meteringHour.current()
      hourOfPlan(planId).connections += 1
      if (error !== null) {
        const key = keyOf(planId, hour, error)
        failures.set(key, (failures.get(key) ?? 0) + 1)
      }
      const countedHost = recordedHost(host, hostRecording)
      if (countedHost === null) return
      const day = hour.slice(0, 10)
      const ownKey = keyOf(planId, day, countedHost)
      const key = hosts.has(ownKey) || hosts.size < maxHosts ? ownKey : keyOf(planId, day, otherHosts)
      const total = hosts.get(key) ?? { bytes: 0, connections: 0 }
      total.bytes += bytes
      total.connections += 1
      hosts.set(key, total)
    },
    flush: async () => {
      if (pendingBatch === null) {
        if (ready.size === 0 && failures.size === 0 && hosts.size === 0) return
        reporter.nextBatch()
        pendingBatch = { hours: ready, failures, hosts }
        ready = new Map()
        failures = new Map()
        hosts = new Map()
      }
      try {
        const batch = pendingBatch
        await reporter.send((name, sequence) => write(batch, name, sequence))
      } catch (error) {
        // Postgres would reject this batch again, so it is dropped. Later statistics are counted.
        if (!isDatabaseOutage(error)) pendingBatch = null
        throw error
      }
      pendingBatch = null
    },
  }
}
