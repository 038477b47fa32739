import pg from 'pg'
import { writeInt8, writeUuid } from '../../../kernel/digest.ts'
import type { StreamName } from '../../../kernel/streams.ts'
import { booleanArray, int4Array, int8Array, textArray, uuidArray } from '../../postgres/array-parameters.ts'
import { type CopyColumn, copyRows, type Format } from '../../postgres/copy-rows.ts'
import type { Prepared, Step } from '../../postgres/pipeline.ts'
import { expectedFrom, revisionBefore } from '../append-checks.ts'
import { latestDecision } from '../event-times.ts'
import type { Appended, AppendItem, ItemOutcome, NewEvent } from '../port.ts'
import type { StreamRevisionCache } from './revision-cache.ts'

/** An event of a batch with its place in its stream. */
export type EventRow = { readonly stream: StreamName; readonly revision: number; readonly event: NewEvent }

const text: Format<string> = { kind: 'text', text: (value) => value }

/** What is copied of an event: its position is set by Postgres. */
export const eventColumns = 'stream, revision, id, type, data, metadata'

const columns: readonly CopyColumn<EventRow>[] = [
  { value: ({ stream }) => stream, format: text },
  { value: ({ revision }) => revision, format: { kind: 'fixed', bytes: 8, write: writeInt8 } },
  { value: ({ event }) => event.id, format: { kind: 'fixed', bytes: 16, write: writeUuid } },
  { value: ({ event }) => event.type, format: text },
  { value: ({ event }) => event.data, format: text },
  { value: ({ event }) => event.metadata, format: text },
]

/** The events of a batch in the order in which they are written. @param landed whether the append of this ordinal lands */
export const rowsOf = (
  items: readonly AppendItem[],
  landed: (append: number) => boolean = () => true,
): readonly EventRow[] => {
  const rows: EventRow[] = []
  let append = 0
  for (const { appends } of items)
    for (const { stream, expected, events } of appends) {
      if (!landed(append++)) continue
      let revision = revisionBefore(expected)
      for (const event of events) rows.push({ stream, revision: ++revision, event })
    }
  return rows
}

/** As a `copy` of `eventColumns` takes them. */
export const copyOf = (rows: readonly EventRow[]): Buffer => copyRows(columns, rows)

/** What a process says of a batch that it writes (docs/seals.md, "Who wrote it"). */
export type BatchSignature = {
  /** Ed25519, 32 bytes: the key of the process. */
  readonly publicKey: Buffer
  /** How many batches this key has signed, this one among them. */
  readonly number: number
  /** Where the first event of the batch before it stands; 0 for the first. */
  readonly previousPosition: number
  /** 64 bytes. */
  readonly signature: Buffer
}

/** Signs what one process appends, one batch after another. */
export type BatchSigner = {
  /**
   * What must be written before the next batch, or with it: the introduction of a key, or that this process signs nothing.
   * Null when there is nothing to say. It is asked for again until a batch with it landed.
   */
  preamble(): Promise<AppendItem | null>
  /** Null from a process that signs nothing. What it signs counts only once it landed. */
  sign(rows: readonly EventRow[]): BatchSignature | null
  /** The batch that was signed last, or was not signed, stands from this position on, with the preamble if there was one. */
  onCommitted(firstPosition: number): void
  /** Whether the batch that was signed last landed is unknown. */
  onOutcomeUnknown(): void
}

/** Keeps a signature beside the batch that the same transaction wrote (migrations.ts). */
export const signBatch: Prepared = {
  name: 'farebox-sign-batch',
  text: 'select log.sign_batch($1::int, $2::bytea, $3::bigint, $4::bigint, $5::bytea)',
}

export const signatureValues = (
  count: number,
  { publicKey, number, previousPosition, signature }: BatchSignature,
): (Buffer | string)[] => [String(count), publicKey, String(number), String(previousPosition), signature]

/** After `log.begin_batch` that found an expectation broken nothing was written, and nothing is signed (migrations.ts). */
const signOpened: Prepared = {
  name: 'farebox-sign-opened',
  text: `${signBatch.text} from log.positions where last_value > 0`,
}

export const signatureSteps = (count: number, signature: BatchSignature | null): readonly Step[] =>
  signature === null ? [] : [{ statement: signOpened, values: signatureValues(count, signature) }]

/**
 * Takes the head and looks at what is expected (migrations.ts); its parameters are those of `batchSteps`. No append that it
 * is given is chained: those are left out.
 */
const open: Prepared = {
  name: 'farebox-open-batch',
  text: `
    select log.begin_batch(
      $1::text[], $2::bigint[], array_fill(false, array[cardinality($1::text[])]), $3::bigint)`,
}

