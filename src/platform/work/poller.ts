import type { Logger } from 'pino'

export type Poller = {
  /** Runs the work now, after a run that is under way; rejects with what it throws. */
  runNow(): Promise<void>
  /** Ends after the run that is under way. */
  stop(): Promise<void>
}

/** @throws what failed in a round, as one error; nothing when nothing did */
export const throwThose = (failures: readonly unknown[]): void => {
  if (failures.length > 1) throw new AggregateError(failures, `${failures.length} of them failed`)
  if (failures.length > 0) throw failures[0]
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
