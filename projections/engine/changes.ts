import type { TableChange } from './fold-batch.ts'
import type { Row } from './table-sql.ts'

/** Counts changes of read tables by whom they are about, so that what was read from them can be told to be current. */
export type ChangeCounter = {
  /**
   * A number that is another one after every change of rows of an account, or of a table whose rows are of no account
   * (`notices`). It only rises.
   */
  version(subject: string): number
  /** These rows are about to be written, or have just been. */
  changed(tables: readonly TableChange[]): void
  /** Anything may have changed. */
  changedAll(): void
}

/** Subjects remembered at once; beyond that, all of them count as changed. */
const defaultMaxSubjects = 100_000

const accountColumn = 'account_id'

export const createChangeCounter = (maxSubjects = defaultMaxSubjects): ChangeCounter => {
  const versions = new Map<string, number>()
  let last = 0
  /** The version of every subject that is not in the map. */
  let rest = 0

  const changedAll = (): void => {
    rest = ++last
    versions.clear()
  }
  const changedRows = (rows: readonly Row[]): void => {
    for (const row of rows) {
      const account = row[accountColumn]
      if (account !== null) versions.set(account as string, last)
    }
  }

  return {
    version: (subject) => versions.get(subject) ?? rest,
    changed: (tables) => {
      last += 1
      for (const { table, added, inserted, put, removed } of tables) {
        if (accountColumn in table.columns) {
          changedRows(added)
          changedRows(inserted)
          changedRows(put)
          // Only the key of a removed row is at hand. Rows of accounts are rarely removed.
          if (removed.length > 0) changedAll()
        } else if (added.length + inserted.length + put.length + removed.length > 0)
          versions.set(table.name, last)
      }
      if (versions.size > maxSubjects) changedAll()
    },
    changedAll,
  }
}
