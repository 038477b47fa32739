import { setPriority } from 'node:os'
import type { Logger } from 'pino'
import { createCheckedEvents } from '../audit/checked-events.ts'
import { startAuditing } from '../audit/feature.ts'
import { invariantGroup } from '../audit/invariants/invariants.ts'
import type { Clock } from '../kernel/clock.ts'
import { crashHooks } from '../kernel/crash-points.ts'
import { type CloseStack, closeOnFailure } from '../kernel/resource-scope.ts'
import type { Core, ServerCore } from '../platform/feature/core.ts'
import type { Config } from './config.ts'
import { openCore } from './open-core.ts'
import { openProjections } from './projections.ts'
import { runWorker } from './run-worker.ts'
import { auditorWorkers } from './worker-list.ts'

type AuditorOptions = {
  readonly config: Config
  /** Milliseconds since the epoch. */
  readonly systemClock: Clock
  readonly logger: Logger
  /** See `openPool`. */
  readonly starting?: AbortSignal
  /** Ends the process at once, for FAREBOX_CRASH_AT. */
  readonly kill: () => void
}

export type Auditor = {
  readonly core: Core & Pick<ServerCore, 'projecting'>
  /** Seals the rest of the log and closes everything. */
  close(): Promise<void>
}

/** Nice value: the processes that serve customers get the processor first. */
const lowPriority = 10

/**
 * Opens the auditor: it checks invariants and signatures of new events, reports violations, and seals the log. A server
 * does none of this. With several auditors on one database, one works and the others stand by.
 * @throws FareboxNotInstalled, DatabaseUnreachable, MigrationRefused, KeyRefused, ProjectionsRefused: the start must
 * stop with their message
 */
export const openAuditor = (options: AuditorOptions): Promise<Auditor> =>
  closeOnFailure((closing) => openInto(closing, options))

const openInto = async (closing: CloseStack, options: AuditorOptions): Promise<Auditor> => {
  const { config, systemClock, logger, kill } = options
  const hooks = crashHooks(config.crashAt, kill)
  const opened = await openCore({
    config,
    role: 'auditor',
    workers: auditorWorkers,
    systemClock,
    logger,
    starting: options.starting,
    hooks,
  })
  closing.add(opened.close)
  const checked = createCheckedEvents({ ...opened, master: opened.keys.master })
  const groups = config.checkInvariants ? [invariantGroup] : []
  const { projecting, start } = openProjections(opened, { groups, hooks, watch: checked })
  closing.add(projecting.stop)
  await start({ folds: true })
  const core = { ...opened, projecting }
  await startAuditing(core, closing, { ...config, systemClock, checked })
  return { core, close: closing.close }
}

/** Runs this process as the auditor, until a signal. */
export const runAuditor = (systemClock: Clock): Promise<void> => {
  setPriority(lowPriority)
  const kill = () => process.kill(process.pid, 'SIGKILL')
  return runWorker('the auditor', async ({ config, logger, starting }) => {
    const { core, close } = await openAuditor({ config, systemClock, logger, starting, kill })
    return { worker: `auditor ${process.pid}`, failed: core.failed, close }
  })
}
