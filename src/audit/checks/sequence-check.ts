import type pg from 'pg'
import type { LogSealed } from '../../domain/seals/events.ts'
import { type Clock, isoTime, isTime, maxAheadMs } from '../../kernel/clock.ts'
import { parseUntrustedObject } from '../../kernel/json-text.ts'
import { sealStream } from '../../kernel/streams.ts'
import { type StoredTimes, storedTimes } from '../../platform/eventstore/codec.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import { int8Array, textArray, uuidArray } from '../../platform/postgres/pipeline.ts'
import { decidedTable } from '../invariants/approval-invariants.ts'
import {
  addEventFindings,
  type EventLocation,
  type EventLocationRow,
  eventLocationOf,
  eventText,
  type Findings,
  firstRows,
  toEventLocation,
} from './finding.ts'

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

type BrokenRow = EventLocationRow & {
  recorded_ms: number
  decided_ms: number | null
  expected: number
  before_ms: number | null
}

/** The table of events whose time of recording was in the future. */
const earlyTable = 'recorded_early'

/** Checks that positions rise. @param gapless the log leaves out no position */
export const createPositionCheck = (findings: Findings, gapless: boolean) => {
  let position = 0
  return (events: readonly StoredEvent[], firstOrdinal: number): void => {
    for (const [index, event] of events.entries()) {
      const report = (problem: string): void =>
        findings.addForEvent('positions', eventLocationOf(event, firstOrdinal + index), problem)
      if (event.position <= position) report(`it follows position ${position}`)
      else if (gapless && event.position !== position + 1)
        report(`it follows position ${position}: ${event.position - position - 1} before it are missing`)
      position = event.position
    }
  }
}

/** Checks that event ids are UUIDs. */
export const checkIds = (events: readonly StoredEvent[], firstOrdinal: number, findings: Findings): void => {
  for (const [index, event] of events.entries())
    if (!uuid.test(event.id))
      findings.addForEvent('ids', eventLocationOf(event, firstOrdinal + index), 'its id is no UUID')
}

/** Adds a finding for each event whose id an earlier event has. */
export const checkRepeatedIds = (client: pg.ClientBase, schema: string, findings: Findings): Promise<void> =>
  addEventFindings<EventLocationRow & { first: number }>(
    client,
    findings,
    `select e.*, r.first from ${schema}.event_places e
       join (select id, min(ordinal) as first from ${schema}.event_places group by id having count(*) > 1) r
         on r.id = e.id and r.first <> e.ordinal`,
    ({ first }) => ({ check: 'ids', problem: `event ${first} has the same id` }),
  )

/**
 * Checks that the revisions of each stream count from 0 and that no event of a stream is recorded before its
 * predecessor. An event whose stream continues at a future time (docs/decisions/0085) was decided by the clocks of its
 * time, and has the time of the event before it. Fills the table `event_places`, which other checks read.
 */
