import { sealStream } from '../../kernel/streams.ts'
import type { StoredEvent } from '../../platform/eventstore/port.ts'
import {
  type DigestRow,
  type DigestStore,
  digestBytes,
  type EventDigest,
  startDigest,
} from '../seals/digests.ts'
import { type EventLocation, eventLocationOf, type Findings } from './finding.ts'

/** An ordinal whose digested event is missing, with the digests before and after it. */
export type MissingRow = { readonly ordinal: number; readonly before: Buffer; readonly digest: Buffer }

/** An event that was not at this ordinal when the log was digested. */
export type ExtraRow = { readonly event: StoredEvent; readonly place: EventLocation }

type TamperedStretch = { readonly extraRows: readonly ExtraRow[]; readonly missing: readonly MissingRow[] }

/** Collects the stretches of the log that differ from the stored digests. */
export type TamperDiff = {
  add(extraRows: readonly ExtraRow[], missing: readonly MissingRow[]): void
  /** Whether an event after the digested ones is one of the missing events. If so, it is reported as moved. */
  isMoved(event: StoredEvent, ordinal: number): boolean
  /** Adds a finding for each difference. */
  report(): void
}

/** The largest number of comparisons of extra events with missing rows; they take some seconds. */
const maxTries = 2_000_000

const runsOf = (ordinals: readonly number[]): { readonly first: number; last: number }[] => {
  const runs: { first: number; last: number }[] = []
  for (const ordinal of ordinals) {
    const run = runs.at(-1)
    if (run !== undefined && run.last === ordinal - 1) run.last = ordinal
    else runs.push({ first: ordinal, last: ordinal })
  }
  return runs
}

/**
 * Classifies differences. An extra event that matches a missing row was moved. Of the rest, an extra event that has a
 * missing row was changed, a surplus extra event was added, and a surplus missing row was removed.
 */
export const createTamperDiff = (
  findings: Findings,
  fits: (event: StoredEvent, missing: MissingRow) => boolean,
): TamperDiff => {
  const all: TamperedStretch[] = []
  const found = new Set<MissingRow>()
  let tries = 0

  const say = (place: EventLocation, problem: string): void =>
    findings.add({ where: 'event', check: 'seals', event: place, problem })

  const originOf = (event: StoredEvent): MissingRow | null => {
    for (const { missing } of all)
      for (const one of missing) {
        if (found.has(one)) continue
        tries += 1
        if (tries > maxTries) return null
        if (fits(event, one)) return one
      }
    return null
  }

  const moved = (event: StoredEvent, place: EventLocation): boolean => {
    const origin = originOf(event)
    if (origin === null) return false
    found.add(origin)
    say(place, `it was moved: it was event ${origin.ordinal} when the log was digested`)
    return true
  }

  const reportOne = (extraRows: readonly ExtraRow[], missing: readonly MissingRow[]): void => {
    for (const [at, { place }] of extraRows.entries())
      say(
        place,
        at < missing.length
          ? 'it was changed: its bytes are not those of its digest'
          : 'it was added: there was no such event here when the log was digested',
      )
    for (const { first, last } of runsOf(missing.slice(extraRows.length).map(({ ordinal }) => ordinal)))
      findings.add({
        where: 'events',
        check: 'seals',
        fromOrdinal: first,
        throughOrdinal: last,
        problem: first === last ? 'it was removed' : 'they were removed',
      })
  }

  /** Removes events that match their own missing row, in order: single unchanged events between changed ones. */
  const withoutThoseInPlace = ({ extraRows, missing }: TamperedStretch): TamperedStretch => {
    const left: ExtraRow[] = []
    const places = new Set(missing)
    let from = 0
    for (const extraRow of extraRows) {
      const at = missing.findIndex((one, n) => n >= from && tries++ < maxTries && fits(extraRow.event, one))
      if (at === -1) left.push(extraRow)
      else {
        places.delete(missing[at]!)
        from = at + 1
      }
    }
    return { extraRows: left, missing: [...places] }
  }

  return {
    add: (extraRows, missing) => {
      const disturbance = withoutThoseInPlace({ extraRows, missing })
      if (disturbance.extraRows.length > 0 || disturbance.missing.length > 0) all.push(disturbance)
    },
    isMoved: (event, ordinal) => all.length > 0 && moved(event, eventLocationOf(event, ordinal)),
    report() {
      const staying = all.map(({ extraRows }) => extraRows.filter(({ event, place }) => !moved(event, place)))
      for (const [at, { missing }] of all.entries())
        reportOne(
          staying[at]!,
          missing.filter((one) => !found.has(one)),
        )
    },
  }
}

