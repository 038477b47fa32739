import type pg from 'pg'
import type { Logger } from 'pino'
import type { CloseStack } from '../kernel/resource-scope.ts'
import type { EventLog } from '../platform/eventstore/port.ts'
import { createReads } from '../platform/eventstore/postgres/reads.ts'
import type { Config } from './config.ts'

/** What a process reads of the log that writes nothing to it. */
export type LogReads = Pick<EventLog, 'readStreams' | 'logId'>

/**
 * The log for a process that only reads it: in Postgres over the process's own pool, or in an EventStoreDB where its
 * address is set. It asks nothing before its first read, so a start does not wait for the log.
 */
export const openLogReads = async (
  closing: CloseStack,
  { config, pool, logger }: { readonly config: Config; readonly pool: pg.Pool; readonly logger: Logger },
): Promise<LogReads> => {
  if (config.eventStoreUrl === null) {
    const { readStreams, logId } = createReads(pool, { read: () => undefined })
    let id: string | null = null
    return {
      readStreams,
      logId: async () => {
        id ??= await logId()
        return id
      },
    }
  }
  // Its client is large: it is loaded only where it is used.
  const { eventStoreDbLog } = await import('../platform/eventstore/eventstoredb/log.ts')
  const log = eventStoreDbLog({
    url: config.eventStoreUrl,
    onTrouble: (what, error) => logger.warn({ err: error }, what),
  })
  closing.add(log.close)
  return log
}
