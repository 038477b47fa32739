import pg from 'pg'
import type { StreamName } from '../../../kernel/streams.ts'
import { booleanArray, int4Array, int8Array, textArray, uuidArray } from '../../postgres/array-parameters.ts'
import type { Prepared, Step } from '../../postgres/pipeline.ts'
import { expectedFrom, revisionBefore } from '../append-checks.ts'
import { latestDecision } from '../event-times.ts'
import type { Appended, AppendItem, ItemOutcome } from '../port.ts'
import { copyOf, type EventRow, eventColumns } from './event-rows.ts'
import type { StreamRevisionCache } from './revision-cache.ts'
import { type BatchSignature, signatureSteps } from './signing.ts'

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
