import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import { runWithSession, tryLock, unlock } from '../postgres/locks.ts'
import { type Session, setIdleTimeouts } from '../postgres/postgres-session.ts'
import { type Checkpoint, readCheckpoint, readEpoch, tablesExist } from './checkpoint.ts'
import { compareDefinitions } from './definition.ts'
import { PoisonEvent } from './fold-batch.ts'
import { foldAsLeader, isPoison, type LeaderContext, type Poison } from './leadership.ts'
import { listenForHints, stopListening } from './progress.ts'
import { groupLock, type ReadModel, type ReadModelGroup } from './read-model.ts'
import { type RebuildContext, RebuildRunning, rebuildGroup } from './rebuild.ts'
import { dropStopped, stopModel } from './rebuild-tables.ts'

/**
 * - `owner` folds.
 * - `standby` takes over when the owner is gone.
 * - `rebuilding` creates its tables first.
 * - `poisoned` stopped before an event that its only model cannot apply, or that cannot be decoded.
 * - `superseded` found tables of another version of the program.
 * - `unreachable` has no connection.
 */
export type GroupState =
  | 'starting'
  | 'rebuilding'
  | 'standby'
  | 'owner'
  | 'poisoned'
  | 'superseded'
  | 'unreachable'

export type EngineLogger = Pick<Logger, 'info' | 'warn' | 'error' | 'fatal'>

export type GroupContext = LeaderContext &
  RebuildContext & {
    readonly pool: pg.Pool
    readonly logger: EngineLogger
    /** The longest silence of Postgres while an answer is due, or of this process, in a session. Milliseconds. */
    readonly answerTimeoutMs: number
    readonly setState: (group: string, state: GroupState, error?: Error) => void
  }

/** How often a standby checks whether the owner is gone, milliseconds. */
const standbyMs = 500
/** The pause after a failure, milliseconds. It doubles with each failure and is reset after a success. */
const firstBackoffMs = 100
const maxBackoffMs = 2000
/** The pause before a poison event is applied again, milliseconds. It doubles with each failure. */
const firstPoisonMs = 1_000
const maxPoisonMs = 60_000

/**
 * The models whose tables must be created before the group continues: never filled, filled by older code, or dropped
 * by hand. Stopped models are not among them, because the group continues without them.
 */
export const outdatedModels = async (
  pool: pg.Pool | pg.ClientBase,
  group: ReadModelGroup,
  checkpoint: Checkpoint,
): Promise<{
  outdated: readonly ReadModel[]
  missing: readonly ReadModel[]
  newer: readonly string[]
  stopped: readonly ReadModel[]
}> => {
  const { outdated, newer } = compareDefinitions(group, checkpoint.definitions)
  const stopped = group.models.filter(({ name }) => name in checkpoint.stopped)
  const running = group.models.filter((model) => !stopped.includes(model))
  const names = running.flatMap((model) => model.tables.map(({ name }) => name))
  const found = await tablesExist(pool, names)
  const absent = new Set(names.filter((_, index) => !found[index]))
  const missing = running.filter((model) => model.tables.some(({ name }) => absent.has(name)))
  return { outdated: outdated.filter((model) => running.includes(model)), missing, newer, stopped }
}

/**
 * Runs a group as long as the process runs: creates its tables if they are not of this program, waits for ownership,
 * folds, and starts again after each lost connection. Ends only when `stop` is aborted.
 *
 * It does not use `runAsLeader` for three reasons: a group releases its lock while another version of the program
 * owns the tables, a standby receives hints of the owner over its session, and the owner's fence check keeps the
 * session from being idle.
 */
