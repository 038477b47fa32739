import type pg from 'pg'
import type { Logger } from 'pino'
import type { Closing } from '../kernel/closing.ts'
import { createPool, type PoolOptions } from '../platform/postgres/pool.ts'
import { waitForDatabase } from '../platform/postgres/reachable.ts'

/**
 * Opens the connections of a process, which are closed with it, and waits until the database takes one.
 * @returns `connection`: for what connects beside the pool
 * @throws DatabaseUnreachable after `withinMs`
 */
export const openPool = async (
  closing: Closing,
  options: Omit<PoolOptions, 'onError'>,
  {
    withinMs,
    logger,
    setting,
  }: {
    readonly withinMs: number
    readonly logger: Logger
    /** Where the address comes from, for messages; default `DATABASE_URL`. */
    readonly setting?: string
  },
): Promise<{ readonly pool: pg.Pool; readonly connection: PoolOptions }> => {
  let ending = false
  const connection: PoolOptions = {
    ...options,
    onError: (error) => {
      // A pool that was ended still has connections on their way out when Postgres stops.
      if (!ending) logger.warn({ err: error }, 'a connection to Postgres broke')
    },
  }
  const pool = createPool(connection)
  closing.add(() => {
    ending = true
    return pool.end()
  })
  await waitForDatabase(pool, {
    url: options.url,
    withinMs,
    ...(setting !== undefined && { setting }),
    onWait: (reason) => logger.warn({ reason }, 'the database takes no connection yet: waiting for it'),
  })
  return { pool, connection }
}
