import { expectedFrom, revisionBefore } from '../checks.ts'
import type { Appended, AppendItem, ItemOutcome, StreamName } from '../port.ts'
import { booleanArray, int4Array, int8Array, textArray, uuidArray } from './arrays.ts'

/** Calls `log.append` (migrations.ts); the parameters are those of `batchParameters`. */
export const appendSql = `
  select base, verdicts from log.append(
    $1::int[], $2::text[], $3::bigint[], $4::boolean[], $5::int[],
    $6::int[], $7::text[], $8::bigint[], $9::uuid[], $10::text[], $11::text[], $12::text[])`

/** The items flattened in the order in which they are written. */
export const batchParameters = (items: readonly AppendItem[]): Buffer[] => {
  const itemOf: number[] = []
  const streams: string[] = []
  const expected: number[] = []
  const chained: boolean[] = []
  const counts: number[] = []
  const appendOf: number[] = []
  const eventStreams: string[] = []
  const revisions: number[] = []
  const ids: string[] = []
  const types: string[] = []
  const data: string[] = []
  const metadata: string[] = []
  const seen = new Set<StreamName>()
  for (const [index, item] of items.entries())
    for (const append of item.appends) {
      const before = revisionBefore(append.expected)
      itemOf.push(index)
      streams.push(append.stream)
      expected.push(before)
      chained.push(seen.has(append.stream))
      counts.push(append.events.length)
      seen.add(append.stream)
      for (const [offset, event] of append.events.entries()) {
        appendOf.push(streams.length)
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

/**
 * The outcomes of a batch from the answer of `log.append`: the position before it and a verdict for each append, or
 * null when all landed.
 */
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
