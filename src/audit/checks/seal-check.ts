import type pg from 'pg'
import type { LogSealed, SealEvent } from '../../domain/seals/events.ts'
import { parseUntrustedObject } from '../../kernel/json-text.ts'
import { isSelfSigned, sealStream } from '../../kernel/streams.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import { createEventDigest, type DigestStore } from '../seals/digests.ts'
import { walkKeys } from '../seals/seals-file.ts'
import {
  createSignatureCheck,
  type OrdinalEvent,
  type SignatureSummary,
} from '../signatures/check-signatures.ts'
import { followSealingKey, keyBefore } from '../signatures/signing-keys.ts'
import { type EventLocation, eventLocationOf, type Findings } from './finding.ts'
import { createStoredDigestCheck, type OnDigestedEvent } from './stored-digests-check.ts'

type NextSeal = {
  readonly seal: LogSealed['data']
  readonly eventId: string
  /** Genuine, and signed by the pinned key or by a key that it handed over to. */
  readonly trusted: boolean
}

/** Reads the seals of the log in order, ahead of the events that they cover. One page of them is in memory. */
type SealCursor = {
  /** Null after the last seal. */
  current(): NextSeal | null
  advance(): Promise<void>
  /** Stores a problem of a seal until `pass` receives its event. */
  report(seal: NextSeal, problem: string): void
  /** Takes an event of the `seal` stream, and adds the finding about it. */
  pass(event: StoredEvent, ordinal: number, findings: Findings): void
  end(findings: Findings): void
  publicKey(): string | null
}

const sealEvent = (event: StoredEvent): SealEvent | null => {
  if (event.type !== 'LogSealed' && event.type !== 'SealKeyRotated') return null
  const data = parseUntrustedObject(event.data)
  return data === null ? null : ({ type: event.type, data } as SealEvent)
}

const createSealCursor = async (options: {
  readonly log: Pick<EventLog, 'readStream'>
  readonly publicKey: string
}): Promise<SealCursor> => {
  const events = options.log.readStream(sealStream)[Symbol.asyncIterator]()
  const keys = walkKeys(options.publicKey)
  const problems = new Map<string, string>()
  /** Locations of the events of the stream that `pass` received. */
  const locations = new Map<string, EventLocation>()
  let currentSeal: NextSeal | null = null
  let sealCount = 0
  let trustedSealCount = 0

  const advance = async (): Promise<void> => {
    for (;;) {
      const next = await events.next()
      if (next.done) {
        currentSeal = null
        return
      }
      const stored = next.value
      const event = sealEvent(stored)
      if (event === null) {
        problems.set(stored.id, 'it is neither a seal nor a change of its key')
        continue
      }
      const problem = keys.step(event)
      if (problem !== null) problems.set(stored.id, problem)
      if (event.type !== 'LogSealed') continue
      sealCount += 1
      const trusted = problem === null && keys.trusted()
      if (trusted) trustedSealCount += 1
      if (!Number.isSafeInteger(event.data.throughOrdinal)) continue
      currentSeal = { seal: event.data, eventId: stored.id, trusted }
      return
    }
  }
  await advance()

  return {
    current: () => currentSeal,
    advance,
    report: ({ eventId }, problem) => {
      if (!problems.has(eventId)) problems.set(eventId, problem)
    },
    pass(event, ordinal, findings) {
      const location = eventLocationOf(event, ordinal)
      locations.set(event.id, location)
      const problem = problems.get(event.id)
      if (problem === undefined) return
      problems.delete(event.id)
      findings.addForEvent('seals', location, problem)
    },
    end(findings) {
      for (const [id, problem] of problems) {
        const event = locations.get(id)
        if (event === undefined) findings.addForLog('seals', `seal ${id}: ${problem}`)
        else findings.addForEvent('seals', event, problem)
      }
      if (sealCount > 0 && trustedSealCount === 0)
        findings.addForLog(
          'seals',
          `none of its ${sealCount} seals is by the key ${options.publicKey} or by one that it handed over to; the last is by ${keys.publicKey}`,
        )
    },
    publicKey: () => keys.publicKey,
  }
}

