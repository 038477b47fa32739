import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { RepeatedWorker, Worker } from './worker.ts'

/** The rounds of one worker in one process. */
type Runs = {
  /** The start of the last round, milliseconds. If a round is in progress, this is later than `finishedMs`. */
  startedMs: number | null
  finishedMs: number | null
  /** The last failure. Later successes do not clear it. */
  error: string | null
  errorMs: number | null
  /** Failures in a row; 0: the last round succeeded. */
  failures: number
}

/** Records how the rounds of a worker end. */
export type Recorder = {
  /** The number of failures in a row. */
  failures(): number
  /** A round began whose end is not timed, e.g. a round that lasts until the process stops. */
  began(): void
  /** Times a round without recording its outcome. */
  timed<Value>(round: () => Promise<Value>): Promise<Value>
  succeeded(): void
  failed(error: unknown): void
  /** Records a failure that does not end a round, such as one item of many. */
  noted(error: unknown): void
  /** Runs and times a round and records its outcome. Rejects with its error. */
  run<Value>(round: () => Promise<Value>): Promise<Value>
}

const maxErrorChars = 500

/** The message of an error; for an AggregateError also the message of its first error. */
const messageOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  const first = error instanceof AggregateError && error.errors.length > 0 ? messageOf(error.errors[0]) : ''
  return [error.message, first].filter(Boolean).join(': ') || error.name
}

/** An error as one line that Postgres can store. */
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
      // Another round of the same worker may have started in the meantime.
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

export type ProcessPlace = { readonly host: string; readonly pid: number }

/**
 * Writes all workers of a process in one statement. It also deletes processes that did not report for a day, except
 * the process's own rows: a process that was suspended for a day finds them again.
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
/** After two missing reports a process counts as gone. */
const goneAfterMs = 2.5 * reportEveryMs
/** Workers that start to fail or recover are reported at once. Several of them share a report. */
const reportDelayMs = 1_000
/** A stop does not wait longer than this for the database, milliseconds. */
const lastReportMs = 1_000

/** The rounds of the workers of one process, reported to `work.worker_runs`. */
export type RunLog = {
  recorderOf(worker: Worker): Recorder
  /** Writes a last report. */
  stop(): Promise<void>
}

/** @param dependencies.place null: nothing is reported, because this process is not part of the service, e.g. a command */
export const createRunLog = (dependencies: {
  readonly pool: Pick<pg.Pool, 'query'>
  readonly place: ProcessPlace | null
  readonly clock: Clock
  readonly logger: Pick<Logger, 'debug'>
}): RunLog => {
  const { pool, place, clock, logger } = dependencies
  const all = new Map<Worker, Runs>()
  let timer: NodeJS.Timeout | undefined
  let dueMs = Number.POSITIVE_INFINITY
  let lastMs = performance.now() + firstReportMs - reportEveryMs
  let currentReport: Promise<void> | null = null
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
    currentReport = write(false).finally(() => {
      currentReport = null
      plan(lastMs + reportEveryMs)
    })
  }
  const planReport = (): void => {
    const nowMs = performance.now()
    // A change during a report is written by the next report.
    if (currentReport === null) plan(Math.max(nowMs, lastMs + reportDelayMs))
    else void currentReport.then(planReport)
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
      return createRecorder(runs, clock, planReport)
    },
    stop: async () => {
      if (stopped) return
      stopped = true
      clearTimeout(timer)
      const timedOut = Promise.withResolvers<void>()
      const timeout = setTimeout(timedOut.resolve, lastReportMs)
      const last = Promise.resolve(currentReport).then(() => write(true))
      await Promise.race([last, timedOut.promise])
      clearTimeout(timeout)
    },
  }
}

