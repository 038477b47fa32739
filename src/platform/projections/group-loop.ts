import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import { runWithSession, tryLock, unlock } from '../postgres/locks.ts'
import { type Session, setIdleTimeouts } from '../postgres/postgres-session.ts'
import { type Checkpoint, readCheckpoint, tablesExist } from './checkpoint.ts'
import { compareDefinitions } from './definition.ts'
import { UndecodableEvent } from './feed.ts'
import { PoisonEvent } from './fold-batch.ts'
import { foldAsLeader, type LeaderContext } from './leadership.ts'
import { listenForHints, stopListening } from './progress.ts'
import type { ReadModel, ReadModelGroup } from './read-model.ts'
import { type RebuildContext, RebuildRunning, rebuildGroup } from './rebuild.ts'

/**
 * - `owner` folds.
 * - `standby` takes over when the owner is gone.
 * - `rebuilding` creates its tables first.
 * - `poisoned` stopped before an event that it cannot apply.
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

/** The models whose tables must be created: never filled, filled by older code, or dropped by hand. */
export const outdatedModels = async (
  pool: pg.Pool | pg.ClientBase,
  group: ReadModelGroup,
  checkpoint: Checkpoint,
): Promise<{
  outdated: readonly ReadModel[]
  missing: readonly ReadModel[]
  newer: readonly string[]
}> => {
  const { outdated, newer } = compareDefinitions(group, checkpoint.definitions)
  const names = group.models.flatMap((model) => model.tables.map(({ name }) => name))
  const found = await tablesExist(pool, names)
  const absent = new Set(names.filter((_, index) => !found[index]))
  const missing = group.models.filter((model) => model.tables.some(({ name }) => absent.has(name)))
  return { outdated, missing, newer }
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
  const lockName = `projection ${group.name}`
  /** This process has used the tables of its own program. If they change now, another program is running. */
  let isAdopted = false
  let backoffMs = firstBackoffMs
  const leadership: LeaderContext = {
    ...context,
    // A written batch resets the backoff. A connection and matching tables do not: a full disk can be read.
    onBatch: (batch) => {
      backoffMs = firstBackoffMs
      context.onBatch?.(batch)
    },
  }

  const pause = (ms: number, signal: AbortSignal): Promise<void> =>
    sleep(ms, undefined, { signal }).catch(() => undefined)

  const waitWhilePoisoned = async (session: Session, epoch: number, signal: AbortSignal): Promise<void> => {
    // A new fold would fail on the same event, so it waits until the tables are replaced.
    while (!signal.aborted) {
      const checkpoint = await readCheckpoint(session.client, group.name)
      if (checkpoint?.epoch !== epoch) return
      await pause(1000, signal)
    }
  }

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
      if (!(error instanceof PoisonEvent || error instanceof UndecodableEvent)) throw error
      setState(group.name, 'poisoned', error)
      await waitWhilePoisoned(session, checkpoint.epoch, signal)
    }
  }

  /** True if the tables are those of this program, so that they can be read and folded into. */
  const tablesFit = async (session: Session, signal: AbortSignal): Promise<boolean> => {
    const checkpoint = await readCheckpoint(session.client, group.name)
    if (!checkpoint) throw new Error(`group ${group.name} has no checkpoint`)
    const { outdated, missing, newer } = await outdatedModels(session.client, group, checkpoint)
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
        if (locked) await unlock(session.client, lockName)
        locked = false
        await pause(standbyMs, signal)
        continue
      }
      locked ||= await tryLock(session.client, lockName)
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
      try {
        const end = await foldAsLeader(leadership, group, session, signal)
        if (end.kind === 'poisoned') {
          setState(group.name, 'poisoned', end.error)
          await waitWhilePoisoned(session, end.epoch, signal)
        }
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
}