/** The stored digests near the current ordinal. Rows before it are dropped. */
export type StoredDigests = {
  /** Loads the stored digests of these ordinals. */
  load(from: number, through: number): Promise<void>
  /** The digest of a loaded ordinal; null when none is stored. */
  at(ordinal: number): Buffer | null
}

export const createStoredDigests = (store: DigestStore): StoredDigests => {
  const source = store.rows()[Symbol.asyncIterator]()
  let rows: DigestRow[] = []
  let ended = false
  return {
    async load(from, through) {
      while (!ended && (rows.at(-1)?.lastOrdinal ?? 0) < through) {
        const next = await source.next()
        if (next.done) ended = true
        else rows.push(next.value)
      }
      if ((rows[0]?.lastOrdinal ?? from) < from) rows = rows.filter(({ lastOrdinal }) => lastOrdinal >= from)
    },
    at(ordinal) {
      for (const { firstOrdinal, lastOrdinal, digests } of rows)
        if (ordinal >= firstOrdinal && ordinal <= lastOrdinal) {
          const start = (ordinal - firstOrdinal) * digestBytes
          return digests.subarray(start, start + digestBytes)
        }
      return null
    },
  }
}

/** Called for each ordinal at the time of digesting. `event` is null when another event is there now. */
export type OnDigestedEvent = (
  ordinal: number,
  digest: Buffer,
  event: StoredEvent | null,
) => Promise<void> | void

export type StoredDigestCheck = {
  /** Call before the next `events` events are taken. */
  prepare(events: number): Promise<void>
  /** Takes the next event of the log with its current ordinal. */
  take(event: StoredEvent, ordinal: number): Promise<void> | void
  end(ordinal: number): Promise<void>
  /** The digest after the last event. */
  digest(): Buffer
}

/** The longest run of missing, changed or added events that is analysed event by event. */
const maxApart = 1_000

type Waiting = { readonly event: StoredEvent; readonly ordinal: number; readonly gap: number | null }

/** The number of events that a seal covers; null for any other event. */
const coveredBy = ({ stream, data }: StoredEvent): number | null => {
  const [, through] = (stream === sealStream && /"throughOrdinal":(\d{1,16})/.exec(data)) || []
  return through === undefined ? null : Number(through)
}

/**
 * Compares every event with its stored digest, in one pass.
 *
 * After a mismatch, events wait until two consecutive events match two consecutive stored digests: from there on, the
 * log is as it was digested. The waiting events are extra, and the skipped ordinals are missing; `TamperDiff`
 * classifies both. The check then continues from the stored digest, so that one change is one finding.
 */
