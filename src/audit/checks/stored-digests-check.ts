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
type MissingRow = { readonly ordinal: number; readonly before: Buffer; readonly digest: Buffer }

/** An event that was not at this ordinal when the log was digested. */
type ExtraRow = { readonly event: StoredEvent; readonly location: EventLocation }

type TamperedStretch = { readonly extraRows: readonly ExtraRow[]; readonly missing: readonly MissingRow[] }

/** Collects the stretches of the log that differ from the stored digests. */
type TamperDiff = {
  add(extraRows: readonly ExtraRow[], missing: readonly MissingRow[]): void
  /** Whether an event after the digested ones is one of the missing events. If so, it is reported as moved. */
  isMoved(event: StoredEvent, ordinal: number): boolean
  /** Adds a finding for each difference. */
  report(): void
}

/** The largest number of comparisons of extra events with missing rows; they take some seconds. */
const maxComparisons = 2_000_000

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
const createTamperDiff = (
  findings: Findings,
  isMatch: (event: StoredEvent, missing: MissingRow) => boolean,
): TamperDiff => {
  const stretches: TamperedStretch[] = []
  const matchedRows = new Set<MissingRow>()
  let comparisons = 0

  const report = (location: EventLocation, problem: string): void =>
    findings.addForEvent('seals', location, problem)

  const originOf = (event: StoredEvent): MissingRow | null => {
    for (const { missing } of stretches)
      for (const row of missing) {
        if (matchedRows.has(row)) continue
        comparisons += 1
        if (comparisons > maxComparisons) return null
        if (isMatch(event, row)) return row
      }
    return null
  }

  const reportIfMoved = (event: StoredEvent, location: EventLocation): boolean => {
    const origin = originOf(event)
    if (origin === null) return false
    matchedRows.add(origin)
    report(location, `it was moved: it was event ${origin.ordinal} when the log was digested`)
    return true
  }

  const reportOne = (extraRows: readonly ExtraRow[], missing: readonly MissingRow[]): void => {
    for (const [index, { location }] of extraRows.entries())
      report(
        location,
        index < missing.length
          ? 'it was changed: its bytes are not those of its digest'
          : 'it was added: there was no such event here when the log was digested',
      )
    for (const { first, last } of runsOf(missing.slice(extraRows.length).map(({ ordinal }) => ordinal)))
      findings.addForEvents('seals', first, last, first === last ? 'it was removed' : 'they were removed')
  }

  /** Removes events that match their own missing row, in order: single unchanged events between changed ones. */
  const withoutUnchanged = ({ extraRows, missing }: TamperedStretch): TamperedStretch => {
    const unmatchedExtra: ExtraRow[] = []
    const unmatchedRows = new Set(missing)
    let from = 0
    for (const extraRow of extraRows) {
      const index = missing.findIndex(
        (row, n) => n >= from && comparisons++ < maxComparisons && isMatch(extraRow.event, row),
      )
      if (index === -1) unmatchedExtra.push(extraRow)
      else {
        unmatchedRows.delete(missing[index]!)
        from = index + 1
      }
    }
    return { extraRows: unmatchedExtra, missing: [...unmatchedRows] }
  }

  return {
    add: (extraRows, missing) => {
      const stretch = withoutUnchanged({ extraRows, missing })
      if (stretch.extraRows.length > 0 || stretch.missing.length > 0) stretches.push(stretch)
    },
    isMoved: (event, ordinal) =>
      stretches.length > 0 && reportIfMoved(event, eventLocationOf(event, ordinal)),
    report() {
      const unmoved = stretches.map(({ extraRows }) =>
        extraRows.filter(({ event, location }) => !reportIfMoved(event, location)),
      )
      for (const [index, { missing }] of stretches.entries())
        reportOne(
          unmoved[index]!,
          missing.filter((row) => !matchedRows.has(row)),
        )
    },
  }
}

/** The stored digests near the current ordinal. Rows before it are dropped. */
type StoredDigests = {
  /** Loads the stored digests of these ordinals. */
  load(from: number, through: number): Promise<void>
  /** The digest of a loaded ordinal; null when none is stored. */
  at(ordinal: number): Buffer | null
}

