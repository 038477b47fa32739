import { userInfo } from 'node:os'
import type { Clock } from '../kernel/clock.ts'
import { crashHooks } from '../kernel/crash-points.ts'
import { newId } from '../kernel/ids.ts'
import { closeOnFailure } from '../kernel/resource-scope.ts'
import type { CliContext, OpenOptions } from '../platform/cli/cli-context.ts'
import { createLogger } from '../platform/http/logging.ts'
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

/** Standard output belongs to the command's own answer. */
const standardError = { write: (line: string) => void process.stderr.write(line) }

/**
 * Opens what a command works with, on a running server's Postgres or its own.
 */
export const openCliContext = async (
  config: Config,
  levelGiven: boolean,
  systemClock: Clock,
  { makes, copies = false }: OpenOptions = { makes: false },
): Promise<{ readonly context: CliContext; close(): Promise<void> }> => {
  const logger = createLogger(levelGiven ? config.logLevel : 'error', standardError)
  const options = {
    config,
    role: 'command',
    makes,
    ...(copies && { signs: false as const }),
    systemClock,
    logger,
    hooks: crashHooks(null, () => undefined),
  } as const
  const core = await closeOnFailure(async (closing) => {
    const database = await openDatabase(closing, options)
    // Loaded here: without a database, none of it is needed.
    return (await import('./open-core.ts')).openCoreOn(database, closing, options)
  })
  const context: CliContext = {
    ...core,
    config: await withUsedPorts(config, core.pool),
    actor: { kind: 'operator', name: operatorName() },
    correlationId: newId('run'),
  }
  return { context, close: core.close }
}
