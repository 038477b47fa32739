import type pg from 'pg'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { GroupLag, ProjectionRunner } from '../../projections/engine/runner.ts'
import type { RunnerMetrics } from '../platform/eventstore/commands/ports.ts'
import type { RunnerHealth } from '../platform/eventstore/commands/runner.ts'
import { asked } from '../platform/http/asked-gauges.ts'
import { registerGauge } from '../platform/http/runtime-metrics.ts'

export const createRegistry = (): Registry => new Registry()

/** What the command runner measures: batches, conflicts, commands turned away. */
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

/** Gauges that are read when they are scraped: queues, the pool, how far the projections are behind. */
export const registerGauges = (
  registry: Registry,
  parts: {
    readonly runner: RunnerHealth
    readonly pool: pg.Pool
    readonly projections: Pick<ProjectionRunner, 'lag'>
  },
): void => {
  const { runner, pool, projections } = parts
  const gauges = [
    ['farebox_commands_waiting', 'Commands that wait to be decided.', runner.queueLength],
    ['farebox_commands_frozen', 'Appends whose outcome is not known yet.', runner.frozen],
    ['farebox_streams_cached', 'Streams whose state is kept in memory.', runner.cachedStreams],
    ['farebox_pool_connections', 'Connections to Postgres of the shared pool.', () => pool.totalCount],
    ['farebox_pool_idle', 'Connections of the shared pool that nobody uses.', () => pool.idleCount],
    ['farebox_pool_waiting', 'Queries that wait for a connection.', () => pool.waitingCount],
  ] as const
  for (const [name, help, read] of gauges) registerGauge(registry, { name, help, read })
  const lags = asked(projections.lag)
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
