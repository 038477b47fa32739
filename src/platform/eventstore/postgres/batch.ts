import type { StreamName } from '../../../terms/streams.ts'
import type { Prepared, Step } from '../../postgres/in-one-trip.ts'
import { expectedFrom, revisionBefore } from '../checks.ts'
import type { Appended, AppendItem, ItemOutcome } from '../port.ts'
import { booleanArray, int4Array, int8Array, textArray, uuidArray } from './arrays.ts'
import { copyOf, type EventRow, eventColumns } from './event-rows.ts'
import type { OwnTails } from './own-tails.ts'
import { type BatchSignature, signatureSteps } from './signing.ts'

/**
 * Takes the head and looks at what is expected (migrations.ts); its parameters are those of `batchSteps`. No append that it
 * is given is chained: those are left out.
 */
const open: Prepared = {
  name: 'farebox-open-batch',
  text: `
    select log.open_batch(
      $1::text[], $2::bigint[], array_fill(false, array[cardinality($1::text[])]), $3::bigint)`,
}

const copyEvents: Prepared = {
  name: 'farebox-copy-events',
  // Positions come from log.open_batch; below zero when an expectation does not hold.
  text: `copy log.events (${eventColumns}) from stdin (format binary) where position > 0`,
}

/** Refuses the batch when its events did not get the positions up to the head. */
const close: Prepared = { name: 'farebox-close-batch', text: 'select log.close_batch()' }

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
const lookedAt = (items: readonly AppendItem[], tails: OwnTails): Expectation[] =>
  expectationsOf(items).filter(
    ({ stream, revision, chained }) => revision >= 0 && !chained && !tails.reaches(stream, revision),
  )

const streamsOf = (expectations: readonly Expectation[]): Buffer =>
  textArray(expectations.map(({ stream }) => stream))
const revisionsOf = (expectations: readonly Expectation[]): Buffer =>
  int8Array(expectations.map(({ revision }) => revision))

/**
 * The steps that write items whose every expectation holds; the first one answers the position before them, or null.
 * @param rows those of the items
 */
export const batchSteps = (
  items: readonly AppendItem[],
  rows: readonly EventRow[],
  signature: BatchSignature | null,
  tails: OwnTails,
): readonly Step[] => {
  const looked = lookedAt(items, tails)
  return [
    { statement: open, values: [streamsOf(looked), revisionsOf(looked), String(rows.length)] },
    { statement: copyEvents, copied: copyOf(rows) },
    { statement: close, values: [] },
    ...signatureSteps(rows.length, signature),
  ]
}

/** Calls `log.append_judged` (migrations.ts); the parameters are those of `judgedParameters`. */
export const judgedSql = `
  select base, verdicts from log.append_judged(
    $1::int[], $2::text[], $3::bigint[], $4::boolean[], $5::int[],
    $6::int[], $7::text[], $8::bigint[], $9::uuid[], $10::text[], $11::text[], $12::text[])`

/** The items flattened in the order in which they are written. */
export const judgedParameters = (items: readonly AppendItem[]): Buffer[] => {
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
export type Verdict = readonly ['landed' | 'withheld', null] | readonly ['stands' | 'conflict', number]

const landedHere: Verdict = ['landed', null]

/** The outcomes of a batch from the position before it and a verdict for each append, or null when all landed. */
export const batchOutcomes = (
  items: readonly AppendItem[],
  base: number,
  verdicts: readonly Verdict[] | null,
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
