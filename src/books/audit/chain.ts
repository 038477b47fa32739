import { type GiveWay, goOn, patienceMs, patientWhile, turnEach } from '../../kernel/lulls.ts'
import type { StoredEvent } from '../../platform/eventstore/port.ts'
import { provesItself } from '../../terms/streams.ts'
import { createEventDigest, digestBytes, startDigest } from './digest.ts'
import { type DigestPlace, type DigestRun, type DigestStore, maxRunEvents } from './digest-store.ts'

/** The running digest at the end of a log, with the digests that are not kept yet. */
export type LogChain = {
  /** After the last event taken. */
  end(): DigestPlace
  /** Events that were taken and that no seal covers, apart from those that the key which seals signed alone. */
  unsealed(): number
  /** Takes the next events of the log; in turns, so that others of this process get theirs. */
  take(events: readonly StoredEvent[]): Promise<void>
  /** Keeps the digests of what was taken. */
  keep(): Promise<void>
  /** A seal covers everything up to this ordinal. */
  sealed(throughOrdinal: number): void
}

const startPlace = (): DigestPlace => ({ ordinal: 0, position: 0, eventId: '', digest: startDigest() })

/** Events taken in one step: a fifth of a millisecond of work. */
const stepEvents = 100
/** Steps after which the rest of the process gets a turn in any case. */
const turnSteps = 5

/**
 * Goes on from where the kept digests end, else from the start of the log.
 * @param sealedThrough the ordinal that the last seal covers, 0 without one
 * @param giveWay called before each step of taking events
 */
export const openChain = async (
  store: DigestStore,
  sealedThrough: number,
  giveWay: GiveWay = goOn,
): Promise<LogChain> => {
  const digestOf = createEventDigest()
  let end = (await store.end()) ?? startPlace()
  /** Whole runs, then one that fills. */
  const runs: DigestRun[] = []
  const filling = Buffer.allocUnsafe(maxRunEvents * digestBytes)
  let filled = 0
  let covered = sealedThrough
  /** Ordinals past `covered` of events that prove themselves: a handful. */
  let provenAlone: number[] = []

  const closeRun = (): void => {
    if (filled === 0) return
    const digests = Buffer.from(filling.subarray(0, filled * digestBytes))
    runs.push({ firstOrdinal: end.ordinal - filled + 1, digests, end })
    filled = 0
  }

  const takeOne = (event: StoredEvent): void => {
    const ordinal = end.ordinal + 1
    const digest = digestOf(end.digest, ordinal, event)
    end = { ordinal, position: event.position, eventId: event.id, digest }
    filling.set(digest, filled * digestBytes)
    filled += 1
    if (filled === maxRunEvents) closeRun()
    if (provesItself(event.stream)) provenAlone.push(ordinal)
  }

  const keepRuns = async (): Promise<void> => {
    for (let run = runs[0]; run !== undefined; run = runs[0]) {
      await store.keep(run)
      runs.shift()
    }
  }

  return {
    end: () => end,
    // Digests are kept right before a seal, and a seal is made only when there is something to seal. So digests past the
    // last seal, which a crash between the two leaves, are never those of events alone that need no seal.
    unsealed: () => Math.max(0, end.ordinal - covered - provenAlone.length),
    async take(events) {
      const dueMs = performance.now() + patienceMs
      const rest = turnEach(
        turnSteps,
        patientWhile(giveWay, () => performance.now() < dueMs),
      )
      for (const [at, event] of events.entries()) {
        if (at % stepEvents === 0) await rest()
        takeOne(event)
      }
      // Made anew for events that are sealed: no seal will ask for them, so they need not wait for one.
      if (end.ordinal <= covered) await keepRuns()
    },
    async keep() {
      closeRun()
      await keepRuns()
    },
    sealed(throughOrdinal) {
      covered = Math.max(covered, throughOrdinal)
      provenAlone = provenAlone.filter((ordinal) => ordinal > covered)
    },
  }
}
