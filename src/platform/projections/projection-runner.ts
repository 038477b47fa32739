import { setMaxListeners } from 'node:events'
import type pg from 'pg'
import type { Clock } from '../../kernel/clock.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { noYield, type YieldToCommands } from '../commands/background-scheduler.ts'
import type { EventLog, StoredEvent } from '../eventstore/port.ts'
import { sessionAnswerMs } from '../postgres/postgres-session.ts'
import {
  claimWorkTables,
  ensureCheckpoint,
  ProjectionsRefused,
  readCheckpoint,
  refuseForeignLog,
} from './checkpoint.ts'
import type { LogFeed } from './feed.ts'
import type { FoldWatch } from './fold-batch.ts'
import { type EngineLogger, type GroupState, outdatedModels, runGroup } from './group-loop.ts'
import type { BatchDone, BatchPoint } from './leadership.ts'
import { createGate, createProgress, type Progress } from './progress.ts'
import type { ReadModelGroup } from './read-model.ts'

export type GroupHealth = {
  readonly group: string
  readonly state: GroupState
  /** Why it does not continue; null while it does. */
  readonly error: string | null
}

export type GroupLag = {
  readonly group: string
  /** The distance to the head of the log in positions. On Postgres these are events. */
  readonly positions: number
  /** The age in seconds of the first event that is not folded; 0 if there is none. */
  readonly seconds: number
}

export type ProjectionRunner = {
  /**
   * Checks that the log and the tables belong together, then runs the groups of this process in the background.
   * @throws ProjectionsRefused (another log, a log shorter than the checkpoint, tables of a newer program)
   */
  start(): Promise<void>
  /** Finishes the batches in progress and releases the groups. */
  stop(): Promise<void>
  readonly progress: Progress
  health(): readonly GroupHealth[]
  lag(): Promise<readonly GroupLag[]>
  /** Whether all groups reach the current head of the log within a time limit (default 1,000 ms). */
  caughtUp(timeoutMs?: number): Promise<boolean>
  /** Resolves when no batch is in progress. No batch starts until `resume`. */
  pause(): Promise<void>
  resume(): void
}

export type RunnerOptions = {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly feed: LogFeed
  readonly decode: (event: StoredEvent) => RecordedEvent
  readonly groups: readonly ReadModelGroup[]
  /** Groups that another process folds, by name: this process reads only their lag. */
  readonly elsewhere?: readonly string[]
  readonly logger: EngineLogger
  readonly clock: Clock
  /** A batch of this many events is written, even if its window is still open. Default 4,000. */
  readonly maxBatch?: number
  /** Cached rows of a group; default 20,000. */
  readonly maxRows?: number
  /** Called between steps of folding and before a batch is written. */
  readonly yieldToCommands?: YieldToCommands
  /** How long after the last write a batch still accepts events, milliseconds; default 60. Shorter if a read waits. */
  readonly batchWindowMs?: number
  /** A session is closed when Postgres does not answer for this long, milliseconds; default 30,000. */
  readonly answerTimeoutMs?: number
  readonly onBatch?: (batch: BatchDone) => void
  readonly watch?: FoldWatch | undefined
  readonly onState?: (health: GroupHealth) => void
  readonly onPoint?: (point: BatchPoint) => void | Promise<void>
}

/** Folds the log into the read tables of all groups. Each group has one owner process at a time. */
export const createProjectionRunner = (options: RunnerOptions): ProjectionRunner => {
  const { pool, log, groups, logger, decode, clock } = options
  const { elsewhere = [] } = options
  const names = groups.map(({ name }) => name)
  const allNames = [...names, ...elsewhere]
  const progress = createProgress({ pool, groups: allNames })
  const gate = createGate()
  const stopping = new AbortController()
  // Every wait of every group listens to the signal.
  setMaxListeners(0, stopping.signal)
  const health = new Map<string, GroupHealth>(
    allNames.map((group) => [group, { group, state: 'starting', error: null }]),
  )
  let loops: readonly Promise<void>[] = []

  const setState = (group: string, state: GroupState, error?: Error): void => {
    const previous = health.get(group)
    const now: GroupHealth = { group, state, error: error?.message ?? null }
    if (previous?.state === now.state && previous.error === now.error) return
    health.set(group, now)
    options.onState?.(now)
    const fields = { group, state, ...(error && { err: error }) }
    if (state === 'poisoned') logger.fatal(fields, 'projection stopped: it cannot apply an event')
    else if (error) logger.error(fields, 'projection does not go on')
    else logger.info(fields, 'projection')
  }

  const check = async (group: ReadModelGroup, logId: string): Promise<void> => {
    await ensureCheckpoint(pool, group.name, logId)
    const checkpoint = await readCheckpoint(pool, group.name)
    if (!checkpoint) throw new Error(`group ${group.name} has no checkpoint`)
    await refuseForeignLog(group.name, checkpoint, log)
    const { newer, outdated, missing } = await outdatedModels(pool, group, checkpoint)
    if (newer.length > 0)
      throw new ProjectionsRefused(
        `the read tables of ${newer.join(', ')} were made by a newer version of Farebox. Start that version, or rebuild them with this one: npm run farebox -- projections rebuild all`,
      )
    if (group.work) await claimWorkTables(pool, group.name, group.work)
    progress.advance(group.name, checkpoint)
    progress.setUsable(group.name, outdated.length + missing.length === 0)
  }

  const start = async (): Promise<void> => {
    const logId = await log.logId()
    for (const group of groups) await check(group, logId)
    const context = {
      pool,
      log,
      decode,
      feed: options.feed,
      progress,
      gate,
      logId,
      logger,
      setState,
      maxBatch: options.maxBatch ?? 4_000,
      maxRows: options.maxRows ?? 20_000,
      batchWindowMs: options.batchWindowMs ?? 60,
      answerTimeoutMs: options.answerTimeoutMs ?? sessionAnswerMs,
      yieldToCommands: options.yieldToCommands ?? noYield,
      clock,
      onBatch: options.onBatch,
      watch: options.watch,
      onPoint: options.onPoint,
    }
    loops = groups.map((group) => runGroup(context, group, stopping.signal))
  }

  const lagOf = async (group: string, head: number): Promise<GroupLag> => {
    const known = Math.max(0, progress.position(group))
    // The known checkpoint of another owner may be outdated.
    const checkpoint = known >= head ? null : await readCheckpoint(pool, group)
    if (checkpoint) progress.advance(group, checkpoint)
    const position = checkpoint?.position ?? known
    const [first] = position < head ? await log.readAll(position, 1) : []
    if (!first) return { group, positions: 0, seconds: 0 }
    const recordedMs = Date.parse(decode(first).metadata.recordedAt)
    return { group, positions: head - position, seconds: Math.max(0, clock() - recordedMs) / 1000 }
  }

  return {
    start,
    stop: async () => {
      stopping.abort(new Error('the projection runner stops'))
      await Promise.all(loops)
      progress.close()
    },
    progress,
    health: () => [...health.values()],
    lag: async () => {
      const head = await log.head()
      return Promise.all(allNames.map((group) => lagOf(group, head)))
    },
    caughtUp: async (timeoutMs = 1000) => {
      const head = await log.head()
      const reached = await Promise.all(names.map((group) => progress.reached(group, head, timeoutMs)))
      return reached.every(Boolean)
    },
    pause: gate.close,
    resume: gate.open,
  }
}
