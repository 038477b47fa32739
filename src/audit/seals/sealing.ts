import { decideRotation, decideSeal, type SealAnswer } from '../../domain/seals/decide.ts'
import { type LogSealed, type SealKeyRotated, type SealState, sealFold } from '../../domain/seals/events.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Cause } from '../../kernel/event.ts'
import { isSelfSigned, sealStream } from '../../kernel/streams.ts'
import {
  maxYieldMs,
  noYield,
  type YieldToCommands,
  yieldEvery,
  yieldWhileOnTime,
} from '../../platform/commands/background-scheduler.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { readState } from '../../platform/commands/command.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import type { UnsealedCheck } from '../signatures/unsealed-check.ts'
import { UnresolvedViolation } from '../violations.ts'
import {
  createEventDigest,
  type DigestPlace,
  type DigestRun,
  type DigestStore,
  digestBytes,
  maxRunEvents,
  startDigest,
} from './digests.ts'
import { rotationStatement, type SealKey, sealIsSigned, sealStatement } from './seals-file.ts'

/** The running digest at the end of a log, with the digests that are not stored yet. */
export type LogChain = {
  /** The location and digest of the last event that was taken. */
  end(): DigestPlace
  /** The number of events that were taken and are not sealed, without those that the sealing key alone signed. */
  unsealed(): number
  /** The ordinal that the last seal covers, 0 without one. */
  sealedThrough(): number
  /** Takes the next events of the log. Yields regularly to other work of the process. */
  take(events: readonly StoredEvent[]): Promise<void>
  /** Stores the digests of the events that were taken. */
  save(): Promise<void>
  /** Records that a seal covers everything up to this ordinal. */
  sealed(throughOrdinal: number): void
}

const startLocation = (): DigestPlace => ({ ordinal: 0, position: 0, eventId: '', digest: startDigest() })

/** The number of events in one step: a fifth of a millisecond of work. */
const stepEvents = 100
/** The number of steps after which the chain always yields. */
const turnSteps = 5

/** A store that does not store digests. */
const noStore: Pick<DigestStore, 'end' | 'save'> = { end: async () => null, save: async () => undefined }

/**
 * Continues from the end of the stored digests; without any, from the start of the log.
 * @param sealedThrough the ordinal that the last seal covers, 0 without one
 * @param yieldToCommands called before each step of taking events
 */
export const openChain = async (
  store: Pick<DigestStore, 'end' | 'save'>,
  sealedThrough: number,
  yieldToCommands: YieldToCommands = noYield,
): Promise<LogChain> => {
  const digestOf = createEventDigest()
  let end = (await store.end()) ?? startLocation()
  /** Complete runs, not stored yet. */
  const runs: DigestRun[] = []
  const runBuffer = Buffer.allocUnsafe(maxRunEvents * digestBytes)
  let filledCount = 0
  let sealedOrdinal = sealedThrough
  /** Ordinals after `sealedOrdinal` of self-signed events: a handful. */
  let selfSignedOrdinals: number[] = []

  const closeRun = (): void => {
    if (filledCount === 0) return
    const digests = Buffer.from(runBuffer.subarray(0, filledCount * digestBytes))
    runs.push({ firstOrdinal: end.ordinal - filledCount + 1, digests, end })
    filledCount = 0
  }

  const addEvent = (event: StoredEvent): void => {
    const ordinal = end.ordinal + 1
    const digest = digestOf(end.digest, ordinal, event)
    end = { ordinal, position: event.position, eventId: event.id, digest }
    runBuffer.set(digest, filledCount * digestBytes)
    filledCount += 1
    if (filledCount === maxRunEvents) closeRun()
    if (isSelfSigned(event.stream)) selfSignedOrdinals.push(ordinal)
  }

  const saveRuns = async (): Promise<void> => {
    for (let run = runs[0]; run !== undefined; run = runs[0]) {
      await store.save(run)
      runs.shift()
    }
  }

  return {
    end: () => end,
    // Digests are stored immediately before a seal, and a seal is only made when there is something to seal. So digests
    // after the last seal, which a crash between both leaves, are never those of self-signed events alone.
    unsealed: () => Math.max(0, end.ordinal - sealedOrdinal - selfSignedOrdinals.length),
    sealedThrough: () => sealedOrdinal,
    async take(events) {
      const dueMs = performance.now() + maxYieldMs
      const yieldStep = yieldEvery(
        turnSteps,
        yieldWhileOnTime(yieldToCommands, () => performance.now() < dueMs),
      )
      for (const [index, event] of events.entries()) {
        if (index % stepEvents === 0) await yieldStep()
        addEvent(event)
      }
      // Rebuilt digests of sealed events: no further seal stores them, so they are stored now.
      if (end.ordinal <= sealedOrdinal) await saveRuns()
    },
    async save() {
      closeRun()
      await saveRuns()
    },
    sealed(throughOrdinal) {
      sealedOrdinal = Math.max(sealedOrdinal, throughOrdinal)
      selfSignedOrdinals = selfSignedOrdinals.filter((ordinal) => ordinal > sealedOrdinal)
    },
  }
}

