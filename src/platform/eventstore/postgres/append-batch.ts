import pg from 'pg'
import { writeInt8, writeUuid } from '../../../kernel/digest.ts'
import type { StreamName } from '../../../kernel/streams.ts'
import type { Prepared, Step } from '../../postgres/pipeline.ts'
import {
  booleanArray,
  type CopyColumn,
  copyRows,
  type Format,
  int4Array,
  int8Array,
  textArray,
  uuidArray,
} from '../../postgres/pipeline.ts'
import { expectedFrom, latestDecision, revisionBefore } from '../append-guards.ts'
import type { Appended, AppendItem, ItemOutcome, NewEvent } from '../port.ts'
import type { StreamRevisionCache } from './revision-cache.ts'

/** An event of a batch, with its stream and revision. */
export type EventRow = { readonly stream: StreamName; readonly revision: number; readonly event: NewEvent }

const text: Format<string> = { kind: 'text', text: (value) => value }

/** The columns of `copy`. Postgres sets the position. */
const eventColumns = 'stream, revision, id, type, data, metadata'

const columns: readonly CopyColumn<EventRow>[] = [
  { value: ({ stream }) => stream, format: text },
  { value: ({ revision }) => revision, format: { kind: 'fixed', bytes: 8, write: writeInt8 } },
  { value: ({ event }) => event.id, format: { kind: 'fixed', bytes: 16, write: writeUuid } },
  { value: ({ event }) => event.type, format: text },
  { value: ({ event }) => event.data, format: text },
  { value: ({ event }) => event.metadata, format: text },
]

/**
 * The events of a batch in the order of writing.
 * @param landed whether the append with this ordinal is appended
 */
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

/** The rows in the binary format of `copy`, with the columns of `eventColumns`. */
export const copyOf = (rows: readonly EventRow[]): Buffer => copyRows(columns, rows)

/** The signature of a process for a batch that it writes (docs/finance/seals.md, "Who wrote it"). */
type BatchSignature = {
  /** Ed25519, 32 bytes: the key of the process. */
  readonly publicKey: Buffer
  /** Number of batches that this key has signed, including this one. */
  readonly number: number
  /** Position of the first event of the previous batch; 0 for the first batch. */
  readonly previousPosition: number
  /** 64 bytes. */
  readonly signature: Buffer
}

/** Signs the batches of one process, one after another. */
export type BatchSigner = {
  /**
   * The item that must be written before the next batch, or with it: the introduction of a key, or the statement that
   * this process signs nothing. Null if nothing must be written. Called again for each batch until one with it is
   * committed.
   */
  preamble(): Promise<AppendItem | null>
  /** Null from a process that signs nothing. A signature counts only once its batch is committed. */
  sign(rows: readonly EventRow[]): BatchSignature | null
  /** Reports that the last batch, signed or not, is committed from this position on, including a preamble. */
  onCommitted(firstPosition: number): void
  /** Reports that the outcome of the last signed batch is unknown. */
  onOutcomeUnknown(): void
}

/** Stores the signature of the batch that the same transaction wrote (migrations.ts). */
export const signBatch: Prepared = {
  name: 'farebox-sign-batch',
  text: 'select log.sign_batch($1::int, $2::bytea, $3::bigint, $4::bigint, $5::bytea)',
}

export const signatureValues = (
  count: number,
  { publicKey, number, previousPosition, signature }: BatchSignature,
): (Buffer | string)[] => [String(count), publicKey, String(number), String(previousPosition), signature]

/** If `log.begin_batch` found a wrong expectation, nothing was written and nothing is signed (migrations.ts). */
const signOpened: Prepared = {
  name: 'farebox-sign-opened',
  text: `${signBatch.text} from log.positions where last_value > 0`,
}

const signatureSteps = (count: number, signature: BatchSignature | null): readonly Step[] =>
  signature === null ? [] : [{ statement: signOpened, values: signatureValues(count, signature) }]

/**
 * Locks the head and checks the expectations (migrations.ts). Its parameters come from `batchSteps`, without chained
 * appends.
 */
const openStatement: Prepared = {
  name: 'farebox-open-batch',
  text: `
    select log.begin_batch(
      $1::text[], $2::bigint[], array_fill(false, array[cardinality($1::text[])]), $3::bigint)`,
}

const copyEvents: Prepared = {
  name: 'farebox-copy-events',
  // Positions come from log.begin_batch. They are negative if an expectation is wrong.
  text: `copy log.events (${eventColumns}) from stdin (format binary) where position > 0`,
}

/** Aborts the batch unless its events got the positions up to the head. */
const close: Prepared = { name: 'farebox-close-batch', text: 'select log.close_batch()' }

/** Aborts a batch whose decision is later than the clock of Postgres plus the offset of the service's clock. */
const refuseFuture: Prepared = {
  name: 'farebox-refuse-future',
  text: 'select log.refuse_future($1::timestamptz, $2::interval)',
}

