import type { Logger } from 'pino'
import { createDatabaseWait, DatabaseUnreachable } from '../platform/postgres/wait-for-database.ts'
import { logWaiting } from './open-pool.ts'

/**
 * Opens a process. If the database goes away meanwhile, what was opened is closed and opened again, as after a kill: a
 * running process survives an outage, too.
 * @throws the errors of `open` that waiting does not resolve, e.g. if the database was never reached; every error once
 * `starting` is aborted
 */
export const openThroughOutages = <Opened>(
  open: () => Promise<Opened>,
  { logger, starting }: { readonly logger: Logger; readonly starting: AbortSignal },
): Promise<Opened> => {
  const wait = createDatabaseWait({ signal: starting, onWait: logWaiting(logger, 'the database') })
  let wasReached = false
  return wait(async () => {
    try {
      return await open()
    } catch (error) {
      if (!(error instanceof DatabaseUnreachable)) {
        wasReached = true
        throw error
      }
      throw wasReached ? error.cause : error
    }
  })
}