/** The rounds of a worker over all processes that reported within the last day. Times are ISO 8601. */
export type WorkerRuns = {
  /** The number of processes that run it now. */
  readonly processes: number
  /** The start of its newest round. */
  readonly startedAt: string | null
  /** Null while the round is in progress. */
  readonly finishedAt: string | null
  readonly host: string
  readonly pid: number
  /** Failures in a row; 0: the newest round succeeded. */
  readonly failures: number
  /** The newest error of any process. */
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

/** The rounds by worker name, without workers that never ran. Rows of the future are no reports of a process. */
export const readWorkerRuns = async (
  pool: Pick<pg.Pool, 'query'>,
  nowMs: number,
): Promise<ReadonlyMap<string, WorkerRuns>> => {
  const { rows } = await pool.query<Row>(
    `select name, host, pid, started_at, finished_at, error, error_at, failures,
            not ended and reported_at > clock_timestamp() - make_interval(secs => $1::float8) as runs
       from work.worker_runs
      where reported_at < clock_timestamp() + interval '1 minute'
        and coalesce(greatest(started_at, finished_at, error_at) < $2::timestamptz + interval '1 minute', true)
      order by started_at desc nulls last, reported_at desc`,
    [goneAfterMs / 1_000, isoTime(nowMs)],
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

/** A worker that has not run for much longer than its interval. */
export type StalledWorker = {
  readonly name: string
  /** When its newest round began or ended, ISO 8601. */
  readonly since: string
}

/** Ten intervals cover the pauses after failures. Five minutes cover the delay of the reports and a busy machine. */
const stalledAfterMs = ({ everyMs, quietMs = everyMs }: RepeatedWorker['trigger']): number =>
  10 * quietMs + 5 * 60_000

/**
 * The workers that ran within the last day in a process that still reports, and run no more: their loop hangs, or
 * another session has the lock of a worker that runs once per cluster. Workers without an interval are left out: what
 * they wait for says when they are late. A worker that runs only `while` something is true counts only if a round does
 * not end. Processes that do not report are in `readSilentProcesses`.
 */
export const readStalledWorkers = async (
  pool: Pick<pg.Pool, 'query'>,
  workers: readonly Worker[],
  nowMs: number,
): Promise<readonly StalledWorker[]> => {
  const runsByName = await readWorkerRuns(pool, nowMs)
  return workers.flatMap(({ name, trigger }): StalledWorker[] => {
    const runs = runsByName.get(name)
    if (!('everyMs' in trigger) || runs === undefined || runs.processes === 0) return []
    // A leader that works until it stops has no end.
    if (runs.startedAt === null || runs.finishedAt === null) return []
    const isBetweenRounds = runs.finishedAt >= runs.startedAt
    if (isBetweenRounds && trigger.while !== undefined) return []
    const since = isBetweenRounds ? runs.finishedAt : runs.startedAt
    return nowMs - Date.parse(since) > stalledAfterMs(trigger) ? [{ name, since }] : []
  })
}

/** The kinds of process that worked within the last day, and of which none reports now although none ended regularly. */
export const readSilentProcesses = async (
  pool: Pick<pg.Pool, 'query'>,
): Promise<readonly { readonly process: Worker['process']; readonly since: string }[]> => {
  const { rows } = await pool.query<{ process: Worker['process']; since: string }>(
    `select process, max(reported_at) as since from work.worker_runs
      where reported_at < clock_timestamp() + interval '1 minute'
      group by process
     having max(reported_at) < clock_timestamp() - make_interval(secs => $1::float8)
        and not (array_agg(ended order by reported_at desc))[1]
      order by process`,
    [goneAfterMs / 1_000],
  )
  return rows
}

/** The stalled workers and the silent processes as a message; null: none. */
export const readWorkerProblem = async (
  pool: Pick<pg.Pool, 'query'>,
  workers: readonly Worker[],
  nowMs: number,
): Promise<string | null> => {
  const problems = [
    ...(await readSilentProcesses(pool)).map(
      ({ process, since }) => `no process with the workers of the ${process} has reported since ${since}`,
    ),
    ...(await readStalledWorkers(pool, workers, nowMs)).map(
      ({ name, since }) => `the worker ${name} has not run since ${since}`,
    ),
  ]
  return problems.length === 0 ? null : problems.join('; ')
}
