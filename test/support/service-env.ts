import type { TestContext } from 'node:test'
import { demoEnv } from './demo-env.ts'
import { startEventStore } from './eventstore-server.ts'
import { testDatabase } from './postgres.ts'
import { seededDatabase } from './seeded.ts'

/** Which log the services of these tests keep: FAREBOX_TEST_LOG. */
export const logInPostgres = (process.env.FAREBOX_TEST_LOG ?? 'postgres') === 'postgres'

/** For tests that reach into the log's tables. */
export const skipWithoutPostgresLog = logInPostgres
  ? false
  : 'reaches into the log in Postgres: FAREBOX_TEST_LOG is eventstoredb'

/** Settings of a service on a separate database and log, with the demo. */
export const serviceEnv = async (t: TestContext, dataDir: string) => {
  if (logInPostgres) return await seededDatabase(t, dataDir)
  const kind = process.env.FAREBOX_TEST_LOG
  if (kind !== 'eventstoredb') throw new Error(`FAREBOX_TEST_LOG is postgres or eventstoredb, not ${kind}`)
  return { ...demoEnv((await testDatabase(t)).url, dataDir), EVENTSTORE_URL: (await startEventStore(t)).url }
}