export const createStoredDigestCheck = async (options: {
  readonly store: DigestStore
  readonly digestOf: EventDigest
  readonly findings: Findings
  readonly passed: OnDigestedEvent
  /** The next ordinal of interest. `passed` is not called for ordinals before it. */
  readonly due: () => number
}): Promise<StoredDigestCheck> => {
  const { store, digestOf, findings, passed, due } = options
  const rows = createStoredDigests(store)
  const keptEnd = (await store.end())?.ordinal ?? 0
  const fits = (event: StoredEvent, { ordinal, before, digest }: MissingRow): boolean =>
    digest.equals(digestOf(before, ordinal, event))
  const tamperDiff = createTamperDiff(findings, fits)
  let digest = startDigest()
  /** The ordinal of the next event at the time of digesting. */
  let next = 1
  let waiting: Waiting[] = []

  const pass = (after: Buffer, event: StoredEvent | null): Promise<void> | void => {
    const ordinal = next
    digest = after
    next += 1
    if (ordinal >= due()) return passed(ordinal, after, event)
  }

  /** The number of ordinals between `next` and the event's digested ordinal; null when no stored digest matches. */
  const gapOf = (event: StoredEvent): number | null => {
    for (let gap = 0; gap <= maxApart; gap += 1) {
      const before = gap === 0 ? digest : rows.at(next + gap - 1)
      const after = rows.at(next + gap)
      if (before === null || after === null) return null
      if (fits(event, { ordinal: next + gap, before, digest: after })) return gap
    }
    return null
  }

  /** Skips the ordinals of the next `gap` digests. `extraRows` are the events found in their place. */
  const passOver = async (extraRows: readonly Waiting[], gap: number): Promise<void> => {
    const missing: MissingRow[] = []
    for (let n = 0; n < gap; n += 1) {
      const after = rows.at(next)
      if (after === null) break
      missing.push({ ordinal: next, before: digest, digest: after })
      await pass(after, null)
    }
    tamperDiff.add(
      extraRows.map(({ event, ordinal }) => ({ event, place: eventLocationOf(event, ordinal) })),
      missing,
    )
  }

  const passAll = async (events: readonly Waiting[]): Promise<void> => {
    for (const { event } of events) {
      const kept = rows.at(next)
      await pass(kept ?? digestOf(digest, next, event), event)
    }
  }

  /**
   * Ends the wait at the end of the log or after too many events. If the last event matches alone, the others are
   * extra; otherwise each waiting event counts as a changed one.
   */
  const giveUp = async (): Promise<void> => {
    const all = waiting
    waiting = []
    const last = all.at(-1)
    if (last === undefined) return
    if (last.gap !== null) {
      await passOver(all.slice(0, -1), last.gap)
      return passAll([last])
    }
    // The seal that covers all stored digests, and the events after it, were never digested.
    const seal = all.findIndex(({ event }) => coveredBy(event) === keptEnd)
    const places = Math.max(0, keptEnd - next + 1)
    const extraRows = seal === -1 ? Math.min(all.length, places) : seal
    await passOver(all.slice(0, extraRows), seal === -1 ? extraRows : places)
    await passAll(all.slice(extraRows))
  }

  const wait = async (event: StoredEvent, ordinal: number): Promise<void> => {
    const before = waiting.at(-1)
    const gap = gapOf(event)
    waiting.push({ event, ordinal, gap })
    if (gap !== null && before?.gap === gap - 1) {
      const all = waiting
      waiting = []
      await passOver(all.slice(0, -2), gap - 1)
      await passAll(all.slice(-2))
    } else if (waiting.length > maxApart) await giveUp()
  }

  return {
    prepare: (events) => rows.load(next - 1, next + waiting.length + events + 2 * maxApart),
    take(event, ordinal) {
      if (waiting.length > 0) return wait(event, ordinal)
      const kept = rows.at(next)
      if (kept === null && tamperDiff.isMoved(event, ordinal)) return
      const own = digestOf(digest, next, event)
      if (kept === null || own.equals(kept)) return pass(own, event)
      return wait(event, ordinal)
    },
    async end(ordinal) {
      await giveUp()
      tamperDiff.report()
      if (next <= keptEnd)
        findings.add({
          where: 'log',
          check: 'seals',
          problem: `the log ends with event ${ordinal}, but digests of ${keptEnd} events are kept: those after it were cut off`,
        })
    },
    digest: () => digest,
  }
}
