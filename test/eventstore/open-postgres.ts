import type { EventLog } from '../../src/eventstore/port.ts'
import { openPostgresLog, type PostgresLogOptions } from '../../src/eventstore/postgres/log.ts'
import { clientConfig, createPool } from '../../src/postgres/pool.ts'

/** Opens the log of a migrated database with a pool of its own that ends with it, as another process would have it. */
export const openLog = async (url: string, options: Partial<PostgresLogOptions> = {}): Promise<EventLog> => {
  const settings = { url, applicationName: 'farebox-test-log' }
  const pool = createPool({ ...settings, max: 4 })
  const log = await openPostgresLog({ pool, connection: clientConfig(settings), ...options })
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