const pageSize = 5_000

/** The lock of the process that seals. */
export const sealerLock = { auditor: 'sealer' }

/** The log differs from the sealed log, or another key signs it. Sealing stops. The message contains the next step. */
export class SealRefused extends Error {
  override readonly name = 'SealRefused'
}

export type SealingDependencies = {
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly store: DigestStore
  readonly key: SealKey
  readonly clock: Clock
  /** Opens the signature check after the ordinal of the last seal; omitted: signatures are not checked. */
  readonly openSignatures?: ((sealed: number) => Promise<UnsealedCheck>) | undefined
  /** The number of events in a range that this process checked itself; omitted: seals do not contain it. */
  readonly checkedEvents?: (range: { readonly after: number; readonly through: number }) => number
  /** Called before each step of taking events. */
  readonly yieldToCommands?: YieldToCommands
}

export type Sealing = {
  readonly chain: LogChain
  /** Takes the rest of the last batch. A batch is signed as a whole. */
  takeWholeBatch(): Promise<void>
  /**
   * Seals the events that the chain has taken; null when they are seals only or already sealed.
   * @throws UnresolvedViolation when no process signed one of the events
   * @throws SealRefused
   * @throws CommandOverload when the log is unreachable; a retry may succeed
   */
  seal(cause: Cause): Promise<LogSealed['data'] | null>
}

/** The current seals of the log. */
export const readSeals = (runner: CommandRunner, cause: Cause): Promise<SealState> =>
  readState(runner, { ...cause, name: 'read-seals' }, { stream: sealStream, fold: sealFold })

const sealMismatch = (ordinal: number): SealRefused =>
  new SealRefused(
    `the events up to ordinal ${ordinal} are not those that were sealed: nothing more is sealed. Run "ledger verify" to see which event was changed`,
  )

/** Whether the events of a seal are unchanged. Reads all of them. */
const isAsSealed = async (
  { log, yieldToCommands }: Pick<SealingDependencies, 'log' | 'yieldToCommands'>,
  { throughOrdinal, digest }: LogSealed['data'],
): Promise<boolean> => {
  const chain = await openChain(noStore, throughOrdinal, yieldToCommands)
  for (let remaining = throughOrdinal; remaining > 0; remaining = throughOrdinal - chain.end().ordinal) {
    const page = await log.readAll(chain.end().position, pageSize)
    if (page.length === 0) return false
    await chain.take(page.slice(0, remaining))
  }
  return chain.end().digest.toString('hex') === digest
}

/**
 * Continues sealing from the last seal. A seal is only made when the log still has the digest of the previous seal.
 * @throws SealRefused when the stored digests differ from the seals of the log
 */
