import type { TestContext } from 'node:test'
import { groups } from '../../projections/groups.ts'
import { openLog } from '../eventstore/open-postgres.ts'
import { caughtUp, rowsOf, startEngine } from '../projections/engine.ts'
import { testDatabase } from '../support/postgres.ts'
import type { GoldenEvent } from './history.ts'

export type GoldenTables = Readonly<Record<string, readonly unknown[]>>

/** Writes the events to a fresh log, folds them as the service does and gives every row of every table. */
export const replay = async (t: TestContext, events: readonly GoldenEvent[]): Promise<GoldenTables> => {
  const { url, pool } = await testDatabase(t)
  const log = await openLog(url)
  t.after(() => log.close())
  for (const { id, stream, revision, type, data, metadata } of events) {
    const stored = { id, type, data: JSON.stringify(data), metadata: JSON.stringify(metadata) }
    await log.append(stream, revision === 0 ? 'noStream' : revision - 1, [stored])
  }
  const engine = await startEngine(t, pool, log, groups)
  await caughtUp(engine, log)
  const tables: Record<string, readonly unknown[]> = {}
  for (const { name, key } of groups.flatMap(({ models }) => models.flatMap((model) => model.tables)))
    tables[name] = (await rowsOf(pool, name, key.join(', '))).map((row) => JSON.parse(row))
  return tables
}
