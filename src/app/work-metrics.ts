import type pg from 'pg'
import { Counter, Gauge, type Registry } from 'prom-client'
import type { Clock } from '../kernel/clock.ts'
import { asked } from '../platform/http/asked-gauges.ts'
import type { WorkMetrics } from '../platform/work/queue/metrics.ts'
import { type Depth, depthOf } from '../platform/work/queue/operate.ts'
import { queues } from './queues.ts'

/** What the queues measure, by `queue`: how much waits, for how long, and what became of the rest. */
export const createWorkMetrics = (
  registry: Registry,
  { pool, clock }: { readonly pool: pg.Pool; readonly clock: Clock },
): WorkMetrics => {
  const registers = [registry]
  const depths = asked(async () => {
    const found: Depth[] = []
    for (const queue of queues) found.push(await depthOf(pool, queue, clock()))
    return found
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
  const ended = new Counter({
    name: 'farebox_queue_attempts_total',
    help: 'Attempts of this process by what followed: done, again (tried again later), dead (given up).',
    labelNames: ['queue', 'outcome'] as const,
    registers,
  })
  for (const { name: queue } of queues)
    for (const outcome of ['done', 'again', 'dead'] as const) ended.inc({ queue, outcome }, 0)
  return {
    running: (queue, count) => void inFlight.set(queue, count),
    ended: (queue, outcome) => ended.inc({ queue, outcome }),
  }
}
