import { setImmediate as nextTurn } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../kernel/clock.ts'
import { every } from '../../kernel/every.ts'
import type { Activity } from '../eventstore/port.ts'
import { runAsLeader } from '../postgres/locks.ts'
import { type Session, sessionAnswerMs } from '../postgres/postgres-session.ts'
import type { ClusterWorker, RepeatedWorker, Worker } from './worker.ts'
import { createRunLog, type ProcessPlace, type Recorder } from './worker-runs.ts'

/**
 * Called on a failure, in place of the defaults of every other worker: an error in the log, and a pause of the
 * interval times (failures in a row + 1), at most ten times the interval.
 * @returns the pause before the next round, milliseconds
 */
export type OnError = (error: unknown, failures: number) => number

export type RunningWorker = {
  /** Runs a round now, after the round in progress. Rejects with its error. */
  runNow(): Promise<void>
  /** Ends the pause: the next round begins at once. */
  wake(): void
  /** Stops after the round in progress. */
  stop(): Promise<void>
}

/** The context of the process that does the work of a cluster. */
export type Leadership = {
  readonly session: Session
  /** Aborted when the process stops, or when its session and so the lock is lost. */
  readonly signal: AbortSignal
  /** Times a round of work. If it throws, the work should end: the lock is released, and acquired after a pause. */
  round<Value>(round: () => Promise<Value>): Promise<Value>
  /**
   * Repeats rounds with pauses until the signal is aborted. A wake-up ends a pause; a wake-up during a round has its
   * effect after the round.
   * @param round returns the pause after it, milliseconds; null: the interval of the worker
   */
  repeat(round: () => Promise<number | null>, signal?: AbortSignal): Promise<void>
}

/**
 * Runs the workers of one process. Other processes may run the same workers: concurrent rounds of `per: 'process'`
 * are safe, and work of `per: 'cluster'` runs in one process at a time.
 */
export type Scheduler = {
  /** Repeats a round with pauses, never twice at the same time. The first round comes after a pause. */
  start(
    worker: RepeatedWorker,
    round: () => Promise<void>,
    options?: {
      /** Replaces the declared interval. */
      readonly everyMs?: number | undefined
      readonly onError?: OnError
    },
  ): RunningWorker
  /** The work of the process with the worker's lock. Another process takes over when it ends or loses the lock. */
  lead(
    worker: ClusterWorker,
    work: (leadership: Leadership) => Promise<void>,
    options?: {
      readonly onError?: OnError
      /** The longest silence of Postgres, or of this process, in the session, milliseconds; default 30,000. */
      readonly answerTimeoutMs?: number | undefined
      /** How often a standby process tries to acquire the lock, milliseconds. */
      readonly standbyMs?: number
    },
  ): Pick<RunningWorker, 'wake' | 'stop'>
  /** From now on, workers keep their quiet interval while there is no activity. */
  follow(activity: Activity): void
  /** For a loop outside of this scheduler: the pause before its next round, milliseconds. */
  pauseMs(trigger: RepeatedWorker['trigger']): number
  /** Calls `wake` at the end of a quiet time. Returns the function to unsubscribe. */
  onWake(wake: () => void): () => void
  /** For a worker that other code runs, such as a queue. */
  record(worker: Worker): Recorder
  /** Stops every worker that still runs and writes a last report. */
  stop(): Promise<void>
}

/** Rounds and pauses of one worker, which may have several loops. */
const createPace = () => {
  let wakeUps = 0
  const pauses = new Set<() => void>()
  const wake = (): void => {
    wakeUps += 1
    for (const end of pauses) end()
  }
  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer)
        pauses.delete(end)
        resolve()
      }
      const timer = setTimeout(end, ms)
      pauses.add(end)
    })
  const repeat = async (round: () => Promise<number>, signal: AbortSignal, firstMs = 0): Promise<void> => {
    // A separate listener per loop, because another loop may use the same signal.
    const end = (): void => wake()
    signal.addEventListener('abort', end, { once: true })
    try {
      for (let pauseMs = firstMs; !signal.aborted; ) {
        // Rounds without waits must not block the event loop.
        await (pauseMs > 0 ? pause(pauseMs) : nextTurn())
        if (signal.aborted) return
        const before = wakeUps
        pauseMs = await round()
        if (wakeUps !== before) pauseMs = 0
      }
    } finally {
      signal.removeEventListener('abort', end)
    }
  }
  return { wake, repeat }
}

const defaultRetryMs = 1_000

/** After the last activity of the database, rounds keep their usual interval for this time: work may follow. */
const activeMs = 10_000
const leapCheckMs = 1_000

/**
 * Decides between the usual and the quiet interval of workers. Activity and leaps of the clock end all quiet pauses.
 */