export const createSequenceCheck = async (options: {
  readonly client: pg.Client
  readonly schema: string
  readonly log: Pick<EventLog, 'readStream'>
  readonly findings: Findings
  /** Later times are in the future; null: only the seals are compared. */
  readonly clock: Clock | null
}) => {
  const { client, schema, log, findings, clock } = options
  const table = `${schema}.event_places`
  await client.query(
    `create unlogged table ${table} (ordinal bigint not null, position bigint not null, id uuid not null,
       stream text collate "C" not null, revision bigint not null, type text not null, recorded_ms bigint not null,
       decided_ms bigint);
     create unlogged table ${schema}.${earlyTable} (ordinal bigint not null, problem text not null)`,
  )
  const checkTimes = createTimeCheck(log, clock)
  let written: Promise<unknown> = Promise.resolve()

  const write = async (
    events: readonly StoredEvent[],
    firstOrdinal: number,
    checkedTimes: readonly CheckedTimes[],
  ): Promise<void> => {
    const entries = events.map((event, index) => ({
      event,
      ordinal: firstOrdinal + index,
      times: checkedTimes[index]!,
    }))
    const withValidId = entries.filter(({ event }) => uuid.test(event.id))
    await client.query({
      name: 'farebox-verify-places',
      text: `insert into ${table} select * from unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::text[], $5::bigint[],
               $6::text[], $7::bigint[], $8::bigint[])`,
      values: [
        int8Array(withValidId.map(({ ordinal }) => ordinal)),
        int8Array(withValidId.map(({ event }) => event.position)),
        uuidArray(withValidId.map(({ event }) => event.id)),
        textArray(withValidId.map(({ event }) => event.stream)),
        int8Array(withValidId.map(({ event }) => event.revision)),
        textArray(withValidId.map(({ event }) => event.type)),
        // Times in the future are not compared with their neighbours.
        int8Array(withValidId.map(({ times }) => (times.isFuture ? -1 : times.recordedMs))),
        withValidId.map(({ times }) => (times.isFuture ? null : times.decidedMs)),
      ],
    })
    const earlyEntries = entries.filter(({ times }) => times.problem !== null)
    if (earlyEntries.length > 0)
      await client.query(
        `insert into ${schema}.${earlyTable} select * from unnest($1::bigint[], $2::text[])`,
        [
          int8Array(earlyEntries.map(({ ordinal }) => ordinal)),
          textArray(earlyEntries.map(({ times }) => times.problem!)),
        ],
      )
  }

  const reportBrokenStreams = (): Promise<void> =>
    addEventFindings<BrokenRow>(
      client,
      findings,
      `select * from (
         select *, row_number() over w - 1 as expected, lag(recorded_ms) over w as before_ms from ${table}
         window w as (partition by stream order by ordinal)) e
        where revision <> expected or (recorded_ms >= 0 and recorded_ms < before_ms)
           -- An event of the future before it (-1) is reported already.
           or (decided_ms is not null and (decided_ms >= recorded_ms or before_ms is null
             or (before_ms >= 0 and before_ms <> recorded_ms)))`,
      ({ revision, expected, recorded_ms, decided_ms, before_ms }) => {
        if (revision !== expected)
          return {
            check: 'revisions',
            problem: `it is event ${expected} of its stream, counted from 0, but has the revision ${revision}`,
          }
        return {
          check: 'times',
          problem:
            decided_ms === null
              ? 'it was recorded before the event before it in its stream'
              : `it says that its stream goes on at ${isoTime(recorded_ms)}, and the event before it was recorded at ${before_ms === null ? 'no time: there is none' : isoTime(before_ms)}`,
        }
      },
    )

  return {
    async take(events: readonly StoredEvent[], firstOrdinal: number): Promise<void> {
      const checkedTimes = await checkTimes(events, firstOrdinal)
      await written
      written = write(events, firstOrdinal, checkedTimes)
      written.catch(() => undefined) // the next await receives the error
    },
    /** Resolves when the table of all events is complete. */
    written: () => written,
    /** Returns the number of streams. */
    async end(): Promise<number> {
      await reportBrokenStreams()
      const { rows } = await client.query<{ streams: number }>(
        `select count(*) as streams from ${table} where revision = 0`,
      )
      return rows[0]?.streams ?? 0
    },
  }
}

/** An event that violates a rule and that an operator acknowledged. */
type AcknowledgedEvent = {
  readonly event: EventLocation
  readonly rule: string
  readonly problem: string
  readonly reason: string
  readonly by: string
  readonly at: string
}

export const acknowledgedText = ({ event, problem, reason, by, at }: AcknowledgedEvent): string =>
  `${eventText(event)}: ${problem}; ${by} decided on ${at} that it stands: ${reason}`

/** The number of acknowledged events, and the first of them in the order of the log. */
export type AcknowledgedEvents = { readonly count: number; readonly first: readonly AcknowledgedEvent[] }

type AcknowledgedRow = EventLocationRow & {
  problem: string
  reason: string
  decided_by: string
  decided_at: string
}

/**
 * Reports events whose time of recording was in the future. Each is a finding, unless an operator acknowledged it: then
 * it is only listed. Signatures, seals and all other rules are checked as for any other event, so an acknowledgement
 * hides no forgery. Call it after the end of the log, when the rules have written their tables.
 */
