import type { StoredEvent } from '../../../platform/eventstore/port.ts'
import { sealStream } from '../../../terms/streams.ts'
import { type EventDigest, startDigest } from '../digest.ts'
import type { DigestStore } from '../digest-store.ts'
import { createDisturbances, type Missing } from './disturbances.ts'
import { type Findings, placeOf } from './finding.ts'
import { createKeptRows } from './kept-rows.ts'

/** Told of each ordinal as the log had it when it was digested; `event` is null when another one stands there now. */
export type Passed = (ordinal: number, digest: Buffer, event: StoredEvent | null) => Promise<void> | void

export type KeptCheck = {
  /** To be called before the next `events` events are taken. */
  prepare(events: number): Promise<void>
  /** The next event of the log, with the ordinal that it has now. */
  take(event: StoredEvent, ordinal: number): Promise<void> | void
  end(ordinal: number): Promise<void>
  /** After the last event. */
  digest(): Buffer
}

/** At most this many events in a row that are missing, changed or added are told apart. */
const maxApart = 1_000

type Waiting = { readonly event: StoredEvent; readonly ordinal: number; readonly gap: number | null }

/** How many events a seal says that it covers; null for any other event. */
const coveredBy = ({ stream, data }: StoredEvent): number | null => {
  const [, through] = (stream === sealStream && /"throughOrdinal":(\d{1,16})/.exec(data)) || []
  return through === undefined ? null : Number(through)
}

/**
 * Holds every event against the digest that is kept of it, in one pass.
 *
 * From an event that does not fit on, events wait until two neighbours fit two neighbouring places: there the log is again
 * as it was digested. The events that waited are strangers to where they stand, and the places passed over miss theirs;
 * `disturbances.ts` tells from both what happened. The check then goes on from the kept digest, so that one change is one
 * finding.
 */
export const createKeptCheck = async (options: {
  readonly store: DigestStore
  readonly digestOf: EventDigest
  readonly findings: Findings
  readonly passed: Passed
  /** The next ordinal that somebody waits for: `passed` is called for none before it. */
  readonly due: () => number
}): Promise<KeptCheck> => {
  const { store, digestOf, findings, passed, due } = options
  const rows = createKeptRows(store)
  const keptEnd = (await store.end())?.ordinal ?? 0
  const fits = (event: StoredEvent, { ordinal, before, digest }: Missing): boolean =>
    digest.equals(digestOf(before, ordinal, event))
  const disturbances = createDisturbances(findings, fits)
  let digest = startDigest()
  /** The ordinal that the next event had when it was digested. */
  let next = 1
  let waiting: Waiting[] = []

  const pass = (after: Buffer, event: StoredEvent | null): Promise<void> | void => {
    const ordinal = next
    digest = after
    next += 1
    if (ordinal >= due()) return passed(ordinal, after, event)
  }

  /** How many places further on the event was when it was digested; null when that is not known. */
  const gapOf = (event: StoredEvent): number | null => {
    for (let gap = 0; gap <= maxApart; gap += 1) {
      const before = gap === 0 ? digest : rows.at(next + gap - 1)
      const after = rows.at(next + gap)
      if (before === null || after === null) return null
      if (fits(event, { ordinal: next + gap, before, digest: after })) return gap
    }
    return null
  }

  /** `strangers` wait in the places of the next `gap` events; those are passed over. */
  const passOver = async (strangers: readonly Waiting[], gap: number): Promise<void> => {
    const missing: Missing[] = []
    for (let n = 0; n < gap; n += 1) {
      const after = rows.at(next)
      if (after === null) break
      missing.push({ ordinal: next, before: digest, digest: after })
      await pass(after, null)
    }
    disturbances.add(
      strangers.map(({ event, ordinal }) => ({ event, place: placeOf(event, ordinal) })),
      missing,
    )
  }

  const passAll = async (events: readonly Waiting[]): Promise<void> => {
    for (const { event } of events) {
      const kept = rows.at(next)
      await pass(kept ?? digestOf(digest, next, event), event)
    }
  }

  /** Nothing more is to come, or too much waits: the last one may fit alone, else all stand in for as many others. */
  const giveUp = async (): Promise<void> => {
    const all = waiting
    waiting = []
    const last = all.at(-1)
    if (last === undefined) return
    if (last.gap !== null) {
      await passOver(all.slice(0, -1), last.gap)
      return passAll([last])
    }
    // The seal that covers all that is kept, and what follows it, were never digested.
    const seal = all.findIndex(({ event }) => coveredBy(event) === keptEnd)
    const places = Math.max(0, keptEnd - next + 1)
    const strangers = seal === -1 ? Math.min(all.length, places) : seal
    await passOver(all.slice(0, strangers), seal === -1 ? strangers : places)
    await passAll(all.slice(strangers))
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
      if (kept === null && disturbances.isMoved(event, ordinal)) return
      const own = digestOf(digest, next, event)
      if (kept === null || own.equals(kept)) return pass(own, event)
      return wait(event, ordinal)
    },
    async end(ordinal) {
      await giveUp()
      disturbances.report()
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
