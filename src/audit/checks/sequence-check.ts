import type pg from 'pg'
import type { LogSealed } from '../../domain/seals/events.ts'
import { type Clock, isoTime, isTime, maxAheadMs } from '../../kernel/clock.ts'
import { parseUntrustedObject } from '../../kernel/json-text.ts'
import { sealStream } from '../../kernel/streams.ts'
import type { StoredEvent } from '../../platform/eventstore/port.ts'
import { int8Array, textArray, uuidArray } from '../../platform/postgres/array-parameters.ts'
import { type EventLocationRow, eventLocationOf, type Findings, toEventLocation } from './finding.ts'

/**
 * Positions rise, without gaps where the log promises that; event ids are UUIDs, each once; each stream's revisions
 * count from 0; no event of a stream was recorded before the one before it, none after the clock of the verification, and
 * none after the seal over it was made: the sealer's clock was right (docs/decisions/0072). An event that says that its
 * stream goes on at a time that lies ahead (docs/decisions/0087) was decided by these clocks, and has the time of the event
 * before it.
 */
export type SequenceCheck = {
  take(events: readonly StoredEvent[], firstOrdinal: number): Promise<void>
  /** Resolves when the table of all events is written. */
  written(): Promise<unknown>
  end(ordinal: number): Promise<{ readonly streams: number }>
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const recordedAtForm = /"recordedAt":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"/

type Times = {
  /** Milliseconds, or -1 for metadata that has no such time: `content` tells of that. */
  readonly recordedMs: number
  /** Null where the event does not say that its stream goes on at a time that lies ahead. */
  readonly decidedMs: number | null
}

const timesIn = (metadata: string): Times => {
  const [, at] = recordedAtForm.exec(metadata) ?? []
  // The form of ours first: nothing is parsed for it.
  if (at !== undefined && !metadata.includes('"decidedAt"'))
    return { recordedMs: Date.parse(at), decidedMs: null }
  const { recordedAt, decidedAt } = parseUntrustedObject<StoredTimes>(metadata) ?? {}
  const [recordedMs, decidedMs] = [recordedAt, decidedAt].map((time) => {
    const ms = Date.parse(String(time))
    return Number.isNaN(ms) ? -1 : ms
  }) as [number, number]
  return { recordedMs, decidedMs: decidedAt === undefined ? null : decidedMs }
}
type StoredTimes = { readonly recordedAt?: unknown; readonly decidedAt?: unknown }

/** What a seal says of itself; null for any other event, and for one that is no seal of ours: `seals` tells of that. */
const sealIn = ({ type, stream, data }: StoredEvent): Seal | null => {
  if (type !== 'LogSealed' || stream !== sealStream) return null
  const { throughOrdinal, sealedAt } = parseUntrustedObject<LogSealed['data']>(data) ?? {}
  const atMs = Date.parse(String(sealedAt))
  return throughOrdinal !== undefined && Number.isSafeInteger(throughOrdinal) && isTime(atMs)
    ? { throughOrdinal, atMs }
    : null
}
type Seal = { readonly throughOrdinal: number; readonly atMs: number }
/** A seal that something was recorded after, and the first event that no seal before it is over. */
type Suspect = Seal & { readonly fromOrdinal: number; readonly ordinal: number }

type Row = EventLocationRow & {
  recorded_ms: number
  decided_ms: number | null
  /** Of its decision. */
  own_ms: number
  expected: number
  before_ms: number | null
  first: number
}

const limit = 100

export const createSequenceCheck = async (options: {
  readonly client: pg.Client
  readonly schema: string
  readonly findings: Findings
  readonly gapless: boolean
  /** What is later than it is of the future; null: only the seals tell. */
  readonly clock: Clock | null
}): Promise<SequenceCheck> => {
  const { client, schema, findings, gapless, clock } = options
  const table = `${schema}.event_places`
  await client.query(
    `create unlogged table ${table} (ordinal bigint not null, position bigint not null, id uuid not null,
       stream text collate "C" not null, revision bigint not null, type text not null, recorded_ms bigint not null,
       decided_ms bigint);
      create index on ${table} (ordinal)`, // each seal asks for the events after it
  )
  let position = 0
  /** The latest time of recording since a seal was looked at. */
  let latestMs = Number.NEGATIVE_INFINITY
  let sealedThrough = 0
  let suspects: Suspect[] = []
  let written: Promise<unknown> = Promise.resolve()

  /** @returns when it was recorded, with -1 where that is told of as wrong */
  const checkOne = (event: StoredEvent, ordinal: number): Times => {
    const say = (check: 'positions' | 'ids' | 'times', problem: string): void =>
      findings.add({ where: 'event', check, event: eventLocationOf(event, ordinal), problem })
    if (event.position <= position) say('positions', `it follows position ${position}`)
    else if (gapless && event.position !== position + 1)
      say(
        'positions',
        `it follows position ${position}: ${event.position - position - 1} before it are missing`,
      )
    position = event.position
    if (!uuid.test(event.id)) say('ids', 'its id is no UUID')
    const times = timesIn(event.metadata)
    const atMs = times.decidedMs ?? times.recordedMs
    const nowMs = clock?.() ?? Number.POSITIVE_INFINITY
    const isFuture = atMs > nowMs + maxAheadMs
    if (isFuture) say('times', `it was recorded at ${isoTime(atMs)}, and it is ${isoTime(nowMs)} now`)
    else latestMs = Math.max(latestMs, atMs)
    const seal = sealIn(event)
    if (seal !== null) takeSeal(seal, ordinal)
    return isFuture ? { recordedMs: -1, decidedMs: null } : times
  }
  const takeSeal = (seal: Seal, ordinal: number): void => {
    // Nothing that was recorded so far is later than this seal, or than a later one: looked at once, for all.
    if (latestMs <= seal.atMs + maxAheadMs) latestMs = Number.NEGATIVE_INFINITY
    else suspects.push({ ...seal, fromOrdinal: sealedThrough + 1, ordinal })
    sealedThrough = Math.max(sealedThrough, seal.throughOrdinal)
  }

  /** Which events a seal was made before, of those that it is over. */
  const afterTheirSeal = async (): Promise<void> => {
    const last = suspects.at(-1)
    if (last === undefined) return
    await written
    for (const { fromOrdinal, throughOrdinal, atMs, ordinal } of suspects) {
      const { rows } = await client.query<Row>(
        `select *, coalesce(decided_ms, recorded_ms) as own_ms from ${table}
          where ordinal between $1 and $2 and coalesce(decided_ms, recorded_ms) > $3
          order by ordinal limit ${limit}`,
        [fromOrdinal, throughOrdinal, atMs + maxAheadMs],
      )
      for (const row of rows)
        findings.add({
          where: 'event',
          check: 'times',
          event: toEventLocation(row),
          problem: `it was recorded at ${isoTime(row.own_ms)}, and event ${ordinal} sealed it at ${isoTime(atMs)}, before that`,
        })
    }
    const { rows } = await client.query<{ latest: number | null }>(
      `select max(coalesce(decided_ms, recorded_ms)) as latest from ${table} where ordinal > $1`,
      [last.throughOrdinal],
    )
    latestMs = rows[0]?.latest ?? Number.NEGATIVE_INFINITY
    suspects = []
  }

  const write = async (
    events: readonly StoredEvent[],
    firstOrdinal: number,
    recorded: readonly Times[],
  ): Promise<void> => {
    const good = events
      .map((event, at) => ({ event, ordinal: firstOrdinal + at, times: recorded[at]! }))
      .filter(({ event }) => uuid.test(event.id))
    await client.query({
      name: 'farebox-verify-places',
      text: `insert into ${table} select * from unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::text[], $5::bigint[],
               $6::text[], $7::bigint[], $8::bigint[])`,
      values: [
        int8Array(good.map(({ ordinal }) => ordinal)),
        int8Array(good.map(({ event }) => event.position)),
        uuidArray(good.map(({ event }) => event.id)),
        textArray(good.map(({ event }) => event.stream)),
        int8Array(good.map(({ event }) => event.revision)),
        textArray(good.map(({ event }) => event.type)),
        int8Array(good.map(({ times }) => times.recordedMs)),
        good.map(({ times }) => times.decidedMs),
      ],
    })
  }

  const repeatedIds = async (): Promise<void> => {
    const { rows } = await client.query<Row>(
      `select e.*, r.first from ${table} e
         join (select id, min(ordinal) as first from ${table} group by id having count(*) > 1) r
           on r.id = e.id and r.first <> e.ordinal
        order by e.ordinal limit ${limit}`,
    )
    for (const row of rows)
      findings.add({
        where: 'event',
        check: 'ids',
        event: toEventLocation(row),
        problem: `event ${row.first} has the same id`,
      })
  }

  const brokenStreams = async (): Promise<void> => {
    const { rows } = await client.query<Row>(
      `select * from (
         select *, row_number() over w - 1 as expected, lag(recorded_ms) over w as before_ms from ${table}
         window w as (partition by stream order by ordinal)) e
        where revision <> expected or (recorded_ms >= 0 and recorded_ms < before_ms)
           -- Of an event of the future before it (-1) it is told already.
           or (decided_ms is not null and (decided_ms >= recorded_ms or before_ms is null
             or (before_ms >= 0 and before_ms <> recorded_ms)))
        order by ordinal limit ${limit}`,
    )
    for (const row of rows) {
      const event = toEventLocation(row)
      if (row.revision !== row.expected)
        findings.add({
          where: 'event',
          check: 'revisions',
          event,
          problem: `it is event ${row.expected} of its stream, counted from 0, but has the revision ${row.revision}`,
        })
      else
        findings.add({
          where: 'event',
          check: 'times',
          event,
          problem:
            row.decided_ms === null
              ? 'it was recorded before the event before it in its stream'
              : `it says that its stream goes on at ${isoTime(row.recorded_ms)}, and the event before it was recorded at ${row.before_ms === null ? 'no time: there is none' : isoTime(row.before_ms)}`,
        })
    }
  }

  return {
    async take(events, firstOrdinal) {
      const recorded = events.map((event, at) => checkOne(event, firstOrdinal + at))
      await written
      written = write(events, firstOrdinal, recorded)
      written.catch(() => undefined) // the next to wait for it is told
      await afterTheirSeal()
    },
    written: () => written,
    async end() {
      await written
      await repeatedIds()
      await brokenStreams()
      const { rows } = await client.query<{ streams: number }>(
        `select count(*) as streams from ${table} where revision = 0`,
      )
      return { streams: rows[0]?.streams ?? 0 }
    },
  }
}
