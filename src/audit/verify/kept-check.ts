import type { StoredEvent } from '../../eventstore/port.ts'
import { type EventDigest, startDigest } from '../digest.ts'
import type { DigestStore } from '../digest-store.ts'
import { type EventPlace, type Findings, placeOf } from './finding.ts'
import { createKeptRows } from './kept-rows.ts'

/** Told of each ordinal as the log had it when it was digested; `event` is null when what stands there is not what was digested. */
export type Passed = (ordinal: number, digest: Buffer, event: StoredEvent | null) => void | Promise<void>

export type KeptCheck = {
  /** To be called before so many events are taken. */
  prepare(events: number): Promise<void>
  /** The next event of the log, with the ordinal that it has now. */
  take(event: StoredEvent, ordinal: number): Promise<void> | void
  end(ordinal: number): Promise<void>
  /** After the last event. */
  digest(): Buffer
}

/** So many events that are missing, or that were changed or added in a row, are told apart. */
const maxApart = 1_000

type Missing = { readonly ordinal: number; readonly before: Buffer; readonly digest: Buffer }
type Suspect = { readonly event: StoredEvent; readonly place: EventPlace }

/**
 * Holds every event against the digest that is kept of it. Where one does not fit, its neighbours tell what happened: if
 * it fits a later ordinal, those between are missing; if the next event fits in its place, it was added; if the next fits
 * the next place, it was changed; if it fits the place of a missing one, it was moved. The check goes on from the kept
 * digest, so that one change is one finding.
 */
export const createKeptCheck = async (options: {
  readonly store: DigestStore
  readonly digestOf: EventDigest
  readonly findings: Findings
  readonly passed: Passed
  /** The ordinals that somebody waits for: `passed` is called for no other. */
  readonly due: () => number
}): Promise<KeptCheck> => {
  const { store, digestOf, findings, passed, due } = options
  const rows = createKeptRows(store)
  const keptEnd = (await store.end())?.ordinal ?? 0
  let digest = startDigest()
  /** The ordinal that the next event had when it was digested. */
  let next = 1
  let missing: Missing[] = []
  let suspects: Suspect[] = []

  const fits = (event: StoredEvent, ordinal: number, before: Buffer, wanted: Buffer | null): boolean =>
    wanted?.equals(digestOf(before, ordinal, event)) === true

  const pass = (after: Buffer, event: StoredEvent | null): Promise<void> | void => {
    const ordinal = next
    digest = after
    next += 1
    if (ordinal >= due()) return passed(ordinal, after, event)
  }

  const say = (place: EventPlace, problem: string): void =>
    findings.add({ where: 'event', check: 'seals', event: place, problem })

  /** What stands in the places of the suspects is not what was digested. */
  const changed = async (): Promise<void> => {
    for (const { place } of suspects) {
      say(place, 'it was changed: its bytes are not those of its digest')
      const after = rows.at(next)
      if (after !== null) await pass(after, null)
    }
    suspects = []
  }
  const added = (): void => {
    for (const { place } of suspects)
      say(place, 'it was added: there was no such event here when the log was digested')
    suspects = []
  }

  /** The place of a missing event that this one has. */
  const missingPlaceOf = (event: StoredEvent): Missing | undefined =>
    missing.find(({ ordinal, before, digest }) => fits(event, ordinal, before, digest))

  /** How many events are missing before this one; 0 when that does not explain it. */
  const gapBefore = (event: StoredEvent, from: number): number => {
    for (let gap = 1; gap <= maxApart; gap += 1) {
      const before = rows.at(from + gap - 1)
      const wanted = rows.at(from + gap)
      if (before === null || wanted === null) return 0
      if (fits(event, from + gap, before, wanted)) return gap
    }
    return 0
  }

  const noteMissing = async (gap: number): Promise<void> => {
    for (let n = 0; n < gap; n += 1) {
      const after = rows.at(next)!
      missing.push({ ordinal: next, before: digest, digest: after })
      await pass(after, null)
    }
    if (missing.length > 10 * maxApart) reportMissing()
  }
  const reportMissing = (): void => {
    for (const run of runsOf(missing.map(({ ordinal }) => ordinal)))
      findings.add({
        where: 'events',
        check: 'seals',
        fromOrdinal: run.first,
        throughOrdinal: run.last,
        problem: run.first === run.last ? 'it was removed' : 'they were removed',
      })
    missing = []
  }

  /** True when the event was explained, by itself or with the suspects before it. */
  const explain = async (event: StoredEvent, place: EventPlace): Promise<boolean> => {
    const moved = missingPlaceOf(event)
    if (moved !== undefined) {
      missing = missing.filter((one) => one !== moved)
      say(place, `it was moved: it was event ${moved.ordinal} when the log was digested`)
      return true
    }
    const places = suspects.length
    // After suspects: they are additions, or changes, or both.
    if (places > 0 && fits(event, next, digest, rows.at(next))) {
      added()
      await pass(rows.at(next)!, event)
      return true
    }
    const gap = gapBefore(event, next)
    if (gap === 0) return false
    if (places === 0) await noteMissing(gap)
    else if (gap === places) await changed()
    else if (gap < places) {
      // Some of them were changed and some added; which is which nothing tells.
      const before = suspects
      suspects = before.slice(0, gap)
      await changed()
      suspects = before.slice(gap)
      added()
    } else {
      await changed()
      await noteMissing(gap - places)
    }
    await pass(rows.at(next)!, event)
    return true
  }

  /** An event that does not simply fit. */
  const judge = async (event: StoredEvent, ordinal: number): Promise<void> => {
    if (rows.at(next + suspects.length) === null) {
      // Past what is kept: nothing to hold it against, or to tell the suspects by.
      await changed()
      return pass(digestOf(digest, next, event), event)
    }
    const place = placeOf(event, ordinal)
    if (await explain(event, place)) return
    suspects.push({ event, place })
    if (suspects.length >= maxApart) await changed()
  }

  return {
    prepare: (events) => rows.load(next - 1, next + events + 2 * maxApart),
    take(event, ordinal) {
      if (suspects.length > 0) return judge(event, ordinal)
      const wanted = rows.at(next)
      const own = digestOf(digest, next, event)
      if (wanted === null || own.equals(wanted)) return pass(own, event)
      return judge(event, ordinal)
    },
    async end(ordinal) {
      await changed()
      reportMissing()
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

/** Runs of numbers that follow one another. */
const runsOf = (numbers: readonly number[]): { readonly first: number; readonly last: number }[] => {
  const runs: { first: number; last: number }[] = []
  for (const number of numbers) {
    const run = runs.at(-1)
    if (run !== undefined && run.last === number - 1) run.last = number
    else runs.push({ first: number, last: number })
  }
  return runs
}