export type SealSummary = {
  readonly seals: number
  /** The ordinal up to which the events match a trusted seal; 0 without one. */
  readonly sealedThrough: number
  /** Events that no trusted seal covers, without those that the sealing key alone signed. */
  readonly unsealed: number
  /**
   * Events that a process sealed without having checked them itself, according to their seals. Another process checked
   * them, they are older than the start of the first process, or the seal was made by hand. Absent in older runs.
   */
  readonly uncheckedAtSealing?: number
  /** The digest after the last event of the log. */
  readonly digest: string
  /** The key of the last seal; null without one. */
  readonly publicKey: string | null
  /** The number of exported seals that were compared with the log; null without a file. */
  readonly exported: number | null
}

type SealCheck = {
  /** Takes the next events of the log. Every event must be passed. */
  take(events: readonly StoredEvent[], firstOrdinal: number): Promise<void>
  end(ordinal: number): Promise<SealSummary>
}

type SealCheckOptions = {
  readonly log: Pick<EventLog, 'readStream'>
  readonly store: Pick<DigestStore, 'rows' | 'end'>
  readonly findings: Findings
  /** The key that must have signed: from the settings, or pinned by the caller. */
  readonly publicKey: string
  /** Seals from an earlier export, in order. */
  readonly exported: readonly LogSealed['data'][] | null
}

/**
 * Compares the log with its stored digests, its seals and exported seals, in one pass.
 *
 * The stored digests show which event was changed. The seals show whether the stored digests are genuine. A seal that
 * does not match although every event matches its stored digest means that both were changed: the finding names the
 * range between two seals.
 */
export const createSealCheck = async (options: SealCheckOptions): Promise<SealCheck> => {
  const { log, store, findings, publicKey, exported } = options
  const cursor = await createSealCursor({ log, publicKey })
  let exportedIndex = 0
  let sealedThrough = 0
  /** The last ordinal at which a seal matched. */
  let lastMatchingOrdinal = 0
  let sealCount = 0
  /** After one mismatch no later seal can match. */
  let hasMismatch = false
  let hasExportedMismatch = false
  let sealableCount = 0
  let sealedCount = 0
  let uncheckedAtSealing = 0

  const addRangeFinding = (throughOrdinal: number, problem: string): void =>
    findings.addForEvents('seals', lastMatchingOrdinal + 1, throughOrdinal, problem)

  const checkSeal = (ordinal: number, digest: string, event: StoredEvent | null): void => {
    const next = cursor.current()!
    const { seal, trusted } = next
    sealCount += 1
    if (hasMismatch) return
    if (seal.throughOrdinal < ordinal) {
      hasMismatch = true
      cursor.report(next, `it covers ${seal.throughOrdinal} events, fewer than the seal before it`)
    } else if (seal.digest !== digest) {
      hasMismatch = true
      addRangeFinding(
        ordinal,
        'they differ from what was sealed, but match their stored digests: both were changed',
      )
    } else if (event !== null && seal.throughEventId !== event.id)
      cursor.report(next, `event ${ordinal} is ${event.id}, not ${seal.throughEventId} as it says`)
    else {
      if (seal.checkedEvents !== undefined)
        uncheckedAtSealing += Math.max(0, ordinal - lastMatchingOrdinal - seal.checkedEvents)
      lastMatchingOrdinal = ordinal
      if (!trusted) return
      sealedThrough = ordinal
      sealedCount = sealableCount
    }
  }

  const checkExportedSeal = (seal: LogSealed['data'], ordinal: number, digest: string): void => {
    if (hasExportedMismatch || seal.throughOrdinal !== ordinal || seal.digest === digest) return
    hasExportedMismatch = true
    addRangeFinding(
      ordinal,
      `they are not what the exported seal of ${seal.sealedAt} covers: the log was rewritten`,
    )
  }

  const onDigested: OnDigestedEvent = async (ordinal, digestAfter, event) => {
    const digest = digestAfter.toString('hex')
    for (let next = exported?.[exportedIndex]; next !== undefined && next.throughOrdinal <= ordinal; ) {
      checkExportedSeal(next, ordinal, digest)
      exportedIndex += 1
      next = exported?.[exportedIndex]
    }
    for (let next = cursor.current(); next !== null && next.seal.throughOrdinal <= ordinal; ) {
      checkSeal(ordinal, digest, event)
      await cursor.advance()
      next = cursor.current()
    }
  }

  const nextDueOrdinal = (): number =>
    Math.min(
      cursor.current()?.seal.throughOrdinal ?? Number.POSITIVE_INFINITY,
      exported?.[exportedIndex]?.throughOrdinal ?? Number.POSITIVE_INFINITY,
    )
  const digestCheck = await createStoredDigestCheck({
    store,
    digestOf: createEventDigest(),
    findings,
    passed: onDigested,
    due: nextDueOrdinal,
  })

  return {
    async take(events, firstOrdinal) {
      await digestCheck.prepare(events.length)
      for (const [index, event] of events.entries()) {
        if (event.stream === sealStream) cursor.pass(event, firstOrdinal + index, findings)
        if (!isSelfSigned(event.stream)) sealableCount += 1
        const pending = digestCheck.take(event, firstOrdinal + index)
        if (pending !== undefined) await pending
      }
    },

    async end(ordinal) {
      await digestCheck.end(ordinal)
      const next = cursor.current()
      if (next !== null)
        findings.addForLog(
          'seals',
          `the log ends with event ${ordinal}, but it holds a seal of ${next.seal.throughOrdinal} events: events are missing`,
        )
      const missingSeal = exported?.[exportedIndex]
      if (missingSeal !== undefined && !hasExportedMismatch)
        findings.addForLog(
          'seals',
          `the log ends with event ${ordinal}, but the exported seal of ${missingSeal.sealedAt} covers ${missingSeal.throughOrdinal} events: it was cut off`,
        )
      cursor.end(findings)
      return {
        seals: sealCount,
        sealedThrough,
        unsealed: sealableCount - sealedCount,
        uncheckedAtSealing,
        digest: digestCheck.digest().toString('hex'),
        publicKey: cursor.publicKey(),
        exported: exported?.length ?? null,
      }
    },
  }
}