const copyEvents: Prepared = {
  name: 'farebox-copy-events',
  // Positions come from log.begin_batch; below zero when an expectation does not hold.
  text: `copy log.events (${eventColumns}) from stdin (format binary) where position > 0`,
}

/** Refuses the batch when its events did not get the positions up to the head. */
const close: Prepared = { name: 'farebox-close-batch', text: 'select log.close_batch()' }

/** Refuses a batch that was decided later than Postgres's clock reads, with what the service's is ahead of it. */
const refuseFuture: Prepared = {
  name: 'farebox-refuse-future',
  text: 'select log.refuse_future($1::timestamptz, $2::interval)',
}

/** The check of when items were decided; null where they do not say. @param aheadMs of the service's clock, by intention */
export const futureCheck = (items: readonly AppendItem[], aheadMs: number) => {
  const decidedMs = latestDecision(items)
  return Number.isFinite(decidedMs)
    ? { statement: refuseFuture, values: [new Date(decidedMs).toISOString(), `${aheadMs} milliseconds`] }
    : null
}

/** What an append expects: the last revision of its stream, -1 for none. A chained one follows another of its stream. */
type Expectation = {
  readonly stream: StreamName
  readonly revision: number
  readonly chained: boolean
}

/** In the order in which they are written. */
const expectationsOf = (items: readonly AppendItem[]): Expectation[] => {
  const expectations: Expectation[] = []
  const seen = new Set<StreamName>()
  for (const { appends } of items)
    for (const { stream, expected } of appends) {
      expectations.push({ stream, revision: revisionBefore(expected), chained: seen.has(stream) })
      seen.add(stream)
    }
  return expectations
}

/**
 * What must be looked up before a batch is written: whether streams reach the revisions that it expects. Whether they go
 * further, or exist though they should not, the index of (stream, revision) tells when the events are written.
 */
const expectationsToRead = (items: readonly AppendItem[], tails: StreamRevisionCache): Expectation[] =>
  expectationsOf(items).filter(
    ({ stream, revision, chained }) => revision >= 0 && !chained && !tails.hasRevision(stream, revision),
  )

const streamsOf = (expectations: readonly Expectation[]): Buffer =>
  textArray(expectations.map(({ stream }) => stream))
const revisionsOf = (expectations: readonly Expectation[]): Buffer =>
  int8Array(expectations.map(({ revision }) => revision))

/**
 * The steps that write items whose every expectation holds; the first one answers the position before them, or null.
 * @param rows those of the items
 * @param future null: nobody asks when they were decided
 */
export const batchSteps = (
  items: readonly AppendItem[],
  rows: readonly EventRow[],
  signature: BatchSignature | null,
  tails: StreamRevisionCache,
  future: ReturnType<typeof futureCheck>,
): readonly Step[] => {
  const looked = expectationsToRead(items, tails)
  return [
    { statement: open, values: [streamsOf(looked), revisionsOf(looked), String(rows.length)] },
    ...(future === null ? [] : [future]),
    { statement: copyEvents, copied: copyOf(rows) },
    { statement: close, values: [] },
    ...signatureSteps(rows.length, signature),
  ]
}

/** Calls `log.append_as_judged` (migrations.ts); the parameters are those of `conditionalAppendParameters`. */
export const conditionalAppendSql = `
  select base, verdicts from log.append_as_judged(
    $1::int[], $2::text[], $3::bigint[], $4::boolean[], $5::int[],
    $6::int[], $7::text[], $8::bigint[], $9::uuid[], $10::text[], $11::text[], $12::text[])`

/** The items flattened in the order in which they are written. */
export const conditionalAppendParameters = (items: readonly AppendItem[]): Buffer[] => {
  const expectations = expectationsOf(items)
  const itemOf: number[] = []
  const counts: number[] = []
  const appendOf: number[] = []
  const eventStreams: string[] = []
  const revisions: number[] = []
  const ids: string[] = []
  const types: string[] = []
  const data: string[] = []
  const metadata: string[] = []
  for (const [index, item] of items.entries())
    for (const append of item.appends) {
      const before = revisionBefore(append.expected)
      itemOf.push(index)
      counts.push(append.events.length)
      for (const [offset, event] of append.events.entries()) {
        appendOf.push(counts.length)
        eventStreams.push(append.stream)
        revisions.push(before + 1 + offset)
        ids.push(event.id)
        types.push(event.type)
        data.push(event.data)
        metadata.push(event.metadata)
      }
    }
  return [
    int4Array(itemOf),
    streamsOf(expectations),
    revisionsOf(expectations),
    booleanArray(expectations.map(({ chained }) => chained)),
    int4Array(counts),
    int4Array(appendOf),
    textArray(eventStreams),
    int8Array(revisions),
    uuidArray(ids),
    textArray(types),
    textArray(data),
    textArray(metadata),
  ]
}

