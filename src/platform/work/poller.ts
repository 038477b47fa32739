import type { Logger } from 'pino'
import { CommandOverload } from '../eventstore/commands/command.ts'

export type Poller = {
  /** Runs the work now, after a run that is under way; rejects with what it throws. */
  runNow(): Promise<void>
  /** Ends after the run that is under way. */
  stop(): Promise<void>
}

/** What is younger than this, milliseconds, belongs to the request or command that began it (design section 6, "Arbiters"). */
export const handlersTimeMs = 5_000

/** @throws what failed in a round, as one error; nothing when nothing did */
export const throwThose = (failures: readonly unknown[]): void => {
  if (failures.length > 1) throw new AggregateError(failures, `${failures.length} of them failed`)
  if (failures.length > 0) throw failures[0]
}

/**
 * Works on one after another. What cannot be decided, such as a stream that cannot be read, holds up nothing after it; a log
 * that is away or busy (CommandOverload) ends the round.
 * @throws what failed, once the others had their turn
 */
export const workOnEach = async <Item>(
  items: Iterable<Item>,
  work: (item: Item) => Promise<void>,
): Promise<void> => {
  const failures: unknown[] = []
  for (const item of items)
    try {
      await work(item)
    } catch (error) {
      failures.push(error)
      if (error instanceof CommandOverload) break
    }
  throwThose(failures)
}

/**
 * A list that is looked at piece by piece, each round where the one before ended and from its start again after its end: so
 * what cannot be decided and stays keeps nothing behind it from its turn, however much of it there is.
 *
 * @param find at most `limit` items in an order that stays, behind `after`, or the first ones
 */
export const inTurns = <Item>(
  limit: number,
  find: (after: Item | null) => Promise<readonly Item[]>,
): (() => Promise<readonly Item[]>) => {
  let after: Item | null = null
  return async () => {
    const found = await find(after)
    after = found.length < limit ? null : (found.at(-1) ?? null)
    return found
  }
}

/**
 * Runs `work` again and again with a pause between, never twice at once. A failed run is logged and the pause grows to
 * at most ten times its length: what it left undone is found by the next one, since work is found by looking, not
 * handed over.
 */
export const startPoller = (options: {
  readonly name: string
  readonly intervalMs: number
  readonly work: () => Promise<void>
  readonly logger: Logger
}): Poller => {
  const { name, intervalMs, work, logger } = options
  let failures = 0
  let stopped = false
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> = Promise.resolve()

  const run = (): Promise<void> => {
    const next = running.then(work)
    running = next.then(
      () => {
        failures = 0
      },
      (error) => {
        failures += 1
        logger.error({ err: error, reactor: name, failures }, 'a reactor failed and will try again')
      },
    )
    return next
  }

  const schedule = (): void => {
    if (stopped) return
    const pauseMs = intervalMs * Math.min(10, 1 + failures)
    timer = setTimeout(() => {
      void run()
        .catch(() => undefined) // logged above; the next run is its answer
        .then(schedule)
    }, pauseMs)
  }
  schedule()

  return {
    runNow: run,
    stop: async () => {
      stopped = true
      clearTimeout(timer)
      await running
    },
  }
}