/**
 * The step that checks the decision times of the items; null if the items have none.
 * @param aheadMs intended offset of the service's clock, milliseconds
 */
export const futureCheck = (items: readonly AppendItem[], aheadMs: number) => {
  const decidedMs = latestDecision(items)
  return Number.isFinite(decidedMs)
    ? { statement: refuseFuture, values: [new Date(decidedMs).toISOString(), `${aheadMs} milliseconds`] }
    : null
}

/**
 * The last revision of a stream that an append expects; -1 for an absent stream. A chained append follows another
 * append to its stream.
 */
type Expectation = {
  readonly stream: StreamName
  readonly revision: number
  readonly isChained: boolean
}

/** The expectations of all appends, in the order of writing. */
const expectationsOf = (items: readonly AppendItem[]): Expectation[] => {
  const expectations: Expectation[] = []
  const seenStreams = new Set<StreamName>()
  for (const { appends } of items)
    for (const { stream, expected } of appends) {
      expectations.push({ stream, revision: revisionBefore(expected), isChained: seenStreams.has(stream) })
      seenStreams.add(stream)
    }
  return expectations
}

/**
 * The expectations to check before a batch is written: whether streams have the expected revisions. The other
 * violations need no check, because the index of (stream, revision) refuses the events of a stream that is longer than
 * expected, or that must not exist.
 */
const expectationsToRead = (items: readonly AppendItem[], tails: StreamRevisionCache): Expectation[] =>
  expectationsOf(items).filter(
    ({ stream, revision, isChained }) => revision >= 0 && !isChained && !tails.hasRevision(stream, revision),
  )

const streamsOf = (expectations: readonly Expectation[]): Buffer =>
  textArray(expectations.map(({ stream }) => stream))
const revisionsOf = (expectations: readonly Expectation[]): Buffer =>
  int8Array(expectations.map(({ revision }) => revision))

/**
 * The steps that write the items if all expectations are right. The first step returns the position before the batch,
 * or null if an expectation is wrong.
 * @param rows the rows of the items
 * @param future null: decision times are not checked
 */
export const batchSteps = (
  items: readonly AppendItem[],
  rows: readonly EventRow[],
  signature: BatchSignature | null,
  tails: StreamRevisionCache,
  future: ReturnType<typeof futureCheck>,
): readonly Step[] => {
  const expectationsRead = expectationsToRead(items, tails)
  return [
    {
      statement: openStatement,
      values: [streamsOf(expectationsRead), revisionsOf(expectationsRead), String(rows.length)],
    },
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

/** The items as flat arrays, in the order of writing. */
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
    booleanArray(expectations.map(({ isChained }) => isChained)),
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

/** The verdict of the database on one append; see migrations.ts. */
export type AppendVerdict = readonly ['landed' | 'withheld', null] | readonly ['stands' | 'conflict', number]

const landedHere: AppendVerdict = ['landed', null]

/**
 * The outcomes of a batch and the position of its last event.
 * @param base the position before the batch
 * @param verdicts one per append; null if all were appended
 */
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
 * Removes the next batch from a queue, in order of arrival: at most 200 items and 512 KiB. A larger item is a batch of
 * its own. An item that shares a stream with an earlier item, in the batch or not, stays in the queue. So the order
 * within each stream is preserved, and the items of a batch share no stream.
 */
export const takeBatch = <Each extends QueuedItem>(
  queue: readonly Each[],
): { batch: Each[]; rest: Each[] } => {
  const batch: Each[] = []
  const rest: Each[] = []
  const usedStreams = new Set<StreamName>()
  let bytes = 0
  for (const [index, waiting] of queue.entries()) {
    const full = batch.length === maxBatchItems || (batch.length > 0 && bytes + waiting.bytes > maxBatchBytes)
    if (full) return { batch, rest: rest.concat(queue.slice(index)) }
    const { appends } = waiting.item
    const waits = appends.some(({ stream }) => usedStreams.has(stream))
    for (const { stream } of appends) usedStreams.add(stream)
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
 * The result of a failed batch:
 * - `data`: Postgres rejected the data. Nothing was written. A retry fails again.
 * - `unavailable`: Postgres rolled the batch back. Nothing was written.
 * - `unknown`: the batch may be committed. Codes that are not listed count as unknown: a failure classified as unknown
 *   costs only a resend, an unknown outcome classified as a failure loses a decision.
 */
type AppendFailure = 'data' | 'unavailable' | 'unknown'

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
  // Errors that Postgres did not send come from a broken or silent connection.
  if (!(error instanceof pg.DatabaseError) || error.code === undefined) return 'unknown'
  if (unknownCodes.has(error.code)) return 'unknown'
  const group = error.code.slice(0, 2)
  if (dataClasses.has(group)) return 'data'
  return undoneClasses.has(group) || undoneCodes.has(error.code) ? 'unavailable' : 'unknown'
}

/** Whether Postgres refused a row because its key exists (SQLSTATE 23505, unique_violation). */
export const isDuplicate = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && error.code === '23505'
