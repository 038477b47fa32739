import { type KeyObject, verify } from 'node:crypto'
import { promisify } from 'node:util'
import type pg from 'pg'
import type { EventMetadata } from '../../kernel/event.ts'
import { parseUntrustedObject } from '../../kernel/json-text.ts'
import { processKeyStream, sealStream, signingStream } from '../../kernel/streams.ts'
import type { StoredEvent } from '../../platform/eventstore/port.ts'
import { createBatchStatement } from '../seals/digests.ts'
import { type IntroducedKey, readIntroduction, type SealingKey, stopProblem } from './signing-keys.ts'

/** A row of `log.signatures`: the signature of a process for a batch that it wrote. */
type SignedBatch = {
  readonly firstPosition: number
  readonly events: number
  /** Lower-case hex. */
  readonly publicKey: string
  readonly number: number
  readonly previousPosition: number
  readonly signature: Buffer
}

type Row = {
  first_position: number
  events: number
  public_key: Buffer
  number: number
  previous_position: number
  signature: Buffer
}

/** The batches that begin after one position, up to and including another, in order. */
const readSignedBatches = async (
  pool: Pick<pg.Pool, 'query'>,
  after: number,
  through: number,
): Promise<readonly SignedBatch[]> => {
  const { rows } = await pool.query<Row>({
    name: 'farebox-signed-batches',
    text: `select first_position, events, public_key, number, previous_position, signature from log.signatures
            where first_position > $1::bigint and first_position <= $2::bigint order by first_position`,
    values: [after, through],
  })
  return rows.map((row) => ({
    firstPosition: row.first_position,
    events: row.events,
    publicKey: row.public_key.toString('hex'),
    number: row.number,
    previousPosition: row.previous_position,
    signature: row.signature,
  }))
}