type SignatureFindings = {
  /** Takes the next events of the log. Every event must be passed. */
  take(events: readonly StoredEvent[], firstOrdinal: number): Promise<void>
  end(): Promise<SignatureSummary>
}

/** The first sealing key, which must sign the first introductions; the pinned key in a log without seals. */
const firstSealingKey = async (log: Pick<EventLog, 'readStream'>, pinned: string): Promise<string> => {
  for await (const event of log.readStream(sealStream)) return keyBefore(event) ?? pinned
  return pinned
}

/**
 * Checks the log against the signatures of the processes that wrote it. Consecutive events with the same problem are
 * one finding.
 */
export const createSignatureFindings = async (options: {
  readonly pool: pg.Pool
  readonly log: Pick<EventLog, 'readStream' | 'logId'>
  readonly findings: Findings
  /** The key that must have sealed: from the settings, or pinned by the caller. */
  readonly publicKey: string
}): Promise<SignatureFindings> => {
  const { pool, log, findings, publicKey } = options
  let pendingFinding: { readonly first: OrdinalEvent; through: number; readonly problem: string } | null =
    null

  const flush = (): void => {
    if (pendingFinding === null) return
    const { first, through, problem } = pendingFinding
    pendingFinding = null
    if (through === first.ordinal)
      findings.addForEvent('signatures', eventLocationOf(first.event, first.ordinal), problem)
    else findings.addForEvents('signatures', first.ordinal, through, problem)
  }

  const check = createSignatureCheck({
    pool,
    logId: await log.logId(),
    sealingKey: followSealingKey(await firstSealingKey(log, publicKey)),
    onUnsigned: (ordinalEvent, problem) => {
      if (pendingFinding?.problem === problem && ordinalEvent.ordinal === pendingFinding.through + 1) {
        pendingFinding.through = ordinalEvent.ordinal
        return
      }
      flush()
      pendingFinding = { first: ordinalEvent, through: ordinalEvent.ordinal, problem }
    },
  })

  return {
    take: check.take,
    async end() {
      const problem = await check.end()
      flush()
      if (problem !== null) findings.addForLog('signatures', problem)
      return check.summary()
    },
  }
}
