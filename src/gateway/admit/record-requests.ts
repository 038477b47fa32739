import type pg from 'pg'
import { getDomain } from 'tldts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { isDatabaseOutage } from '../../platform/postgres/errors.ts'
import { inTransaction } from '../../platform/postgres/transaction.ts'
import type { HostRecording } from '../settings.ts'
import type { MeteringHour } from './budgets.ts'
import type { Reporter } from './reporter.ts'

/** One finished connection or request, or the part of a running one within an hour. */
export type RequestRecord = {
  readonly planId: string
  /** The hour that metered the bytes. */
  readonly hour: string
  readonly requestId: string
  readonly protocol: string
  /** The username of the line, without its password; null: the client's address is on the whitelist. */
  readonly line: string | null
  readonly host: string | null
  readonly port: number | null
  readonly country: string | null
  readonly up: number
  readonly down: number
  readonly durationMs: number
  /** The error; `in_progress` for a part; null: it ended without an error. */
  readonly reason: string | null
}

export const inProgress = 'in_progress'

type Written = RequestRecord & { readonly endedAt: string }
type Merged = { requests: number; failures: number; up: number; down: number }
type Batch = {
  readonly records: readonly Written[]
  readonly merged: MergedHours
}

/** Records of finished connections and requests, for the owner of a plan. They are not used for billing. */
export type RequestRecords = {
  /** Queues a record. It never waits. */
  add(record: RequestRecord): void
  /**
   * Merges a request by plan and hour, if the queue is full or its plan has all records of the day.
   * @returns whether it did; otherwise call `add`
   */
  merge(planId: string, hour: string, up: number, down: number, reason: string | null): boolean
  /** Writes a batch of queued records. Each batch is written once, even if it is sent several times. */
  flush(): Promise<void>
  /** Writes all queued records. */
  drain(): Promise<void>
  /** Queued and unanswered records. */
  readonly size: number
}

/** Records in memory. Further ones are merged. */
const maxQueued = 20_000
/** Records that a process writes in a second. */
const maxBatch = 2_000
/** Records of a plan in a day (UTC). Further ones are merged. */
const maxRecordsADay = 100_000
const maxHostLength = 253
const maxLineLength = 255

const dayOf = ({ hour }: { readonly hour: string }): string => hour.slice(0, 10)

/** The host as it is recorded; null: it is omitted. */
export const recordedHost = (host: string | null, hosts: HostRecording): string | null => {
  if (host === null || hosts === 'none') return null
  const name = host.toLowerCase().slice(0, maxHostLength)
  return hosts === 'full' ? name : getDomain(name)
}

/** Sums of requests without details, by hour and plan. */
type MergedHours = Map<string, Map<string, Merged>>

const mergeInto = (
  hours: MergedHours,
  planId: string,
  hour: string,
  up: number,
  down: number,
  reason: string | null,
): void => {
  const plans = hours.get(hour) ?? new Map<string, Merged>()
  if (plans.size === 0) hours.set(hour, plans)
  const known = plans.get(planId)
  const total = known ?? { requests: 0, failures: 0, up: 0, down: 0 }
  if (known === undefined) plans.set(planId, total)
  // A part is no request of its own.
  if (reason !== inProgress) {
    total.requests += 1
    if (reason !== null) total.failures += 1
  }
  total.up += up
  total.down += down
}

const addHours = (hours: MergedHours, added: MergedHours): void => {
  for (const [hour, plans] of added) {
    const known = hours.get(hour)
    if (known === undefined) hours.set(hour, plans)
    else for (const [planId, total] of plans) known.set(planId, sumOf(known.get(planId), total))
  }
}

const sumOf = (known: Merged | undefined, added: Merged): Merged =>
  known === undefined
    ? added
    : {
        requests: known.requests + added.requests,
        failures: known.failures + added.failures,
        up: known.up + added.up,
        down: known.down + added.down,
      }

const withoutBytes = <Counted extends { readonly up: number; readonly down: number }>(
  counted: Counted,
): Counted => ({ ...counted, up: 0, down: 0 })

/** Creates the partition of a day if it is missing. */
const createPartition = async (pool: pg.Pool, day: string): Promise<void> => {
  const name = `requests_${day.replaceAll('-', '')}`
  const nextDay = isoTime(Date.parse(day) + 86_400_000).slice(0, 10)
  await inTransaction(pool, async (client) => {
    await client.query("select pg_advisory_xact_lock(hashtext('traffic.requests'))")
    await client.query(
      `create table if not exists traffic.${name} partition of traffic.requests
         for values from ('${day}T00:00:00Z') to ('${nextDay}T00:00:00Z')`,
    )
  })
}