/** The number of batches that begin after the end of the log: their events were cut off. */
const countBatchesPastHead = async (pool: Pick<pg.Pool, 'query'>): Promise<number> => {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int as count from log.signatures
      where first_position > (select last_position from log.head)`,
  )
  return rows[0]!.count
}

/** An event with its ordinal. */
export type OrdinalEvent = { readonly event: StoredEvent; readonly ordinal: number }

/** Called, in order, for each event that differs from what a process wrote. */
type OnUnsigned = (ordinalEvent: OrdinalEvent, problem: string) => void

export type SignatureSummary = {
  /** Batches with valid signatures. */
  readonly batches: number
  /** Events in these batches. */
  readonly signed: number
  /** Events without a signature from before signing began or while it was stopped. */
  readonly unsigned: number
  /** Keys with signatures. */
  readonly keys: number
}

export type SignatureCheck = {
  /** Takes the next events of the log. Every event must be passed. An incomplete batch waits for the next events. */
  take(events: readonly StoredEvent[], firstOrdinal: number): Promise<void>
  /** The last checked event; null before the first. Events of an incomplete batch come after it. */
  last(): StoredEvent | null
  /** Whether events must be signed from here on. */
  signing(): boolean
  /** @returns the problem of the end of the log; null without one */
  end(): Promise<string | null>
  summary(): SignatureSummary
}

type SignatureCheckOptions = {
  readonly pool: Pick<pg.Pool, 'query'>
  readonly logId: string
  readonly sealingKey: SealingKey
  readonly onUnsigned: OnUnsigned
  /** Events up to this position were checked before. */
  readonly after?: number
  /** Whether events must be signed at that position. */
  readonly signing?: boolean
  /** A key that was introduced before that position; null without one. Omitted: the check receives all events. */
  readonly findKey?: (publicKey: string) => Promise<IntroducedKey | null>
  readonly verifySignature?: VerifySignature | undefined
}

/** The state of a key during the check. */
type KeyState = IntroducedKey & {
  /** Null: unknown, because the key signed before the check began. */
  batches: number | null
  lastPosition: number | null
}

/** Whether a key signed a statement. */
export type VerifySignature = (statement: Buffer, key: KeyObject, signature: Buffer) => Promise<boolean>

const verifyInThreadPool = promisify(verify)

const verifySignature: VerifySignature = (statement, key, signature) =>
  verifyInThreadPool(null, statement, key, signature)

/**
 * Caches signature checks, so that two checks of one process that follow the log verify each signature once. A
 * statement contains its key.
 */
export const rememberSignatures = (maxSignatures = 10_000): VerifySignature => {
  const verified = new Map<string, Promise<boolean>>()
  return (statement, key, signature) => {
    const id = Buffer.concat([statement, signature]).toString('latin1')
    const cached = verified.get(id)
    if (cached !== undefined) return cached
    const answer = verifySignature(statement, key, signature)
    verified.set(id, answer)
    if (verified.size > maxSignatures) verified.delete(verified.keys().next().value!)
    return answer
  }
}

/** A batch whose signature is being verified. */
type PendingBatch = {
  readonly batch: SignedBatch
  readonly events: readonly OrdinalEvent[]
  readonly key: KeyState | null
  readonly signed: Promise<boolean>
}

/** Above this number of keys, ended keys are removed. */
const manyKeys = 1_000

const recordedAt = ({ metadata }: StoredEvent): string | null => {
  const at: unknown = parseUntrustedObject<EventMetadata>(metadata)?.recordedAt
  return typeof at === 'string' ? at : null
}

/**
 * The earliest time in a batch. Its other events may have been decided while the clock was ahead. The introduction of a
 * key in its first batch has the time of the key.
 */
const earliestOf = (ordinalEvents: readonly OrdinalEvent[]): string | null =>
  ordinalEvents
    .map(({ event }) => recordedAt(event))
    .reduce((one, other) => (one === null || other === null || one < other ? one : other))

const eventsOf = function* (ordinalEvents: readonly OrdinalEvent[]): Generator<StoredEvent> {
  for (const { event } of ordinalEvents) yield event
}

/**
 * Checks events against the signatures of the processes that wrote them, in one pass. After the introduction of the
 * first key, every event must be in a batch that an introduced key signed, unchanged, until the sealing key stops
 * signing.
 */
export const createSignatureCheck = (options: SignatureCheckOptions): SignatureCheck => {
  const { pool, logId, sealingKey, onUnsigned, findKey = async () => null } = options
  const isGenuine = options.verifySignature ?? verifySignature
  const statementOf = createBatchStatement(logId)
  const keys = new Map<string, KeyState>()
  /** Reasons why introductions of keys were invalid. */
  const invalidKeys = new Map<string, string>()
  let loadedThrough = options.after ?? 0
  let signing = options.signing ?? false
  const waiting: OrdinalEvent[] = []
  const batches: SignedBatch[] = []
  let last: StoredEvent | null = null
  const counts = { batches: 0, signed: 0, unsigned: 0, keys: 0 }

  const reportAll = (events: readonly OrdinalEvent[], problem: string): void => {
    for (const ordinalEvent of events) onUnsigned(ordinalEvent, problem)
  }

  /**
   * Reads keys from an event. Call it before its batch is checked: a key's introduction is in the first batch that the
   * key signs.
   */
  const readKeys = ({ event }: OrdinalEvent): void => {
    if (event.stream === sealStream) sealingKey.pass(event)
    if (event.type !== 'ProcessKeyIntroduced') return
    const keyHex = event.stream.slice(processKeyStream('').length)
    const key = readIntroduction(event, sealingKey.publicKey())
    if (typeof key === 'string') {
      if (invalidKeys.size < manyKeys) invalidKeys.set(keyHex, key)
    } else if (key.logId === logId && !keys.has(key.publicKey))
      keys.set(key.publicKey, { ...key, batches: 0, lastPosition: 0 })
  }

  const removeEndedKeys = (nowText: string): void => {
    for (const [publicKey, { endsAt }] of keys) if (endsAt < nowText) keys.delete(publicKey)
  }

  const keyOf = async (publicKey: string): Promise<KeyState | null> => {
    const cached = keys.get(publicKey)
    if (cached !== undefined) return cached
    const introducedKey = await findKey(publicKey)
    if (introducedKey === null) return null
    const state = { ...introducedKey, batches: null, lastPosition: null }
    keys.set(publicKey, state)
    return state
  }

  /**
   * The problem of a batch's number and predecessor; null when it follows the key's last batch. Missing batches are
   * reported at the next batch.
   */
  const followProblem = (key: KeyState, { number, previousPosition }: SignedBatch): string | null => {
    const { batches: signedBefore, lastPosition } = key
    if (signedBefore !== null && number > signedBefore + 1)
      return `batches ${signedBefore + 1} to ${number - 1} of the process key ${key.publicKey} are missing before it`
    if (signedBefore !== null && number <= signedBefore)
      return `the process key ${key.publicKey} signed ${signedBefore} batches already, this is number ${number} again`
    if (lastPosition !== null && previousPosition !== lastPosition)
      return `the batch of the process key ${key.publicKey} before it was moved from position ${previousPosition} to ${lastPosition}`
    return null
  }

  const beginProblem = (key: KeyState): string | null => {
    if (key.previousPublicKey === null || key.previousBatches === 0) return null
    const signedBefore = keys.get(key.previousPublicKey)?.batches ?? null
    return signedBefore === null || signedBefore === key.previousBatches
      ? null
      : `the process signed ${key.previousBatches} batches with the key ${key.previousPublicKey} before, the log has ${signedBefore}`
  }

  const isSigned = (key: KeyState, batch: SignedBatch, events: readonly OrdinalEvent[]): Promise<boolean> => {
    const batchPlace = { number: batch.number, previousPosition: batch.previousPosition, count: batch.events }
    const statement = statementOf(Buffer.from(batch.publicKey, 'hex'), batchPlace, eventsOf(events))
    return isGenuine(statement, key.verifier, batch.signature)
  }

  /** The problem of a batch with a valid signature. */
  const placeProblem = (key: KeyState, batch: SignedBatch, at: string | null): string | null => {
    const problem = followProblem(key, batch) ?? (batch.number === 1 ? beginProblem(key) : null)
    if (problem !== null) return problem
    if (at !== null && at > key.endsAt)
      return `the process key ${batch.publicKey} ended at ${key.endsAt}, before this was recorded`
    return null
  }

  const batchProblem = async ({ batch, events, key, signed }: PendingBatch): Promise<string | null> => {
    if (key === null)
      return `the process key ${batch.publicKey} was never introduced${invalidKeys.has(batch.publicKey) ? `: ${invalidKeys.get(batch.publicKey)}` : ''}`
    const missing = batch.events - events.length
    const isGenuineBatch = missing === 0 && (await signed)
    const at = earliestOf(events)
    const problem = isGenuineBatch ? placeProblem(key, batch, at) : null
    // A changed batch with the expected number also counts, so that one change is one finding.
    if (isGenuineBatch || (key.batches !== null && batch.number === key.batches + 1)) {
      if (key.batches === null || key.batches === 0) counts.keys += 1
      key.batches = batch.number
      key.lastPosition = batch.firstPosition
    }
    signing ||= batch.number === 1
    if (isGenuineBatch && at !== null && keys.size > manyKeys) removeEndedKeys(at)
    if (missing > 0) return `${missing} of the ${batch.events} events of this batch are missing`
    return isGenuineBatch
      ? problem
      : `these are not the events that the process key ${batch.publicKey} signed`
  }

  /** Starts to verify the signature, in parallel with the other batches of a page. */
  const openBatch = async (batch: SignedBatch): Promise<PendingBatch> => {
    const end = batch.firstPosition + batch.events
    const index = waiting.findIndex(({ event }) => event.position >= end)
    const events = waiting.splice(0, index === -1 ? waiting.length : index)
    for (const ordinalEvent of events) readKeys(ordinalEvent)
    last = events.at(-1)?.event ?? last
    const key = await keyOf(batch.publicKey)
    const signed = key === null ? Promise.resolve(false) : isSigned(key, batch, events)
    signed.catch(() => undefined) // awaited later; avoids an unhandled rejection before that
    return { batch, events, key, signed }
  }

  const takeBatch = async (signed: PendingBatch): Promise<void> => {
    const problem = await batchProblem(signed)
    if (problem !== null) {
      reportAll(signed.events, problem)
      return
    }
    counts.batches += 1
    counts.signed += signed.events.length
  }

  /** Whether an event introduces a key to this log. False for introductions of another log that an import copied. */
  const isIntroduced = (event: StoredEvent, currentSealingKey: string): boolean => {
    if (event.type !== 'ProcessKeyIntroduced') return false
    const key = readIntroduction(event, currentSealingKey)
    return typeof key !== 'string' && key.logId === logId
  }

  const takeUnsigned = (ordinalEvent: OrdinalEvent, currentSealingKey: string): void => {
    const { event } = ordinalEvent
    // The batch of an introduction was signed once: deleting the signatures does not stop signing.
    signing ||= isIntroduced(event, currentSealingKey)
    if (signing && event.stream === signingStream) {
      const problem = stopProblem(event, logId, currentSealingKey)
      if (problem === null) signing = false
      else reportAll([ordinalEvent], problem)
    } else if (signing) reportAll([ordinalEvent], 'no process signed it: it was added past the service')
    else counts.unsigned += 1
  }

  /** Steps for the waiting events up to the last complete batch. Run the steps in order. */
  const collectSteps = async (isComplete: boolean): Promise<(() => Promise<void> | void)[]> => {
    const steps: (() => Promise<void> | void)[] = []
    for (let [first] = waiting; first !== undefined; [first] = waiting) {
      const ordinalEvent = first
      const { position } = ordinalEvent.event
      const [batch] = batches
      if (batch !== undefined && batch.firstPosition < position) {
        batches.shift()
        steps.push(() =>
          reportAll(
            [ordinalEvent],
            `a batch of ${batch.events} events that began at position ${batch.firstPosition} is missing before it`,
          ),
        )
      } else if (batch?.firstPosition === position) {
        if (!isComplete && waiting.at(-1)!.event.position < position + batch.events - 1) break
        batches.shift()
        const signed = await openBatch(batch)
        steps.push(() => takeBatch(signed))
      } else {
        waiting.shift()
        readKeys(ordinalEvent)
        last = ordinalEvent.event
        const currentSealingKey = sealingKey.publicKey()
        steps.push(() => takeUnsigned(ordinalEvent, currentSealingKey))
      }
    }
    return steps
  }

  const takeAll = async (isComplete: boolean): Promise<void> => {
    for (const step of await collectSteps(isComplete)) await step()
  }

  return {
    async take(events, firstOrdinal) {
      const newest = events.at(-1)
      if (newest === undefined) return
      for (const [index, event] of events.entries()) waiting.push({ event, ordinal: firstOrdinal + index })
      batches.push(...(await readSignedBatches(pool, loadedThrough, newest.position)))
      loadedThrough = newest.position
      await takeAll(false)
    },
    async end() {
      await takeAll(true)
      const batchesPastEnd = await countBatchesPastHead(pool)
      if (batchesPastEnd === 0) return null
      return `${batchesPastEnd} batches were signed behind the last event of the log: it was cut off`
    },
    last: () => last,
    signing: () => signing,
    summary: () => ({ ...counts }),
  }
}
