import type pg from 'pg'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Clock } from '../kernel/clock.ts'
import type { RunnerMetrics } from '../platform/commands/command.ts'
import type { RunnerHealth } from '../platform/commands/command-runner.ts'
import { registerGauge, sharedPerScrape } from '../platform/http/gauges.ts'
import { readStoppedModels } from '../platform/projections/checkpoint.ts'
import type { GroupLag, ProjectionRunner } from '../platform/projections/projection-runner.ts'
import { type Depth, depthOf, type QueueDelay } from '../platform/work/queue-operations.ts'
import type { WorkMetrics } from '../platform/work/queue-table.ts'
import { readStalledWorkers } from '../platform/work/worker-runs.ts'
import { queues, readDelays } from './queues.ts'
import { allWorkers } from './worker-list.ts'

export const createRegistry = (): Registry => new Registry()

/** Metrics of the command runner: batches, conflicts, rejected commands. */
export const createRunnerMetrics = (registry: Registry): RunnerMetrics => {
  const registers = [registry]
  const size = new Histogram({
    name: 'farebox_append_batch_commands',
    help: 'Commands written by one append.',
    buckets: [1, 2, 5, 10, 20, 50, 100, 200],
    registers,
  })
  const duration = new Histogram({
    name: 'farebox_append_batch_duration_seconds',
    help: 'From sending an append to its outcome.',
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
    registers,
  })
  const events = new Counter({
    name: 'farebox_events_appended_total',
    help: 'Events sent to the log.',
    registers,
  })
  const conflicts = new Counter({
    name: 'farebox_append_conflicts_total',
    help: 'Decisions that another process forestalled; they are decided again.',
    registers,
  })
  const overloads = new Counter({
    name: 'farebox_commands_refused_total',
    help: 'Commands answered with 503, by reason.',
    labelNames: ['reason'] as const,
    registers,
  })
  return {
    onBatch: (batch) => {
      size.observe(batch.commands)
      duration.observe(batch.ms / 1000)
      events.inc(batch.events)
    },
    onConflict: () => conflicts.inc(),
    onOverload: (reason) => overloads.inc({ reason }),
  }
}

/** Scrape-time gauges: command queue, connection pool, lag of the projections. */
export const registerGauges = (
  registry: Registry,
  parts: {
    readonly runner: RunnerHealth
    readonly pool: pg.Pool
    readonly probing: { readonly pool: pg.Pool }
    readonly projections: Pick<ProjectionRunner, 'lag'>
  },
): void => {
  const { runner, pool, probing, projections } = parts
  const gauges = [
    ['farebox_commands_waiting', 'Commands that wait to be decided.', runner.queueLength],
    ['farebox_commands_frozen', 'Appends whose outcome is not known yet.', runner.unknownOutcomes],
    ['farebox_streams_cached', 'Streams with a cached state.', runner.cachedStreams],
    ['farebox_pool_connections', 'Connections to Postgres of the shared pool.', () => pool.totalCount],
    ['farebox_pool_idle', 'Idle connections of the shared pool.', () => pool.idleCount],
    ['farebox_pool_waiting', 'Queries that wait for a connection.', () => pool.waitingCount],
  ] as const
  for (const [name, help, read] of gauges) registerGauge(registry, { name, help, read })
  const lags = sharedPerScrape(projections.lag)
  const stoppedModels = sharedPerScrape(() => readStoppedModels(probing.pool))
  const lagGauge = (name: string, help: string, read: (lag: GroupLag) => number): void => {
    new Gauge({
      name,
      help,
      labelNames: ['group'] as const,
      registers: [registry],
      async collect() {
        this.reset()
        for (const lag of (await lags()) ?? []) this.set({ group: lag.group }, read(lag))
      },
    })
  }
  new Gauge({
    name: 'farebox_read_model_stopped',
    help: '1 for each read model that cannot apply an event: requests that need it are answered 503.',
    labelNames: ['group', 'model'] as const,
    registers: [registry],
    async collect() {
      this.reset()
      for (const { group, model } of (await stoppedModels()) ?? []) this.set({ group, model }, 1)
    },
  })
  lagGauge(
    'farebox_projection_lag_positions',
    'How far a group of read models is behind the head of the log, in positions.',
    ({ positions }) => positions,
  )
  lagGauge(
    'farebox_projection_lag_seconds',
    'The age of the first event that a group has not folded.',
    ({ seconds }) => seconds,
  )
}