/** What the database says of one append; see migrations.ts. */
export type AppendVerdict = readonly ['landed' | 'withheld', null] | readonly ['stands' | 'conflict', number]

const landedHere: AppendVerdict = ['landed', null]

/** The outcomes of a batch from the position before it and a verdict for each append, or null when all landed. */
export const batchOutcomes = (
  items: readonly AppendItem[],
  base: number,
  verdicts: readonly AppendVerdict[] | null,
): { readonly outcomes: readonly ItemOutcome[]; readonly head: number } => {
  let head = base
  let ordinal = 0
  const outcomeOf = ({ appends }: AppendItem): ItemOutcome => {
    const appended: Appended[] = []
    let outcome: ItemOutcome | null = null
    for (const { stream, expected, events } of appends) {
      const [verdict, value] = verdicts === null ? landedHere : verdicts[ordinal]!
      ordinal++
      const revision = revisionBefore(expected) + events.length
      if (verdict === 'landed') head += events.length
      if (outcome !== null) continue
      if (verdict === 'landed') appended.push({ revision, position: head })
      else if (verdict === 'stands') appended.push({ revision, position: value })
      else if (verdict === 'conflict')
        outcome = { status: 'conflict', stream, actual: expectedFrom(value), landed: appended }
    }
    return outcome ?? { status: 'landed', appended }
  }
  return { outcomes: items.map(outcomeOf), head }
}

export const maxBatchItems = 200
export const maxBatchBytes = 524_288

export type QueuedItem = { readonly item: AppendItem; readonly bytes: number }

/**
 * Takes the next batch off a queue, in order of arrival: at most 200 items and 512 KiB (one item may be larger and then
 * goes alone). An item that shares a stream with one before it, taken or not, waits: so each stream keeps its order and
 * the items of a batch are disjoint.
 */
export const takeBatch = <Each extends QueuedItem>(
  queue: readonly Each[],
): { batch: Each[]; rest: Each[] } => {
  const batch: Each[] = []
  const rest: Each[] = []
  const taken = new Set<StreamName>()
  let bytes = 0
  for (const [index, waiting] of queue.entries()) {
    const full = batch.length === maxBatchItems || (batch.length > 0 && bytes + waiting.bytes > maxBatchBytes)
    if (full) return { batch, rest: rest.concat(queue.slice(index)) }
    const { appends } = waiting.item
    const waits = appends.some(({ stream }) => taken.has(stream))
    for (const { stream } of appends) taken.add(stream)
    if (waits) {
      rest.push(waiting)
      continue
    }
    batch.push(waiting)
    bytes += waiting.bytes
  }
  return { batch, rest }
}

/**
 * What a failed batch means:
 * - `data`: Postgres refused what was sent; nothing was written, and sending it again will not help;
 * - `unavailable`: Postgres undid it; nothing was written;
 * - `unknown`: it may have committed. Also every code that is not listed: taking a failure for unknown only costs a
 *   resend, taking an unknown outcome for a failure loses a decision.
 */
export type AppendFailure = 'data' | 'unavailable' | 'unknown'

// https://www.postgresql.org/docs/18/errcodes-appendix.html
const dataClasses = new Set([
  '22', // data exception
  '23', // integrity constraint violation
  '44', // with check option violation
  '54', // program limit exceeded, e.g. a stream name too long for its index
  'P0', // raised by a trigger
])
const undoneClasses = new Set([
  '25', // invalid transaction state, e.g. a read-only standby after a fail-over
  '40', // transaction rollback: deadlock, serialization
  '42', // access rule violation, or a database that was not migrated
  '53', // insufficient resources: disk full, out of memory
  '55', // object not in prerequisite state: lock not available
])
const undoneCodes = new Set(['57014']) // the statement's time limit
const unknownCodes = new Set(['40003']) // statement completion unknown

export const classifyFailure = (error: unknown): AppendFailure => {
  // What is not Postgres's own message is a broken or silent connection.
  if (!(error instanceof pg.DatabaseError) || error.code === undefined) return 'unknown'
  if (unknownCodes.has(error.code)) return 'unknown'
  const group = error.code.slice(0, 2)
  if (dataClasses.has(group)) return 'data'
  return undoneClasses.has(group) || undoneCodes.has(error.code) ? 'unavailable' : 'unknown'
}

/** Whether Postgres refused a row whose key stands already. */
export const isDuplicate = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && error.code === '23505'
