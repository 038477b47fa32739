import type { TestContext } from 'node:test'
import { testDatabase } from '../support/postgres.ts'
import { type LogUnderTest, runLogContract } from './contract.ts'
import { openLog } from './open-postgres.ts'

/** Ends every session that a log has on the database, as a fast restart of the server would. */
const breakConnections = `
  select pg_terminate_backend(pid) from pg_stat_activity
  where datname = current_database() and application_name in ('farebox-test-log', 'farebox-append', 'farebox-listen')`

const underTest = async (t: TestContext): Promise<LogUnderTest> => {
  const { url, pool } = await testDatabase(t)
  const opened = async () => {
    const log = await openLog(url)
    t.after(() => log.close())
    return log
  }
  return {
    log: await opened(),
    reopen: opened,
    interrupt: async () => {
      await pool.query(breakConnections)
    },
    elsewhere: { module: new URL('./open-postgres.ts', import.meta.url).href, argument: url },
  }
}

runLogContract('postgres', underTest, { gapless: true, atomicItems: true })