/** Metrics of the work queues, by `queue`: waiting items, their delay, and the outcomes of attempts. */
export const createWorkMetrics = (
  registry: Registry,
  { pool, clock }: { readonly pool: pg.Pool; readonly clock: Clock },
): WorkMetrics => {
  const registers = [registry]
  const depths = sharedPerScrape(async () => {
    const measuredDepths: Depth[] = []
    for (const queue of queues) measuredDepths.push(await depthOf(pool, queue, clock()))
    return measuredDepths
  })
  new Gauge({
    name: 'farebox_queue_items',
    help: 'Items of a queue: waiting (not over yet), due (of these, to be worked on now), dead (given up).',
    labelNames: ['queue', 'state'] as const,
    registers,
    async collect() {
      this.reset()
      for (const { queue, waiting, due, dead } of (await depths()) ?? [])
        for (const [state, count] of Object.entries({ waiting, due, dead })) this.set({ queue, state }, count)
    },
  })
  new Gauge({
    name: 'farebox_queue_oldest_due_seconds',
    help: 'How long the oldest item that is due has waited.',
    labelNames: ['queue'] as const,
    registers,
    async collect() {
      this.reset()
      for (const { queue, oldestDueAt } of (await depths()) ?? []) {
        const ms = oldestDueAt === null ? 0 : clock() - Date.parse(oldestDueAt)
        this.set({ queue }, Math.max(0, ms) / 1000)
      }
    },
  })
  const delays = sharedPerScrape(() => readDelays(pool))
  const delayGauge = (name: string, help: string, read: (delay: QueueDelay) => number): void => {
    new Gauge({
      name,
      help,
      labelNames: ['queue'] as const,
      registers,
      async collect() {
        this.reset()
        for (const delay of (await delays()) ?? []) this.set({ queue: delay.queue }, read(delay))
      },
    })
  }
  delayGauge(
    'farebox_queue_overdue',
    'Items that wait and were due more than five minutes ago, by the clock of Postgres.',
    ({ overdue }) => overdue,
  )
  delayGauge(
    'farebox_queue_stuck',
    '1 while a queue has overdue items and finished none since the oldest of them was due.',
    ({ stuck }) => (stuck ? 1 : 0),
  )
  delayGauge(
    'farebox_queue_failing',
    'Items that wait, were tried three times or more, and failed the last time.',
    ({ failing }) => failing,
  )
  const stalled = sharedPerScrape(() => readStalledWorkers(pool, allWorkers, clock()))
  new Gauge({
    name: 'farebox_workers_stalled',
    help: 'Workers that have not run for much longer than their interval. "farebox workers" lists all.',
    registers,
    async collect() {
      const found = await stalled()
      if (found === null) this.remove()
      else this.set(found.length)
    },
  })
  const inFlight = new Map<string, () => number>()
  new Gauge({
    name: 'farebox_queue_in_flight',
    help: 'Items that this process works on now.',
    labelNames: ['queue'] as const,
    registers,
    collect() {
      for (const [queue, count] of inFlight) this.set({ queue }, count())
    },
  })
  const attemptsTotal = new Counter({
    name: 'farebox_queue_attempts_total',
    help: 'Attempts of this process by what followed: done, again (tried again later), dead (given up).',
    labelNames: ['queue', 'outcome'] as const,
    registers,
  })
  for (const { name: queue } of queues)
    for (const outcome of ['done', 'again', 'dead'] as const) attemptsTotal.inc({ queue, outcome }, 0)
  return {
    running: (queue, count) => void inFlight.set(queue, count),
    ended: (queue, outcome) => attemptsTotal.inc({ queue, outcome }),
  }
}
