import { userInfo } from 'node:os'
import type { Clock } from '../kernel/clock.ts'
import { crashHooks } from '../kernel/crash-points.ts'
import { newId } from '../kernel/ids.ts'
import { closeOnFailure } from '../kernel/resource-scope.ts'
import type { CliContext, OpenOptions } from '../platform/cli/cli-context.ts'
import { createLogger } from '../platform/http/logging.ts'
import { createPool } from '../platform/postgres/pool.ts'
import type { Config } from './config.ts'
import { openDatabase } from './open-database.ts'
import { withUsedPorts } from './used-ports.ts'

const operatorName = (): string => {
  try {
    return userInfo().username
  } catch {
    return 'unknown'
  }
}

/** Logs go to standard error, because standard output is for the command's result. */
const standardError = { write: (line: string) => void process.stderr.write(line) }

/** Opens the context of a command, on a running server's Postgres or its own. */
export const openCliContext = async (
  config: Config,
  hasExplicitLevel: boolean,
  systemClock: Clock,
  { makes, copies = false, examines = false }: OpenOptions = { makes: false },
): Promise<{ readonly context: CliContext; close(): Promise<void> }> => {
  const logger = createLogger(hasExplicitLevel ? config.logLevel : 'error', standardError)
  const options = {
    config,
    role: 'command',
    makes,
    examines,
    ...(copies && { signs: false as const }),
    systemClock,
    logger,
    hooks: crashHooks(null, () => undefined),
  } as const
  const { core, auditorPool } = await closeOnFailure(async (closing) => {
    const database = await openDatabase(closing, options)
    const { auditorUrl } = database.postgres
    const auditorPool =
      auditorUrl === null ? database.pool : createPool({ ...database.connection, url: auditorUrl })
    if (auditorUrl !== null) closing.add(() => auditorPool.end())
    // Loaded after the database is open, because a failed start does not need it.
    const { openCoreOn } = await import('./open-core.ts')
    return { core: await openCoreOn(database, closing, options), auditorPool }
  })
  const context: CliContext = {
    ...core,
    auditorPool,
    config: await withUsedPorts(config, core.pool),
    actor: { kind: 'operator', name: operatorName() },
    correlationId: newId('run'),
  }
  return { context, close: core.close }
}
