import type { Logger } from 'pino'
import { ProjectionsRefused, readCheckpoint } from '../../../projections/engine/checkpoint.ts'
import { createLogFeed } from '../../../projections/engine/feed.ts'
import { outdatedModels } from '../../../projections/engine/group-loop.ts'
import { type RebuildContext, RebuildRunning, rebuild } from '../../../projections/engine/rebuild.ts'
import { createProjectionRunner } from '../../../projections/engine/runner.ts'
import { books } from '../../../projections/groups.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { ProgressBar } from '../../platform/cli/progress-bar.ts'
import { stepsOf } from '../../platform/cli/progress-bar.ts'

export type BooksContext = RebuildContext & { readonly clock: Clock; readonly logger: Logger }

const pollMs = 100

/** Fills the journal's tables from the log where this program has none. Somebody else may be at it: then it waits. */
const makeTables = async (context: BooksContext, bar: ProgressBar): Promise<void> => {
  const { pool } = context
  const checkpoint = await readCheckpoint(pool, books.name)
  if (checkpoint) {
    const { outdated, missing, newer } = await outdatedModels(pool, books, checkpoint)
    if (newer.length > 0)
      throw new ProjectionsRefused('the journal was made by a newer version of Farebox; use that version')
    if (outdated.length + missing.length === 0) return
  }
  let steps: ReturnType<typeof stepsOf> | null = null
  const onProgress = ({ position, target, events }: { position: number; target: number; events: number }) => {
    steps ??= stepsOf(bar, 'journal', target)
    steps(position, events)
  }
  try {
    await rebuild({ ...context, groups: [books] }, 'all', { onProgress })
  } catch (error) {
    if (!(error instanceof RebuildRunning)) throw error
  }
}

/**
 * Brings the journal up to the log's head and gives that position. Beside a running server it only waits for it; alone
 * it folds what is missing, so that a command needs no server.
 * @throws ProjectionsRefused when the journal belongs to another log or a newer program
 */
export const bringBooksUp = async (context: BooksContext, bar: ProgressBar): Promise<number> => {
  const { log, pool, decode, clock, logger } = context
  const head = await log.head()
  const checkpoint = await readCheckpoint(pool, books.name)
  const from = checkpoint?.position ?? 0
  await makeTables(context, bar)
  const feed = createLogFeed({
    log,
    decode,
    onError: (error) => logger.error({ err: error }, 'the subscription to the log failed'),
  })
  const runner = createProjectionRunner({ pool, log, feed, decode, groups: [books], logger, clock })
  try {
    await runner.start()
    const steps = stepsOf(bar, 'journal', head - from)
    while (!(await runner.progress.reached(books.name, head, pollMs))) {
      const stopped = runner.health().find(({ error }) => error !== null)
      if (stopped) throw new Error(`the journal does not go on: ${stopped.error}`)
      const done = Math.max(0, runner.progress.position(books.name) - from)
      steps(done, done)
    }
    bar.end()
    return head
  } finally {
    await runner.stop()
    await feed.close()
  }
}