export const createRequestRecords = (dependencies: {
  readonly pool: pg.Pool
  readonly clock: Clock
  /** It sends no batches but these. */
  readonly reporter: Reporter
  readonly hosts: HostRecording
  readonly meteringHour: Pick<MeteringHour, 'onBatchTaken' | 'onBatchReported' | 'onBatchLost'>
  /** Default: `maxRecordsADay`. */
  readonly recordsADay?: number
  /** Default: `maxQueued`. */
  readonly queued?: number
}): RequestRecords => {
  const {
    pool,
    clock,
    reporter,
    hosts,
    meteringHour,
    recordsADay = maxRecordsADay,
    queued = maxQueued,
  } = dependencies
  /** Days that have a partition. */
  const knownDays = new Set<string>()
  /** Records with bytes that are in no batch of metered bytes yet. */
  let queue: Written[] = []
  /** Records with bytes in a batch that may not be counted yet. */
  let taken: Written[] = []
  /** Records to write. A record is written after its bytes are counted, so that records never exceed them. */
  let ready: Written[] = []
  /** Sums of requests, with the same stages as the records: `queue`, `taken` and `ready`. */
  const merged: { queue: MergedHours; taken: MergedHours; ready: MergedHours } = {
    queue: new Map(),
    taken: new Map(),
    ready: new Map(),
  }
  /** Plans that have all records of a day. */
  const fullDays = new Map<string, string>()
  let pendingBatch: Batch | null = null
  const size = (): number => queue.length + taken.length + ready.length + (pendingBatch?.records.length ?? 0)
  meteringHour.onBatchTaken(() => {
    taken = taken.concat(queue)
    queue = []
    addHours(merged.taken, merged.queue)
    merged.queue = new Map()
  })
  meteringHour.onBatchReported(() => {
    ready = ready.concat(taken)
    taken = []
    addHours(merged.ready, merged.taken)
    merged.taken = new Map()
  })
  // The bytes stay uncharged: the requests are recorded without them.
  meteringHour.onBatchLost(() => {
    taken = taken.map(withoutBytes)
    queue = queue.map(withoutBytes)
    for (const hours of [merged.taken, merged.queue])
      for (const plans of hours.values())
        for (const [planId, total] of plans) plans.set(planId, withoutBytes(total))
  })

  /** Returns whether the batch was written now. */
  const write = async (batch: Batch, name: string, sequence: number): Promise<boolean> => {
    const days = new Map<string, { planId: string; day: string; records: number }>()
    for (const record of batch.records) {
      const key = `${record.planId}\n${dayOf(record)}`
      const day = days.get(key) ?? { planId: record.planId, day: dayOf(record), records: 0 }
      day.records += 1
      days.set(key, day)
    }
    for (const { day } of days.values()) {
      if (knownDays.has(day)) continue
      await createPartition(pool, day)
      knownDays.add(day)
    }
    return inTransaction(pool, async (client) => {
      const taken = await client.query(
        `insert into work.traffic_reporters as known (reporter, sequence, reported_at)
         values ($1::text, $2::bigint, $3::timestamptz)
         on conflict (reporter) do update set sequence = excluded.sequence, reported_at = excluded.reported_at
           where known.sequence < excluded.sequence`,
        [name, sequence, isoTime(clock())],
      )
      if (taken.rowCount === 0) return false
      const counted = await client.query<{ plan_id: string; day: string; records: number }>(
        `insert into traffic.plan_days as known (plan_id, day, records)
         select * from unnest($1::text[], $2::date[], $3::bigint[]) given order by 1, 2
         on conflict (plan_id, day) do update set records = known.records + excluded.records
         returning plan_id, day::text, records`,
        [
          [...days.values()].map(({ planId }) => planId),
          [...days.values()].map(({ day }) => day),
          [...days.values()].map(({ records }) => records),
        ],
      )
      /** How many records of this batch still fit into the day of their plan. */
      const free = new Map<string, number>()
      for (const { plan_id: planId, day, records } of counted.rows) {
        const key = `${planId}\n${day}`
        free.set(key, recordsADay - (records - (days.get(key)?.records ?? 0)))
        if (records >= recordsADay) fullDays.set(planId, day)
      }
      const rows: Written[] = []
      const rest: MergedHours = new Map(
        [...batch.merged].map(([hour, plans]) => [
          hour,
          new Map([...plans].map(([planId, total]) => [planId, { ...total }])),
        ]),
      )
      for (const record of batch.records) {
        const key = `${record.planId}\n${dayOf(record)}`
        const left = free.get(key) ?? 0
        free.set(key, left - 1)
        if (left > 0) rows.push(record)
        else mergeInto(rest, record.planId, record.hour, record.up, record.down, record.reason)
      }
      await insertRows(client, rows)
      await insertMerged(client, rest)
      return true
    })
  }

  const insertRows = async (client: pg.ClientBase, rows: readonly Written[]): Promise<void> => {
    if (rows.length === 0) return
    const each = <Value>(pick: (record: Written) => Value): Value[] => rows.map(pick)
    await client.query({
      name: 'gateway-request-records',
      text: `
        insert into traffic.requests (plan_id, hour, ended_at, request_id, protocol, line, host, port, country,
                                      bytes_up, bytes_down, duration_ms, reason)
        select plan_id, hour, ended_at, request_id, protocol, line,
               case when without.plan_id is null then host end, case when without.plan_id is null then port end, country,
               bytes_up, bytes_down, duration_ms, reason
          from unnest($1::text[], $2::timestamptz[], $3::timestamptz[], $4::text[], $5::text[], $6::text[],
                      $7::text[], $8::int[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $13::text[])
               given (plan_id, hour, ended_at, request_id, protocol, line, host, port, country,
                      bytes_up, bytes_down, duration_ms, reason)
          left join work.plans_without_hosts without using (plan_id)`,
      values: [
        each(({ planId }) => planId),
        each(({ hour }) => hour),
        each(({ endedAt }) => endedAt),
        each(({ requestId }) => requestId),
        each(({ protocol }) => protocol),
        each(({ line }) => line?.slice(0, maxLineLength) ?? null),
        each(({ host }) => recordedHost(host, hosts)),
        each(({ port }) => (hosts === 'none' ? null : port)),
        each(({ country }) => country),
        each(({ up }) => up),
        each(({ down }) => down),
        each(({ durationMs }) => Math.round(durationMs)),
        each(({ reason }) => reason),
      ],
    })
  }

  const insertMerged = async (client: pg.ClientBase, totals: MergedHours): Promise<void> => {
    if (totals.size === 0) return
    const rows = [...totals].flatMap(([hour, plans]) =>
      [...plans].map(([planId, total]) => ({ planId, hour, total })),
    )
    await client.query(
      `insert into traffic.merged_hours as known (plan_id, hour, requests, failures, bytes_up, bytes_down)
       select * from unnest($1::text[], $2::timestamptz[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) given
        order by 1, 2
       on conflict (plan_id, hour) do update
         set requests = known.requests + excluded.requests, failures = known.failures + excluded.failures,
             bytes_up = known.bytes_up + excluded.bytes_up, bytes_down = known.bytes_down + excluded.bytes_down`,
      [
        rows.map(({ planId }) => planId),
        rows.map(({ hour }) => hour),
        rows.map(({ total }) => total.requests),
        rows.map(({ total }) => total.failures),
        rows.map(({ total }) => total.up),
        rows.map(({ total }) => total.down),
      ],
    )
  }

  const flush = async (): Promise<void> => {
    if (pendingBatch === null) {
      if (ready.length === 0 && merged.ready.size === 0) return
      reporter.nextBatch()
      pendingBatch = { records: ready.slice(0, maxBatch), merged: merged.ready }
      ready = ready.slice(maxBatch)
      merged.ready = new Map()
    }
    try {
      const batch = pendingBatch
      await reporter.send((name, sequence) => write(batch, name, sequence))
    } catch (error) {
      knownDays.clear()
      // Postgres would reject this batch again, so it is dropped. Its bytes count as not recorded.
      if (!isDatabaseOutage(error)) pendingBatch = null
      throw error
    }
    pendingBatch = null
  }

  return {
    add: (record) => void queue.push({ ...record, endedAt: isoTime(clock()) }),
    merge: (planId, hour, up, down, reason) => {
      const fullDay = fullDays.get(planId)
      if (size() < queued && (fullDay === undefined || !hour.startsWith(fullDay))) return false
      mergeInto(merged.queue, planId, hour, up, down, reason)
      return true
    },
    flush,
    drain: async () => {
      while (pendingBatch !== null || ready.length > 0 || merged.ready.size > 0) await flush()
    },
    get size() {
      return size()
    },
  }
}
