import { type ViolationRow, violationsTable } from '../../src/audit/invariants/invariant.ts'
import { invariants } from '../../src/audit/invariants/invariants.ts'
import type { RecordedEvent } from '../../src/kernel/event.ts'
import { keyOf, keyText, type Row, rowProblem } from '../../src/platform/projections/definition.ts'
import type { Rows, Table } from '../../src/platform/projections/read-model.ts'

const placeOf = ({ name }: Table, key: readonly (string | number)[]): string => `${name}\0${keyText(key)}`

export type MemoryInvariants = {
  /** Checks one more event against the invariants; returns the violations. */
  take(event: RecordedEvent): readonly ViolationRow[]
  /** A mark to come back to. */
  mark(): number
  /** Forgets every event that was taken since a mark. */
  back(mark: number): void
}

/**
 * The invariants over an event list in memory: thousands of changed logs a minute, each checked from the
 * changed event on.
 */
export const memoryInvariants = (): MemoryInvariants => {
  const found = new Map<string, Row>()
  let journal: { readonly text: string; readonly former: Row | undefined }[] = []
  const set = (text: string, row: Row | undefined): void => {
    journal.push({ text, former: found.get(text) })
    if (row === undefined) found.delete(text)
    else found.set(text, row)
  }
  const back = (mark: number): void => {
    for (const { text, former } of journal.splice(mark).reverse())
      if (former === undefined) found.delete(text)
      else found.set(text, former)
  }
  let broken: ViolationRow[] = []
  const put = (typed: Table<never>, row: object): void => {
    const table = typed as unknown as Table
    const problem = rowProblem(table, row as Row)
    if (problem !== null) throw new Error(problem)
    if (table.name === violationsTable.name) broken.push(row as ViolationRow)
    set(placeOf(table, keyOf(table, row as Row)), row as Row)
  }
  const rows = {
    get: (table: Table, key: readonly (string | number)[]) => found.get(placeOf(table, key)),
    insert: (table: Table<never>, row: object) => put(table, row),
    put,
    remove: (table: Table, key: readonly (string | number)[]) => set(placeOf(table, key), undefined),
    add: put,
    attempt: (part: () => void) => {
      const since = journal.length
      try {
        part()
        return null
      } catch (error) {
        back(since)
        return error instanceof Error ? error.message : String(error)
      }
    },
  } as unknown as Rows
  return {
    take: (event) => {
      broken = []
      invariants.apply(event, rows)
      return broken
    },
    mark: () => journal.length,
    back: (mark) => {
      back(mark)
      journal = journal.slice(0, mark)
    },
  }
}