const createStoredDigests = (store: Pick<DigestStore, 'rows'>): StoredDigests => {
  const source = store.rows()[Symbol.asyncIterator]()
  let rows: DigestRow[] = []
  let isEnded = false
  return {
    async load(from, through) {
      while (!isEnded && (rows.at(-1)?.lastOrdinal ?? 0) < through) {
        const next = await source.next()
        if (next.done) isEnded = true
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

type StoredDigestCheck = {
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

type WaitingEvent = { readonly event: StoredEvent; readonly ordinal: number; readonly gap: number | null }

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
  readonly store: Pick<DigestStore, 'rows' | 'end'>
  readonly digestOf: EventDigest
  readonly findings: Findings
  readonly passed: OnDigestedEvent
  /** The next ordinal of interest. `passed` is not called for ordinals before it. */
  readonly due: () => number
}): Promise<StoredDigestCheck> => {
  const { store, digestOf, findings, passed, due } = options
  const rows = createStoredDigests(store)
  const storedEnd = (await store.end())?.ordinal ?? 0
  const isMatch = (event: StoredEvent, { ordinal, before, digest }: MissingRow): boolean =>
    digest.equals(digestOf(before, ordinal, event))
  const tamperDiff = createTamperDiff(findings, isMatch)
  let digest = startDigest()
  /** The ordinal of the next event at the time of digesting. */
  let next = 1
  let waiting: WaitingEvent[] = []

  const advance = (digestAfter: Buffer, event: StoredEvent | null): Promise<void> | void => {
    const ordinal = next
    digest = digestAfter
    next += 1
    if (ordinal >= due()) return passed(ordinal, digestAfter, event)
  }

  /** The number of ordinals between `next` and the event's digested ordinal; null when no stored digest matches. */
  const gapOf = (event: StoredEvent): number | null => {
    for (let gap = 0; gap <= maxApart; gap += 1) {
      const before = gap === 0 ? digest : rows.at(next + gap - 1)
      const digestAfter = rows.at(next + gap)
      if (before === null || digestAfter === null) return null
      if (isMatch(event, { ordinal: next + gap, before, digest: digestAfter })) return gap
    }
    return null
  }

  /** Skips the ordinals of the next `gap` digests. `extraRows` are the events found in their place. */
  const skipOrdinals = async (extraRows: readonly WaitingEvent[], gap: number): Promise<void> => {
    const missing: MissingRow[] = []
    for (let n = 0; n < gap; n += 1) {
      const digestAfter = rows.at(next)
      if (digestAfter === null) break
      missing.push({ ordinal: next, before: digest, digest: digestAfter })
      await advance(digestAfter, null)
    }
    tamperDiff.add(
      extraRows.map(({ event, ordinal }) => ({ event, location: eventLocationOf(event, ordinal) })),
      missing,
    )
  }

  const advanceAll = async (events: readonly WaitingEvent[]): Promise<void> => {
    for (const { event } of events) {
      const storedDigest = rows.at(next)
      await advance(storedDigest ?? digestOf(digest, next, event), event)
    }
  }

  /**
   * Ends the wait at the end of the log or after too many events. If the last event matches alone, the others are
   * extra; otherwise each waiting event counts as a changed one.
   */
  const endWait = async (): Promise<void> => {
    const waited = waiting
    waiting = []
    const last = waited.at(-1)
    if (last === undefined) return
    if (last.gap !== null) {
      await skipOrdinals(waited.slice(0, -1), last.gap)
      return advanceAll([last])
    }
    // The seal that covers all stored digests, and the events after it, were never digested.
    const sealIndex = waited.findIndex(({ event }) => coveredBy(event) === storedEnd)
    const remainingOrdinals = Math.max(0, storedEnd - next + 1)
    const extraRows = sealIndex === -1 ? Math.min(waited.length, remainingOrdinals) : sealIndex
    await skipOrdinals(waited.slice(0, extraRows), sealIndex === -1 ? extraRows : remainingOrdinals)
    await advanceAll(waited.slice(extraRows))
  }

  const wait = async (event: StoredEvent, ordinal: number): Promise<void> => {
    const before = waiting.at(-1)
    const gap = gapOf(event)
    waiting.push({ event, ordinal, gap })
    if (gap !== null && before?.gap === gap - 1) {
      const waited = waiting
      waiting = []
      await skipOrdinals(waited.slice(0, -2), gap - 1)
      await advanceAll(waited.slice(-2))
    } else if (waiting.length > maxApart) await endWait()
  }

  return {
    prepare: (events) => rows.load(next - 1, next + waiting.length + events + 2 * maxApart),
    take(event, ordinal) {
      if (waiting.length > 0) return wait(event, ordinal)
      const storedDigest = rows.at(next)
      if (storedDigest === null && tamperDiff.isMoved(event, ordinal)) return
      const computedDigest = digestOf(digest, next, event)
      if (storedDigest === null || computedDigest.equals(storedDigest)) return advance(computedDigest, event)
      return wait(event, ordinal)
    },
    async end(ordinal) {
      await endWait()
      tamperDiff.report()
      if (next <= storedEnd)
        findings.addForLog(
          'seals',
          `the log ends with event ${ordinal}, but digests of ${storedEnd} events are stored: the later events were removed`,
        )
    },
    digest: () => digest,
  }
}