export const runGroup = async (
  context: GroupContext,
  group: ReadModelGroup,
  stop: AbortSignal,
): Promise<void> => {
  const { logger, progress, setState } = context
  const lock = groupLock(group, 'projection')
  /** This process has used the tables of its own program. If they change now, another program is running. */
  let isAdopted = false
  let backoffMs = firstBackoffMs
  let poisonMs = firstPoisonMs
  const leadership: LeaderContext = {
    ...context,
    // A written batch resets the backoff. A connection and matching tables do not: a full disk can be read.
    onBatch: (batch) => {
      backoffMs = firstBackoffMs
      poisonMs = firstPoisonMs
      context.onBatch?.(batch)
    },
  }

  const pause = (ms: number, signal: AbortSignal): Promise<void> =>
    sleep(ms, undefined, { signal }).catch(() => undefined)

  /** Waits before the event is applied again. It ends earlier when the tables are replaced. */
  const pauseAtPoison = async (session: Session, epoch: number, signal: AbortSignal): Promise<void> => {
    const endMs = performance.now() + poisonMs
    poisonMs = Math.min(poisonMs * 2, maxPoisonMs)
    while (!signal.aborted && performance.now() < endMs) {
      await pause(firstPoisonMs, signal)
      if ((await readEpoch(session.client, group.name)) !== epoch) return
    }
  }

  /** Stops the model that cannot apply the event. A group of one model waits at the event, and so do its readers. */
  const stopAt = async (
    session: Session,
    poison: Poison,
    epoch: number,
    signal: AbortSignal,
  ): Promise<void> => {
    const model = poison instanceof PoisonEvent && group.models.find(({ name }) => name === poison.model)
    // While another version of the program folds these tables, they remain.
    const canStopAlone = model && group.models.length > 1
    if (canStopAlone && (await tryLock(session.client, lock))) {
      logger.fatal({ group: group.name, model: model.name, err: poison }, 'read model stopped')
      await stopModel(session.client, group.name, epoch, model, poison)
      return unlock(session.client, lock)
    }
    const error = canStopAlone
      ? new Error(
          `${poison.message}; another process still folds this group: end it, and only the model ${model.name} stops`,
          { cause: poison },
        )
      : poison
    setState(group.name, 'poisoned', error)
    await pauseAtPoison(session, epoch, signal)
  }

  /** Stopped models that this process cannot rebuild. Another version of the program may. */
  const unrepaired = new Set<string>()

  /** Rebuilds the stopped models, one after another, while the group continues without them. */
  const repairModels = async (): Promise<void> => {
    while (!stop.aborted)
      try {
        const stopped = (await readCheckpoint(context.pool, group.name))?.stopped ?? {}
        await dropStopped(context.pool, group, stop)
        const model = group.models.find(({ name }) => name in stopped && !unrepaired.has(name))
        if (!model) return
        try {
          const result = await rebuildGroup(context, group, [model], { signal: stop })
          logger.info({ ...result }, 'stopped read model rebuilt')
        } catch (error) {
          if (!isPoison(error)) throw error
          unrepaired.add(model.name)
          logger.fatal({ group: group.name, model: model.name, err: error }, 'read model remains stopped')
        }
      } catch (error) {
        if (stop.aborted) return
        if (!(error instanceof RebuildRunning))
          logger.warn({ group: group.name, err: error }, 'stopped read models are rebuilt again later')
        await pause(maxBackoffMs, stop)
      }
  }
  let repairing = Promise.resolve()

  const makeTables = async (
    models: readonly ReadModel[],
    session: Session,
    checkpoint: Checkpoint,
    signal: AbortSignal,
  ): Promise<void> => {
    const names = models.map(({ name }) => name)
    setState(group.name, 'rebuilding')
    logger.info({ group: group.name, models: names }, 'making read tables from the log')
    let reportedMs = performance.now()
    try {
      const result = await rebuildGroup(context, group, models, {
        signal,
        onProgress: (step) => {
          if (performance.now() - reportedMs < 5000) return
          reportedMs = performance.now()
          logger.info(step, 'making read tables from the log')
        },
      })
      logger.info({ ...result }, 'read tables made')
    } catch (error) {
      if (error instanceof RebuildRunning) return pause(standbyMs, signal)
      if (!isPoison(error)) throw error
      await stopAt(session, error, checkpoint.epoch, signal)
    }
  }

  /** True if the tables are those of this program, so that they can be read and folded into. */
  const tablesFit = async (session: Session, signal: AbortSignal): Promise<boolean> => {
    const checkpoint = await readCheckpoint(session.client, group.name)
    if (!checkpoint) throw new Error(`group ${group.name} has no checkpoint`)
    const { outdated, missing, newer, stopped } = await outdatedModels(session.client, group, checkpoint)
    progress.setStopped(group.name, stopped)
    if (newer.length > 0 || (isAdopted && outdated.length > 0)) {
      progress.setUsable(group.name, false)
      const names = newer.length > 0 ? newer : outdated.map(({ name }) => name)
      setState(
        group.name,
        'superseded',
        new Error(`another version of the program made the tables of ${names.join(', ')}; stop this process`),
      )
      return false
    }
    const make = [...new Set([...outdated, ...missing])]
    if (make.length > 0) {
      progress.setUsable(group.name, false)
      // The rebuild uses sessions of its own and takes minutes.
      await setIdleTimeouts(session.client, 0)
      await makeTables(make, session, checkpoint, signal)
      await setIdleTimeouts(session.client, context.answerTimeoutMs)
      return tablesFit(session, signal)
    }
    isAdopted = true
    progress.observeCheckpoint(group.name, checkpoint)
    progress.setUsable(group.name, true)
    return true
  }

  const runSession = async (session: Session, signal: AbortSignal): Promise<void> => {
    let locked = false
    let isListening = false
    while (!signal.aborted) {
      if (!(await tablesFit(session, signal))) {
        if (locked) await unlock(session.client, lock)
        locked = false
        await pause(standbyMs, signal)
        continue
      }
      locked ||= await tryLock(session.client, lock)
      if (!locked) {
        backoffMs = firstBackoffMs
        setState(group.name, 'standby')
        if (!isListening && group.held) await listenForHints(session.client, group.name, progress)
        isListening = true
        await pause(standbyMs, signal)
        continue
      }
      if (isListening) await stopListening(session.client)
      isListening = false
      setState(group.name, 'owner')
      progress.setOwned(group.name, true)
      repairing = repairing.then(repairModels)
      try {
        const end = await foldAsLeader(leadership, group, session, signal)
        if (end.kind === 'poisoned') await stopAt(session, end.error, end.epoch, signal)
      } finally {
        progress.setOwned(group.name, false)
      }
    }
  }

  await runWithSession(
    {
      pool: context.pool,
      applicationName: `farebox projection ${group.name}`,
      answerTimeoutMs: context.answerTimeoutMs,
      stop,
      onError: (error) => {
        setState(group.name, 'unreachable', error as Error)
        const pauseMs = backoffMs
        backoffMs = Math.min(backoffMs * 2, maxBackoffMs)
        return pauseMs
      },
    },
    async (session, signal) => {
      session.ended.addEventListener('abort', () => progress.forget(group.name), { once: true })
      await runSession(session, signal)
    },
  )
  await repairing
}
