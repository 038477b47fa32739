import type { StoredEvent } from '../../../platform/eventstore/port.ts'
import { type EventPlace, type Findings, placeOf } from './finding.ts'

/** A place whose event is not there, with the digests before and after it. */
export type Missing = { readonly ordinal: number; readonly before: Buffer; readonly digest: Buffer }

/** An event where it was not when the log was digested. */
export type Stranger = { readonly event: StoredEvent; readonly place: EventPlace }

type Disturbance = { readonly strangers: readonly Stranger[]; readonly missing: readonly Missing[] }

/** Stretches of the log that are not as they were digested. */
export type Disturbances = {
  add(strangers: readonly Stranger[], missing: readonly Missing[]): void
  /** Whether an event past the digested ones is one that is missing; that is reported then. */
  isMoved(event: StoredEvent, ordinal: number): boolean
  /** Says of each what happened. */
  report(): void
}

/** Every stranger is tried in every missing place; this many tries take some seconds. */
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
 * What happened: a stranger that fits a missing place was moved; of those that are left, one that stands in a missing
 * place was changed, one more was added, and one less was removed.
 */
export const createDisturbances = (
  findings: Findings,
  fits: (event: StoredEvent, missing: Missing) => boolean,
): Disturbances => {
  const all: Disturbance[] = []
  const found = new Set<Missing>()
  let tries = 0

  const say = (place: EventPlace, problem: string): void =>
    findings.add({ where: 'event', check: 'seals', event: place, problem })

  const originOf = (event: StoredEvent): Missing | null => {
    for (const { missing } of all)
      for (const one of missing) {
        if (found.has(one)) continue
        tries += 1
        if (tries > maxTries) return null
        if (fits(event, one)) return one
      }
    return null
  }

  const moved = (event: StoredEvent, place: EventPlace): boolean => {
    const origin = originOf(event)
    if (origin === null) return false
    found.add(origin)
    say(place, `it was moved: it was event ${origin.ordinal} when the log was digested`)
    return true
  }

  const reportOne = (strangers: readonly Stranger[], missing: readonly Missing[]): void => {
    for (const [at, { place }] of strangers.entries())
      say(
        place,
        at < missing.length
          ? 'it was changed: its bytes are not those of its digest'
          : 'it was added: there was no such event here when the log was digested',
      )
    for (const { first, last } of runsOf(missing.slice(strangers.length).map(({ ordinal }) => ordinal)))
      findings.add({
        where: 'events',
        check: 'seals',
        fromOrdinal: first,
        throughOrdinal: last,
        problem: first === last ? 'it was removed' : 'they were removed',
      })
  }

  /** Single events between others that were changed: they stand where they stood, one after another. */
  const withoutThoseInPlace = ({ strangers, missing }: Disturbance): Disturbance => {
    const left: Stranger[] = []
    const places = new Set(missing)
    let from = 0
    for (const stranger of strangers) {
      const at = missing.findIndex((one, n) => n >= from && tries++ < maxTries && fits(stranger.event, one))
      if (at === -1) left.push(stranger)
      else {
        places.delete(missing[at]!)
        from = at + 1
      }
    }
    return { strangers: left, missing: [...places] }
  }

  return {
    add: (strangers, missing) => {
      const disturbance = withoutThoseInPlace({ strangers, missing })
      if (disturbance.strangers.length > 0 || disturbance.missing.length > 0) all.push(disturbance)
    },
    isMoved: (event, ordinal) => all.length > 0 && moved(event, placeOf(event, ordinal)),
    report() {
      const staying = all.map(({ strangers }) => strangers.filter(({ event, place }) => !moved(event, place)))
      for (const [at, { missing }] of all.entries())
        reportOne(
          staying[at]!,
          missing.filter((one) => !found.has(one)),
        )
    },
  }
}