const createQuiet = (clock: Clock) => {
  const listeners = new Set<() => void>()
  let activeUntilMs = performance.now() + activeMs
  const active = (): void => {
    const wasQuiet = performance.now() > activeUntilMs
    activeUntilMs = performance.now() + activeMs
    if (wasQuiet) for (const wake of listeners) wake()
  }
  let unsubscribe: (() => void) | null = null
  let offsetMs = clock() - performance.now()
  const stop = every(leapCheckMs, () => {
    const currentOffsetMs = clock() - performance.now()
    if (Math.abs(currentOffsetMs - offsetMs) > leapCheckMs) active()
    offsetMs = currentOffsetMs
  })
  return {
    /** @returns the pause before the next round of the worker, milliseconds */
    pauseMs: ({ everyMs, quietMs = everyMs }: RepeatedWorker['trigger']): number =>
      unsubscribe !== null && performance.now() > activeUntilMs ? quietMs : everyMs,
    onWake: (wake: () => void): (() => void) => {
      listeners.add(wake)
      return () => listeners.delete(wake)
    },
    follow: (onActivity: Activity): void => {
      unsubscribe = onActivity(active)
    },
    stop: () => {
      unsubscribe?.()
      stop()
    },
  }
}

/** @throws Error from its methods for a worker that is not on the list, so that the list is complete */
export const createScheduler = (dependencies: {
  /** All workers that this process may start. */
  readonly workers: readonly Worker[]
  readonly pool: pg.Pool
  /** The process in `work.worker_runs`. Null for a command, which writes no report. */
  readonly place: ProcessPlace | null
  readonly clock: Clock
  readonly logger: Pick<Logger, 'error' | 'debug'>
}): Scheduler => {
  const { pool, logger, clock } = dependencies
  const quiet = createQuiet(clock)
  const declared = new Map(dependencies.workers.map((worker) => [worker.name, worker]))
  if (declared.size < dependencies.workers.length) throw new Error('two workers have one name')
  const runLog = createRunLog(dependencies)
  const running = new Set<Pick<RunningWorker, 'stop'>>()

  const record = (worker: Worker): Recorder => {
    if (declared.get(worker.name) !== worker)
      throw new Error(`the worker ${worker.name} is not on the list of this process (src/app/worker-list.ts)`)
    return runLog.recorderOf(worker)
  }
  const logAndBackOff =
    ({ name }: Worker, everyMs: number): OnError =>
    (error, failures) => {
      logger.error({ err: error, reactor: name, failures }, 'a reactor failed and will try again')
      return everyMs * Math.min(10, 1 + failures)
    }

  const start: Scheduler['start'] = (worker, round, options = {}) => {
    const trigger = options.everyMs === undefined ? worker.trigger : { everyMs: options.everyMs }
    const { everyMs } = trigger
    const { onError = logAndBackOff(worker, everyMs) } = options
    const runs = record(worker)
    const stopping = new AbortController()
    const { wake, repeat } = createPace()
    let pauseMs = everyMs
    let last: Promise<void> = Promise.resolve()
    const runNow = (): Promise<void> => {
      const next = last.then(() => runs.run(round))
      last = next.then(
        () => {
          pauseMs = quiet.pauseMs(trigger)
        },
        (error) => {
          pauseMs = onError(error, runs.failures())
        },
      )
      return next
    }
    const pacedRound = async (): Promise<number> => {
      await runNow().catch(() => undefined) // `last` handles the error; the loop continues with the next round
      return pauseMs
    }
    void repeat(pacedRound, stopping.signal, everyMs)
    const stopWaking = quiet.onWake(wake)
    const handle = {
      runNow,
      wake,
      stop: async () => {
        stopping.abort()
        stopWaking()
        running.delete(handle)
        await last
      },
    }
    running.add(handle)
    return handle
  }

  const lead: Scheduler['lead'] = (worker, work, options = {}) => {
    const retryMs = 'everyMs' in worker.trigger ? worker.trigger.everyMs : defaultRetryMs
    const { onError = logAndBackOff(worker, retryMs), answerTimeoutMs = sessionAnswerMs, standbyMs } = options
    const runs = record(worker)
    const stopping = new AbortController()
    const { wake, repeat } = createPace()
    const { trigger } = worker
    const pauseMs = (): number => ('everyMs' in trigger ? quiet.pauseMs(trigger) : defaultRetryMs)
    const stopWaking = quiet.onWake(wake)
    const round: Leadership['round'] = async (run) => {
      const value = await runs.timed(run)
      runs.succeeded()
      return value
    }
    const leaderTask = runAsLeader(
      {
        pool,
        applicationName: worker.session,
        lock: worker.lock,
        answerTimeoutMs,
        ...(standbyMs !== undefined && { standbyMs }),
        stop: stopping.signal,
        onError: (error) => {
          runs.failed(error)
          return onError(error, runs.failures())
        },
      },
      async (session, signal) => {
        runs.began()
        const rounds: Leadership['repeat'] = (run, until = signal) =>
          repeat(async () => (await round(run)) ?? pauseMs(), until)
        await work({ session, signal, round, repeat: rounds })
      },
    )
    const handle = {
      wake,
      stop: async () => {
        stopping.abort(new Error(`the worker ${worker.name} stops`))
        stopWaking()
        running.delete(handle)
        await leaderTask
      },
    }
    running.add(handle)
    return handle
  }

  return {
    start,
    lead,
    follow: quiet.follow,
    pauseMs: quiet.pauseMs,
    onWake: quiet.onWake,
    record,
    stop: async () => {
      quiet.stop()
      await Promise.all([...running].map((each) => each.stop()))
      await runLog.stop()
    },
  }
}