export const checkRecordedEarly = async (
  client: pg.ClientBase,
  schema: string,
  findings: Findings,
): Promise<AcknowledgedEvents> => {
  const earlySql = `${schema}.${earlyTable} join ${schema}.event_places e using (ordinal)
    left join ${schema}.${decidedTable.name} d on d.event_id = e.id::text and d.rule = '${timeRule}'`
  await addEventFindings<EventLocationRow & { problem: string }>(
    client,
    findings,
    `select e.*, problem from ${earlySql} where d.reason is null`,
    ({ problem }) => ({
      check: 'times',
      problem: `${problem}; if the clocks were wrong then, "ledger decide" acknowledges it`,
    }),
  )
  const { rows, total } = await firstRows<AcknowledgedRow>(
    client,
    `select e.*, problem, d.reason, d.decided_by, d.decided_at from ${earlySql} where d.reason is not null`,
    'ordinal',
  )
  return {
    count: total,
    first: rows.map((row) => ({
      event: toEventLocation(row),
      rule: timeRule,
      problem: row.problem,
      reason: row.reason,
      by: row.decided_by,
      at: row.decided_at,
    })),
  }
}

/**
 * The rule that an event violates when its time of recording is in the future. Operators acknowledge it by this name.
 */
export const timeRule = 'recorded-in-its-time'

type Seal = { readonly throughOrdinal: number; readonly atMs: number }

/**
 * Seals in the order of the log. Seals without a valid time or ordinal are skipped: the check of seals reports them.
 */
const sealsOf = async function* (log: Pick<EventLog, 'readStream'>): AsyncGenerator<Seal> {
  for await (const { type, data } of log.readStream(sealStream)) {
    if (type !== 'LogSealed') continue
    const { throughOrdinal, sealedAt } = parseUntrustedObject<LogSealed['data']>(data) ?? {}
    const atMs = Date.parse(String(sealedAt))
    if (throughOrdinal !== undefined && Number.isSafeInteger(throughOrdinal) && isTime(atMs))
      yield { throughOrdinal, atMs }
  }
}

type CheckedTimes = StoredTimes & {
  /** The time is later than the clock. */
  readonly isFuture: boolean
  /** Null when the time of recording was not in the future. */
  readonly problem: string | null
}

/**
 * Compares the time of each event with a clock and with the first seal that covers it. The sealer's clock was right,
 * and no event is recorded after its seal (docs/decisions/0085). Call the result with every event of the log, in order.
 * @param clock null: compare with the seals only
 */
export const createTimeCheck = (log: Pick<EventLog, 'readStream'>, clock: Clock | null) => {
  const seals = sealsOf(log)
  const upcomingSeals: Seal[] = []
  let readThroughOrdinal = 0

  /** Reads seals up to the first one that covers this ordinal. */
  const readSeals = async (ordinal: number): Promise<void> => {
    while (readThroughOrdinal < ordinal) {
      const { value, done } = await seals.next()
      if (done) return
      readThroughOrdinal = Math.max(readThroughOrdinal, value.throughOrdinal)
      upcomingSeals.push(value)
    }
  }
  const problemOf = (atMs: number, nowMs: number, ordinal: number): string | null => {
    if (atMs > nowMs + maxAheadMs)
      return `it was recorded at ${isoTime(atMs)}, and it is ${isoTime(nowMs)} now`
    while (upcomingSeals[0] !== undefined && upcomingSeals[0].throughOrdinal < ordinal) upcomingSeals.shift()
    const [seal] = upcomingSeals
    return seal === undefined || atMs <= seal.atMs + maxAheadMs
      ? null
      : `it was recorded at ${isoTime(atMs)}, and the seal of the events up to ${seal.throughOrdinal} was made at ${isoTime(seal.atMs)}, before that`
  }

  /** @param firstOrdinal the ordinal of the first event */
  return async (events: readonly StoredEvent[], firstOrdinal: number): Promise<readonly CheckedTimes[]> => {
    await readSeals(firstOrdinal + events.length - 1)
    const nowMs = clock?.() ?? Number.POSITIVE_INFINITY
    return events.map(({ metadata }, index) => {
      const times = storedTimes(metadata)
      const atMs = times.decidedMs ?? times.recordedMs
      return {
        ...times,
        isFuture: atMs > nowMs + maxAheadMs,
        problem: problemOf(atMs, nowMs, firstOrdinal + index),
      }
    })
  }
}
