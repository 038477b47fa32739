import type { TestContext } from 'node:test'
import { groups } from '../../projections/groups.ts'
import { keyColumns } from '../../src/platform/projections/definition.ts'
import { openLog } from '../platform/eventstore/open-postgres.ts'
import { caughtUp, rowsOf, startEngine } from '../platform/projections/engine.ts'
import { testDatabase } from '../support/postgres.ts'
import type { GoldenEvent } from './history.ts'

export type GoldenTables = Readonly<Record<string, readonly unknown[]>>

/**
 * Writes the events to a new log, folds them and returns every row of every table. `made`: the tables are
 * built from an existing log. `forgetful`: each event is folded separately with a minimal cache, so that it
 * loads the rows that its model declares.
 */
export const replay = async (
  t: TestContext,
  events: readonly GoldenEvent[],
  how: 'made' | 'forgetful' = 'made',
): Promise<GoldenTables> => {
  const { url, pool } = await testDatabase(t)
  const log = await openLog(url)
  t.after(() => log.close())
  const append = async (): Promise<void> => {
    for (const { id, stream, revision, type, data, metadata } of events) {
      const stored = { id, type, data: JSON.stringify(data), metadata: JSON.stringify(metadata) }
      await log.append(stream, revision === 0 ? 'noStream' : revision - 1, [stored])
    }
  }
  if (how === 'made') await append()
  const folded = groups.map((group) => ({
    ...group,
    ...(how === 'forgetful' && { maxBatch: 1, batchWindowMs: 0 }),
  }))
  const engine = await startEngine(t, pool, log, folded, how === 'forgetful' ? { maxRows: 1 } : {})
  if (how === 'forgetful') {
    await caughtUp(engine, log)
    await append()
  }
  await caughtUp(engine, log)
  const tables: Record<string, readonly unknown[]> = {}
  for (const table of groups.flatMap(({ models }) => models.flatMap((model) => model.tables)))
    tables[table.name] = (await rowsOf(pool, table.name, keyColumns(table).join(', '))).map((row) =>
      JSON.parse(row),
    )
  return tables
}
