import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Worker } from './worker.ts'

/** What one process knows of one worker's rounds. */
type Runs = {
  /** Of the last round, milliseconds; a round that is under way ends after this. */
  startedMs: number | null
  finishedMs: number | null
  /** The last failure, which later successes leave standing. */
  error: string | null
  errorMs: number | null
  /** In a row. 0: the last round succeeded. */
  failures: number
}

/** Notes how the rounds of a worker end. */
export type Recorder = {
  /** How often it failed in a row. */
  failures(): number
  /** A round began whose end is not timed, such as one that lasts until the process stops. */
  began(): void
  /** Times a round, and says nothing of how it ended. */
  timed<Value>(round: () => Promise<Value>): Promise<Value>
  succeeded(): void
  failed(error: unknown): void
  /** Something failed that ends no round, such as one item of many. */
  noted(error: unknown): void
  /** A round, timed, with its outcome; rejects with what it throws. */
  run<Value>(round: () => Promise<Value>): Promise<Value>
}

const maxErrorChars = 500

/** The message of an error; of several errors, also that of the first. */
const messageOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  const first = error instanceof AggregateError && error.errors.length > 0 ? messageOf(error.errors[0]) : ''
  return [error.message, first].filter(Boolean).join(': ') || error.name
}

/** One line that Postgres can store. */
const errorText = (error: unknown): string => {
  const words = messageOf(error)
    .slice(0, maxErrorChars)
    .split(/[\0\s]+/)
  return words.join(' ').trim().toWellFormed()
}

const createRecorder = (runs: Runs, clock: Clock, onTurn: () => void): Recorder => {
  const noted = (error: unknown): void => {
    runs.error = errorText(error)
    runs.errorMs = clock()
  }
  const succeeded = (): void => {
    if (runs.failures > 0) onTurn()
    runs.failures = 0
  }
  const failed = (error: unknown): void => {
    noted(error)
    runs.failures += 1
    if (runs.failures === 1) onTurn()
  }
  const timed: Recorder['timed'] = async (round) => {
    const startedMs = clock()
    runs.startedMs = startedMs
    try {
      return await round()
    } finally {
      // Another round of the same worker may have begun meanwhile.
      runs.startedMs = startedMs
      runs.finishedMs = clock()
    }
  }
  return {
    failures: () => runs.failures,
    began: () => {
      runs.startedMs = clock()
      runs.finishedMs = null
    },
    timed,
    succeeded,
    failed,
    noted,
    run: async (round) => {
      try {
        const value = await timed(round)
        succeeded()
        return value
      } catch (error) {
        failed(error)
        throw error
      }
    },
  }
}

/** Where a process runs. */
export type ProcessPlace = { readonly host: string; readonly pid: number }

/**
 * All workers of a process in one statement, which also forgets processes that have been gone for a day. The process's own
 * rows are left out of that: one that stood still for a day finds them again.
 */
const report = async (
  pool: Pick<pg.Pool, 'query'>,
  { host, pid }: ProcessPlace,
  runs: readonly (readonly [Worker, Runs])[],
  ended: boolean,
): Promise<void> => {
  const of = <Value>(pick: (runs: Runs, worker: Worker) => Value): readonly Value[] =>
    runs.map(([worker, run]) => pick(run, worker))
  const time = (ms: number | null): string | null => (ms === null ? null : isoTime(ms))
  await pool.query({
    name: 'report-worker-runs',
    text: `with gone as (
             delete from work.worker_runs
              where reported_at < clock_timestamp() - interval '1 day'
                and (host, pid) <> ($1::text, $2::integer)
           )
           insert into work.worker_runs as known
             (host, pid, name, process, started_at, finished_at, error, error_at, failures, ended, reported_at)
           select $1::text, $2::integer, r.*, $3::boolean, statement_timestamp()
             from unnest($4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[], $8::text[],
                    $9::timestamptz[], $10::integer[]) r
           on conflict (name, host, pid) do update
             set process = excluded.process, started_at = excluded.started_at, finished_at = excluded.finished_at,
                 error = excluded.error, error_at = excluded.error_at, failures = excluded.failures,
                 ended = excluded.ended, reported_at = excluded.reported_at`,
    values: [
      host,
      pid,
      ended,
      of((_, { name }) => name),
      of((_, { process }) => process),
      of(({ startedMs }) => time(startedMs)),
      of(({ finishedMs }) => time(finishedMs)),
      of(({ error }) => error),
      of(({ errorMs }) => time(errorMs)),
      of(({ failures }) => failures),
    ],
  })
}

const firstReportMs = 5_000
const reportEveryMs = 60_000
/** Workers that begin to fail, or work again, are told of at once; many at a time together. */
const gatherMs = 1_000
/** A database that does not answer must not hold up a stop. */
const lastReportMs = 1_000

