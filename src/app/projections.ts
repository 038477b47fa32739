import type { Logger } from 'pino'
import { followers } from '../../projections/groups.ts'
import { invariantGroup } from '../audit/invariants/invariants.ts'
import type { CrashHooks } from '../kernel/crash-points.ts'
import { type Core, followIntervalMs, type Projecting } from '../platform/feature/core.ts'
import { openSession, type Session } from '../platform/postgres/postgres-session.ts'
import { readCheckpoint, refuseForeignLog } from '../platform/projections/checkpoint.ts'
import { createLogFeed } from '../platform/projections/feed.ts'
import type { FoldWatch } from '../platform/projections/fold-batch.ts'
import { outdatedModels } from '../platform/projections/group-loop.ts'
import { listenForHints } from '../platform/projections/progress.ts'
import { createProjectionRunner, type ProjectionRunner } from '../platform/projections/projection-runner.ts'
import type { ReadModelGroup } from '../platform/projections/read-model.ts'
import type { RunningWorker } from '../platform/work/scheduler.ts'
import { worker } from '../platform/work/worker.ts'

/** All groups that are filled from the log; the auditor fills the last one. `checkInvariants` is FAREBOX_LAWS. */
export const enabledGroups = (config: { readonly checkInvariants: boolean }): readonly ReadModelGroup[] =>
  config.checkInvariants ? [...followers, invariantGroup] : followers

export const followProjections = worker({
  name: 'follow-projections',
  about: 'Follows read tables that another process fills',
  trigger: { everyMs: followIntervalMs },
  per: 'process',
  process: 'server',
})

/**
 * Follows the read tables that another process fills: whether they match this program, their position, and hints of
 * changes. Hints arrive over a separate connection. If it is lost, each poll tries to open it again.
 */
const follow = async (
  core: Core,
  groups: readonly ReadModelGroup[],
  runner: ProjectionRunner,
  logger: Logger,
): Promise<Pick<RunningWorker, 'stop'>> => {
  let hintSession: Session | null = null
  const openHintSession = async (): Promise<void> => {
    if (hintSession !== null && !hintSession.ended.aborted) return
    hintSession = await openSession(core.pool, 'farebox hints')
    for (const { name, held } of groups)
      if (held) await listenForHints(hintSession.client, name, runner.progress)
  }
  const pollGroups = async (): Promise<void> => {
    await openHintSession().catch((error) => logger.warn({ err: error }, 'hints of changes are not heard'))
    for (const group of groups) {
      const checkpoint = await readCheckpoint(core.pool, group.name)
      const modelStatus = checkpoint && (await outdatedModels(core.pool, group, checkpoint))
      if (modelStatus) runner.progress.setStopped(group.name, modelStatus.stopped)
      const isUsable =
        modelStatus !== null &&
        modelStatus.outdated.length + modelStatus.missing.length + modelStatus.newer.length === 0
      if (isUsable && checkpoint) runner.progress.observeCheckpoint(group.name, checkpoint)
      runner.progress.setUsable(group.name, isUsable)
    }
  }
  for (const { name } of groups) {
    const checkpoint = await readCheckpoint(core.pool, name)
    if (checkpoint) await refuseForeignLog(name, checkpoint, core.log)
  }
  await pollGroups()
  const followWorker = core.scheduler.start(followProjections, pollGroups)
  return {
    stop: async () => {
      await followWorker.stop()
      await hintSession?.close()
    },
  }
}

/** The read models of this process, before folding or following starts. */
export const openProjections = (
  core: Core,
  {
    groups,
    elsewhere,
    hooks,
    watch,
  }: {
    readonly groups: readonly ReadModelGroup[]
    readonly hooks: CrashHooks
    /** Groups that the auditor folds, by name. */
    readonly elsewhere?: readonly string[]
    readonly watch?: FoldWatch
  },
): { readonly projecting: Projecting; start(options: { readonly folds: boolean }): Promise<void> } => {
  const { pool, log, codec, clock, backgroundScheduler, logger } = core
  const feed = createLogFeed({
    log,
    decode: codec.decode,
    onError: (error) =>
      logger.error({ err: error }, 'the subscription to the log failed and is opened again'),
  })
  const runner = createProjectionRunner({
    pool,
    log,
    feed,
    decode: codec.decode,
    groups,
    ...(elsewhere && { elsewhere }),
    logger,
    clock,
    yieldToCommands: backgroundScheduler.yieldToCommands,
    watch,
    onPoint: (point) => hooks.at(point),
  })
  let follower: Pick<RunningWorker, 'stop'> | null = null
  return {
    projecting: {
      feed,
      progress: runner.progress,
      lag: runner.lag,
      caughtUp: runner.caughtUp,
      health: runner.health,
      pause: runner.pause,
      resume: runner.resume,
      stop: async () => {
        await follower?.stop()
        await runner.stop()
        await feed.close()
      },
    },
    /**
     * Folds the log into the read tables, or (`folds: false`) only follows the progress of another process.
     * @throws ProjectionsRefused when the read tables belong to another log or a newer program
     */
    start: async ({ folds }) => {
      if (folds) await runner.start()
      else follower = await follow(core, groups, runner, logger)
    },
  }
}
