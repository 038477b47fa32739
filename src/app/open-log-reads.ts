import type pg from 'pg'
import type { Logger } from 'pino'
import type { CloseStack } from '../kernel/resource-scope.ts'
import type { EventLog } from '../platform/eventstore/port.ts'
import { createReads } from '../platform/eventstore/postgres/reads.ts'
import { StartRefused } from '../platform/postgres/errors.ts'
import type { Config } from './config.ts'

/** The log methods of a process that never writes to it. */
export type LogReads = Pick<EventLog, 'readStreams' | 'logId'>

const readsOfPostgres = async (pool: pg.Pool): Promise<LogReads> => {
  const { readStreams, logId } = createReads(pool, { read: () => undefined })
  const id = await logId()
  const { rows } = await pool.query(
    `select from engine.checkpoints where name = 'hot' and log_id <> $1::text`,
    [id],
  )
  if (rows.length > 0)
    throw new StartRefused(
      'the events of this service are not in its Postgres: set EVENTSTORE_URL here as well, to the value that the service has',
    )
  return { readStreams, logId: async () => id }
}

/**
 * Opens the log for a process that only reads it: in Postgres over the process's own pool, or in an EventStoreDB if its
 * address is set. The start does not wait for an EventStoreDB.
 * @throws StartRefused when the log of the service is not in this Postgres
 */
export const openLogReads = async (
  closing: CloseStack,
  { config, pool, logger }: { readonly config: Config; readonly pool: pg.Pool; readonly logger: Logger },
): Promise<LogReads> => {
  if (config.eventStoreUrl === null) return readsOfPostgres(pool)
  // The EventStoreDB client is large, so it is loaded only when needed.
  const { eventStoreDbLog } = await import('../platform/eventstore/eventstoredb/log.ts')
  const log = eventStoreDbLog({
    url: config.eventStoreUrl,
    onTrouble: (what, error) => logger.warn({ err: error }, what),
  })
  closing.add(log.close)
  return log
}