/** The rounds of the workers of one process, told to `work.worker_runs`. */
export type RunLog = {
  recorderOf(worker: Worker): Recorder
  /** Reports a last time. */
  stop(): Promise<void>
}

/** @param deps.place null: nothing is reported, for this process is none of the service, such as a command */
export const createRunLog = (deps: {
  readonly pool: Pick<pg.Pool, 'query'>
  readonly place: ProcessPlace | null
  readonly clock: Clock
  readonly logger: Pick<Logger, 'debug'>
}): RunLog => {
  const { pool, place, clock, logger } = deps
  const all = new Map<Worker, Runs>()
  let timer: NodeJS.Timeout | undefined
  let dueMs = Number.POSITIVE_INFINITY
  let lastMs = performance.now() + firstReportMs - reportEveryMs
  let reporting: Promise<void> | null = null
  let stopped = false

  const write = async (ended: boolean): Promise<void> => {
    const known = [...all].filter(([, { startedMs, error }]) => startedMs !== null || error !== null)
    if (place === null || known.length === 0) return
    await report(pool, place, known, ended).catch((err) =>
      logger.debug({ err }, 'the runs of workers could not be written'),
    )
  }
  const plan = (atMs: number): void => {
    if (stopped || place === null || atMs >= dueMs) return
    dueMs = atMs
    clearTimeout(timer)
    timer = setTimeout(reportNow, Math.max(0, atMs - performance.now()))
    timer.unref()
  }
  const reportNow = (): void => {
    dueMs = Number.POSITIVE_INFINITY
    lastMs = performance.now()
    reporting = write(false).finally(() => {
      reporting = null
      plan(lastMs + reportEveryMs)
    })
  }
  const turned = (): void => {
    const nowMs = performance.now()
    // What comes while one is on its way is told by the next.
    if (reporting === null) plan(Math.max(nowMs, lastMs + gatherMs))
    else void reporting.then(turned)
  }

  return {
    recorderOf: (worker) => {
      const runs = all.get(worker) ?? {
        startedMs: null,
        finishedMs: null,
        error: null,
        errorMs: null,
        failures: 0,
      }
      all.set(worker, runs)
      plan(lastMs + reportEveryMs)
      return createRecorder(runs, clock, turned)
    },
    stop: async () => {
      if (stopped) return
      stopped = true
      clearTimeout(timer)
      const over = Promise.withResolvers<void>()
      const late = setTimeout(over.resolve, lastReportMs)
      const last = Promise.resolve(reporting).then(() => write(true))
      await Promise.race([last, over.promise])
      clearTimeout(late)
    },
  }
}

/** The rounds of a worker over all processes that told of them in the last day. Instants are ISO 8601. */
export type WorkerRuns = {
  /** Processes that run it now. */
  readonly processes: number
  /** Of its newest round. */
  readonly startedAt: string | null
  /** Null while it is under way. */
  readonly finishedAt: string | null
  readonly host: string
  readonly pid: number
  /** In a row; 0: the newest round succeeded. */
  readonly failures: number
  /** The newest one of any process. */
  readonly lastError: { readonly message: string; readonly at: string } | null
}

type Row = {
  readonly name: string
  readonly host: string
  readonly pid: number
  readonly started_at: string | null
  readonly finished_at: string | null
  readonly error: string | null
  readonly error_at: string | null
  readonly failures: number
  readonly runs: boolean
}

/** By the names of workers; without those that never ran. */
export const readWorkerRuns = async (
  pool: Pick<pg.Pool, 'query'>,
): Promise<ReadonlyMap<string, WorkerRuns>> => {
  const { rows } = await pool.query<Row>(
    // Two reports that are missing say that a process is gone.
    `select name, host, pid, started_at, finished_at, error, error_at, failures,
            not ended and reported_at > clock_timestamp() - make_interval(secs => $1::float8) as runs
       from work.worker_runs order by started_at desc nulls last, reported_at desc`,
    [(2.5 * reportEveryMs) / 1_000],
  )
  return new Map(
    [...Map.groupBy(rows, ({ name }) => name)].map(([name, ofWorker]) => {
      const newest = ofWorker[0]!
      const failed = ofWorker.toSorted((a, b) => (b.error_at ?? '').localeCompare(a.error_at ?? ''))[0]!
      const { host, pid, started_at: startedAt, finished_at: finishedAt, failures } = newest
      const { error: message, error_at: at } = failed
      const lastError = message === null || at === null ? null : { message, at }
      const processes = ofWorker.filter(({ runs }) => runs).length
      return [name, { processes, startedAt, finishedAt, host, pid, failures, lastError }]
    }),
  )
}
