import type { TableChange } from './fold-batch.ts'
import type { Row } from './table-sql.ts'

/** Whom a batch's rows are about: accounts, and tables with rows that are of no account; or anything. */
export type Subjects = ReadonlySet<string> | 'all'

/** Counts changes of read tables by whom they are about, so that what was read from them can be told to be current. */
export type ChangeCounter = {
  /** A number that rises with every change of rows of an account, or of a table with rows that belong to none (`notices`). */
  version(subject: string): number
  /** Rows about these are about to be written, or have just been. */
  changed(subjects: Subjects): void
  /** Anything may have changed. */
  changedAll(): void
}

/** Subjects remembered at once; beyond that, all of them count as changed. */
const defaultMaxSubjects = 100_000

const accountColumn = 'account_id'

/** Whom these changes are about. */
export const subjectsOf = (tables: readonly TableChange[]): Subjects => {
  const subjects = new Set<string>()
  /** A row with null in place of an account is of none, and so its table's. */
  const add = (name: string, rows: readonly Row[]): void => {
    for (const row of rows) subjects.add((row[accountColumn] as string | null) ?? name)
  }
  for (const { table, inserted, put, removed } of tables)
    if (accountColumn in table.columns) {
      // Only the key of a removed row is at hand. Rows of accounts are rarely removed.
      if (removed.length > 0) return 'all'
      add(table.name, inserted)
      add(table.name, put)
    } else if (inserted.length + put.length + removed.length > 0) subjects.add(table.name)
  return subjects
}

export const createChangeCounter = (maxSubjects = defaultMaxSubjects): ChangeCounter => {
  const versions = new Map<string, number>()
  let last = 0
  /** The version of every subject that is not in the map. */
  let rest = 0

  const changedAll = (): void => {
    rest = ++last
    versions.clear()
  }

  return {
    version: (subject) => versions.get(subject) ?? rest,
    changed: (subjects) => {
      if (subjects === 'all') return changedAll()
      last += 1
      for (const subject of subjects) versions.set(subject, last)
      if (versions.size > maxSubjects) changedAll()
    },
    changedAll,
  }
}
