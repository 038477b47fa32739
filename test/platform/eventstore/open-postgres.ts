import type { TestContext } from 'node:test'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { openPostgresLog, type PostgresLogOptions } from '../../../src/platform/eventstore/postgres/log.ts'
import { clientConfig, createPool } from '../../../src/platform/postgres/pool.ts'
import { testDatabase } from '../../support/postgres.ts'
import type { LogUnderTest } from './contract.ts'

/** Opens the log of a migrated database with its own pool, which ends with it, as in another process. */
export const openLog = async (url: string, options: Partial<PostgresLogOptions> = {}): Promise<EventLog> => {
  const { answerTimeoutMs } = options
  const settings = {
    url,
    applicationName: 'farebox-test-log',
    ...(answerTimeoutMs !== undefined && { answerTimeoutMs }),
  }
  const pool = createPool({ ...settings, max: 4 })
  const log = openPostgresLog({ pool, connection: clientConfig(settings), ...options })
  const close = async (): Promise<void> => {
    await log.close()
    await pool.end()
  }
  let closed: Promise<void> | null = null
  return {
    ...log,
    close: () => {
      closed ??= close()
      return closed
    },
  }
}

/** Ends every session that a log has on the database, as a fast restart of the server would. */
const breakConnections = `
  select pg_terminate_backend(pid) from pg_stat_activity
  where datname = current_database() and application_name in ('farebox-test-log', 'farebox-append', 'farebox-listen')`

/** A fresh database for a test of the contract; `wrap` puts another log around each that is opened. */
export const postgresUnderTest =
  (wrap: (log: EventLog) => EventLog = (log) => log) =>
  async (t: TestContext): Promise<LogUnderTest> => {
    const { url, pool } = await testDatabase(t)
    const reopen = async (): Promise<EventLog> => {
      const log = await openLog(url)
      t.after(() => log.close())
      return wrap(log)
    }
    return {
      log: await reopen(),
      reopen,
      interrupt: async () => {
        await pool.query(breakConnections)
      },
      elsewhere: { module: import.meta.url, argument: url },
    }
  }