export const openSealing = async (dependencies: SealingDependencies, cause: Cause): Promise<Sealing> => {
  const { log, runner, store, key, clock, openSignatures, checkedEvents, yieldToCommands } = dependencies
  let { last } = await readSeals(runner, cause)
  const digests = await openChain(store, last?.throughOrdinal ?? 0, yieldToCommands)
  if (last !== null && !sealIsSigned(last))
    throw new SealRefused(
      'the key of the last seal did not sign it: nothing more is sealed. Run "ledger verify" to see what was changed',
    )
  const signatures = (await openSignatures?.(last?.throughOrdinal ?? 0)) ?? null
  // Sealed events determine whether the next ones must be signed. They do not have to be when the log was never signed,
  // or when signing was stopped.
  if (last !== null && signatures?.beginsSigned === false && !(await isAsSealed(dependencies, last)))
    throw sealMismatch(last.throughOrdinal)
  /** Checks and digests the same events: they are read once. */
  const chain: LogChain = {
    ...digests,
    async take(events) {
      // `--remake-digests` also takes sealed events. Their signatures were checked before they were sealed.
      const next = signatures?.next() ?? 0
      await signatures?.take(events.filter(({ position }) => position > next))
      await digests.take(events)
    },
  }
  const { ordinal, position, eventId } = chain.end()
  if (ordinal > 0 && (await log.eventAt(position))?.id !== eventId)
    throw new SealRefused(
      `digests of ${ordinal} events are stored, but the log lacks the last of them: it was truncated or changed, or restored to an earlier point. Run "ledger verify" against an exported seal; if it was restored on purpose, "ledger seal --remake-digests" goes on from what is there`,
    )

  /**
   * Compares a seal with the digest of the chain at its ordinal, or with the digest that an earlier process stored.
   * @throws SealRefused
   */
  const assertSealMatches = async (seal: LogSealed['data']): Promise<void> => {
    const { ordinal, digest } = chain.end()
    if (ordinal < seal.throughOrdinal) return
    const currentDigest = ordinal === seal.throughOrdinal ? digest : await store.at(seal.throughOrdinal)
    if (currentDigest?.toString('hex') !== seal.digest) throw sealMismatch(seal.throughOrdinal)
  }
  if (last !== null) await assertSealMatches(last)

  const append = async (seal: LogSealed['data'], cause: Cause): Promise<SealAnswer> => {
    const from = { throughOrdinal: last?.throughOrdinal ?? 0, digest: last?.digest ?? '' }
    const { answer } = await runner.run({
      name: 'seal-log',
      streams: { seal: { stream: sealStream, fold: sealFold } },
      decide: (states) => decideSeal(states.seal, seal, from),
      ...cause,
    })
    return answer
  }

  // Digests may be stored for events that are not sealed yet.
  while (signatures !== null && signatures.next() < position) {
    const page = await log.readAll(signatures.next(), pageSize)
    await signatures.take(page.filter((event) => event.position <= position))
  }

  return {
    chain,
    async takeWholeBatch() {
      while (signatures !== null && !signatures.isWhole()) {
        const events = await log.readAll(chain.end().position, pageSize)
        if (events.length === 0)
          throw new UnresolvedViolation(
            'by a row of log.signatures the last batch of the log has more events: the log was changed; run "ledger verify"',
          )
        await chain.take(events)
      }
    },
    async seal(cause) {
      if (chain.unsealed() === 0) return null
      const unsigned = await signatures?.problem()
      if (unsigned) throw new UnresolvedViolation(unsigned)
      // Digests are stored first, so that every seal in the log has its digests, and a log without write access is not
      // sealed.
      await chain.save()
      if (last !== null) await assertSealMatches(last)
      const { ordinal, eventId, digest } = chain.end()
      const statement = {
        throughOrdinal: ordinal,
        throughEventId: eventId,
        digest: digest.toString('hex'),
        sealedAt: isoTime(clock()),
        publicKey: key.publicKey,
        ...(checkedEvents && {
          checkedEvents: checkedEvents({ after: last?.throughOrdinal ?? 0, through: ordinal }),
        }),
      }
      const seal = { ...statement, signature: key.sign(sealStatement(statement)) }
      const answer = await append(seal, cause)
      switch (answer.outcome) {
        case 'sealed':
          last = seal
          chain.sealed(ordinal)
          return seal
        case 'moved':
          last = answer.last
          await assertSealMatches(last)
          chain.sealed(last.throughOrdinal)
          return null
        case 'key_retired':
          throw new SealRefused(
            `the log is sealed by the key ${answer.publicKey}, not by this process's ${key.publicKey}: start it with the new FAREBOX_SEAL_KEY`,
          )
        default:
          return answer satisfies never
      }
    },
  }
}

/** Takes the events up to the current end of the log. */
export const chainToHead = async (
  log: Pick<EventLog, 'readAll'>,
  chain: LogChain,
  onPage: (ordinal: number, position: number) => void = () => undefined,
): Promise<void> => {
  for (let page: readonly StoredEvent[]; ; ) {
    page = await log.readAll(chain.end().position, pageSize)
    await chain.take(page)
    onPage(chain.end().ordinal, chain.end().position)
    if (page.length < pageSize) return
  }
}

const maxRounds = 10

/**
 * Changes the sealing key. Appends a rotation that the old key signs, and a seal of the last sealed state by the new
 * key.
 * @returns true after the change, false when the new key already signs
 * @throws SealRefused when the old key does not sign this log
 */
export const rotateSealKey = async (
  dependencies: {
    readonly runner: CommandRunner
    readonly clock: Clock
    readonly key: SealKey
    readonly next: SealKey
  },
  cause: Cause,
): Promise<boolean> => {
  const { runner, clock, key, next } = dependencies
  for (let round = 0; round < maxRounds; round += 1) {
    const { last } = await readSeals(runner, cause)
    const at = isoTime(clock())
    const handover = {
      sealedOrdinal: last?.throughOrdinal ?? 0,
      sealedDigest: last?.digest ?? startDigest().toString('hex'),
      previousPublicKey: key.publicKey,
      publicKey: next.publicKey,
      rotatedAt: at,
    }
    const rotation: SealKeyRotated['data'] = { ...handover, signature: key.sign(rotationStatement(handover)) }
    const resealed = last && { ...last, sealedAt: at, publicKey: next.publicKey }
    const countersigned: LogSealed['data'] | null = resealed && {
      ...resealed,
      signature: next.sign(sealStatement(resealed)),
    }
    const { answer } = await runner.run({
      name: 'rotate-seal-key',
      streams: { seal: { stream: sealStream, fold: sealFold } },
      decide: ({ seal }) => decideRotation(seal, rotation, countersigned),
      ...cause,
    })
    switch (answer.outcome) {
      case 'rotated':
        return true
      case 'already_rotated':
        return false
      case 'key_retired':
        throw new SealRefused(
          `the log is sealed by the key ${answer.publicKey}; FAREBOX_SEAL_KEY is ${key.publicKey} and cannot hand over`,
        )
      case 'moved':
        break // sealed meanwhile: rotate after that seal
      default:
        answer satisfies never
    }
  }
  throw new Error('the log is sealed so often that the key could not be handed over; try again')
}
