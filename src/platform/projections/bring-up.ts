import type { Logger } from 'pino'
import type { Clock } from '../../kernel/clock.ts'
import { type ProgressBar, stepsOf } from '../cli/progress-bar.ts'
import { describeHolder } from '../postgres/locks.ts'
import { ProjectionsRefused, readCheckpoint, readStoppedModels, stoppedText } from './checkpoint.ts'
import { createLogFeed } from './feed.ts'
import { outdatedModels } from './group-loop.ts'
import { createProjectionRunner } from './projection-runner.ts'
import { groupLock, type ReadModelGroup } from './read-model.ts'
import { type RebuildContext, RebuildRunning, rebuild } from './rebuild.ts'

export type CatchUpContext = RebuildContext & {
  readonly clock: Clock
  readonly logger: Logger
  /** Milliseconds without progress of another process before a message is shown, and before `catchUp` fails. */
  readonly silentMs?: { readonly say: number; readonly end: number }
}

const pollMs = 100
/** A server folds a large batch within seconds. */
const defaultSilentMs = { say: 5_000, end: 30_000 }

/** A group and its name in messages, e.g. `the journal`. */
export type NamedGroup = { readonly group: ReadModelGroup; readonly displayName: string }

/** Fills the group's tables if they are outdated or missing. Returns at once if another process rebuilds them. */
const makeTables = async (
  context: CatchUpContext,
  { group, displayName }: NamedGroup,
  bar: ProgressBar,
): Promise<void> => {
  const { pool } = context
  const checkpoint = await readCheckpoint(pool, group.name)
  if (checkpoint) {
    const { outdated, missing, newer } = await outdatedModels(pool, group, checkpoint)
    if (newer.length > 0)
      throw new ProjectionsRefused(`${displayName} was made by a newer version of Farebox; use that version`)
    if (outdated.length + missing.length === 0) return
  }
  let steps: ReturnType<typeof stepsOf> | null = null
  const onProgress = ({ position, target, events }: { position: number; target: number; events: number }) => {
    steps ??= stepsOf(bar, displayName, target)
    steps(position, events)
  }
  try {
    await rebuild({ ...context, groups: [group] }, 'all', { onProgress })
  } catch (error) {
    if (!(error instanceof RebuildRunning)) throw error
  }
}

/**
 * Folds a group up to the head of the log and returns that position. While a server owns the group, it only waits for
 * the server. Without a server it folds the missing events itself, so that a command needs no server.
 * @throws ProjectionsRefused if the tables belong to another log or to a newer program
 * @throws Error if the group or one of its models stopped, or if another process owns the group and makes no progress
 */
export const catchUp = async (
  context: CatchUpContext,
  namedGroup: NamedGroup,
  bar: ProgressBar,
): Promise<number> => {
  const { group, displayName } = namedGroup
  const { log, pool, decode, clock, logger, silentMs = defaultSilentMs } = context
  const head = await log.head()
  const checkpoint = await readCheckpoint(pool, group.name)
  const from = checkpoint?.position ?? 0
  await makeTables(context, namedGroup, bar)
  const stopped = (await readStoppedModels(pool)).find((each) => each.group === group.name)
  if (stopped) throw new Error(`${displayName} is not complete: ${stoppedText(stopped)}`)
  const feed = createLogFeed({
    log,
    decode,
    onError: (error) => logger.error({ err: error }, 'the subscription to the log failed'),
  })
  const runner = createProjectionRunner({
    pool,
    log,
    feed,
    decode,
    groups: [group],
    logger,
    clock,
    watch: context.watch,
  })
  try {
    await runner.start()
    const steps = stepsOf(bar, displayName, head - from)
    let at = runner.progress.position(group.name)
    let movedMs = performance.now()
    let isReported = false
    while (!(await runner.progress.reached(group.name, head, pollMs))) {
      const nowMs = performance.now()
      const isOwn = runner.health().some(({ state }) => state === 'owner')
      if (isOwn || runner.progress.position(group.name) !== at) {
        at = runner.progress.position(group.name)
        movedMs = nowMs
      } else if (nowMs - movedMs > (isReported ? silentMs.end : silentMs.say)) {
        const holder = await describeHolder(pool, groupLock(group, 'projection'))
        if (holder !== null) {
          const problem = `${displayName} waits at position ${at} of ${head} for ${holder}, which folds it and does not go on`
          if (isReported) throw new Error(`${problem}: the log lines of that process say why`)
          bar.say(problem)
        }
        isReported = true
      }
      const failedGroup = runner.health().find(({ error }) => error !== null)
      if (failedGroup) throw new Error(`${displayName} does not go on: ${failedGroup.error}`)
      const done = Math.max(0, runner.progress.position(group.name) - from)
      steps(done, done)
    }
    bar.end()
    return head
  } finally {
    await runner.stop()
    await feed.close()
  }
}
