import type { Prepared, Step } from '../../postgres/in-one-trip.ts'
import { expectedFrom, revisionBefore } from '../checks.ts'
import type { Appended, AppendItem, ItemOutcome, StreamName } from '../port.ts'
import { booleanArray, int4Array, int8Array, textArray, uuidArray } from './arrays.ts'
import { eventColumns, eventRows } from './event-rows.ts'
import type { OwnTails } from './own-tails.ts'

/** Takes the head and looks at what is expected (migrations.ts); its parameters are those of `batchSteps`. */
const open: Prepared = {
  name: 'farebox-open-batch',
  text: 'select log.open_batch($1::text[], $2::bigint[], $3::boolean[], $4::bigint)',
}

const copyEvents: Prepared = {
  name: 'farebox-copy-events',
  // Positions come from log.open_batch; below zero when an expectation does not hold.
  text: `copy log.events (${eventColumns}) from stdin (format binary) where position > 0`,
}

/** Refuses the batch when its events did not get the positions up to the head. */
const close: Prepared = { name: 'farebox-close-batch', text: 'select log.close_batch()' }

type Expectations = { streams: StreamName[]; expected: number[]; chained: boolean[] }

/** What each append expects, in the order in which they are written; `chained` ones follow another of their stream. */
const expectationsOf = (items: readonly AppendItem[]): Expectations => {
  const found: Expectations = { streams: [], expected: [], chained: [] }
  const seen = new Set<StreamName>()
  for (const { appends } of items)
    for (const { stream, expected } of appends) {
      found.streams.push(stream)
      found.expected.push(revisionBefore(expected))
      found.chained.push(seen.has(stream))
      seen.add(stream)
    }
  return found
}

/**
 * What must be looked at before a batch is written: whether streams reach the revisions that it expects. That they go no
 * further, and that new ones do not exist, the index of (stream, revision) says when the events are written.
 */
const lookedAt = (items: readonly AppendItem[], tails: OwnTails): Expectations => {
  const looked: Expectations = { streams: [], expected: [], chained: [] }
  const { streams, expected, chained } = expectationsOf(items)
  for (const [index, stream] of streams.entries()) {
    const revision = expected[index]!
    if (revision < 0 || chained[index] || tails.reaches(stream, revision)) continue
    looked.streams.push(stream)
    looked.expected.push(revision)
    looked.chained.push(false)
  }
  return looked
}

/** The steps that write items whose every expectation holds; the first one answers the position before them, or null. */
export const batchSteps = (items: readonly AppendItem[], tails: OwnTails): readonly Step[] => {
  const { streams, expected, chained } = lookedAt(items, tails)
  const { rows, count } = eventRows(items)
  return [
    {
      statement: open,
      values: [textArray(streams), int8Array(expected), booleanArray(chained), String(count)],
    },
    { statement: copyEvents, copied: rows },
    { statement: close, values: [] },
  ]
}

/** Calls `log.append_judged` (migrations.ts); the parameters are those of `judgedParameters`. */
export const judgedSql = `
  select base, verdicts from log.append_judged(
    $1::int[], $2::text[], $3::bigint[], $4::boolean[], $5::int[],
    $6::int[], $7::text[], $8::bigint[], $9::uuid[], $10::text[], $11::text[], $12::text[])`

/** The items flattened in the order in which they are written. */
export const judgedParameters = (items: readonly AppendItem[]): Buffer[] => {
  const { streams, expected, chained } = expectationsOf(items)
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
    textArray(streams),
    int8Array(expected),
    booleanArray(chained),
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
