import type pg from 'pg'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { sharedPerScrape } from '../../platform/http/gauges.ts'
import { enqueueProgressSql } from './enqueue.ts'
import { isSubscribedSql } from './fan-out.ts'
import type { DeliveryResult } from './settle.ts'

/** Outcomes of an attempt: acknowledged, retried, given up after the tenth, or 410 Gone. */
const outcomes = ['acknowledged', 'retry', 'exhausted', 'gone'] as const
type AttemptOutcome = (typeof outcomes)[number]

const outcomeOf = ({ next }: DeliveryResult): AttemptOutcome => {
  if ('dueMs' in next) return 'retry'
  if (next.outcome.type === 'DeliverySucceeded') return 'acknowledged'
  return next.outcome.type === 'DeliveryAbandoned' && next.outcome.data.reason === 'gone'
    ? 'gone'
    : 'exhausted'
}

type EndpointCounts = {
  readonly announcing: number
  readonly active: number
  readonly disabled: number
  readonly gone: number
  readonly failing: number
}

/** One statement for all gauges: the first gauge of a scrape runs it and the others share its result. */
const readEndpointCounts = async (pool: pg.Pool): Promise<EndpointCounts> => {
  const { rows } = await pool.query<EndpointCounts>({
    name: 'webhooks-endpoint-counts',
    text: `select (select count(*) from read.webhook_announcements n
                     cross join (${enqueueProgressSql}) w
                     join read.webhook_subscriptions e
                       on e.endpoint_id > case when n.position = w.position then coalesce(w.endpoint, '') else '' end
                    where ${isSubscribedSql} and (n.position > w.position
                       or n.position = w.position and w.endpoint is not null)) as announcing,
                  e.active, e.disabled, e.gone, e.failing
             from (select count(*) filter (where status = 'active') as active,
                          count(*) filter (where status = 'disabled' and disabled_reason is null) as disabled,
                          count(*) filter (where disabled_reason = 'gone') as gone,
                          count(*) filter (where disabled_reason = 'failing') as failing
                     from read.webhook_endpoints) e`,
  })
  return rows[0]!
}

/** Scrapes by several collectors within this time share a result, milliseconds. */
const sharedMs = 1_000

const memo = <Value>(read: () => Promise<Value>, monotonicMs: MonotonicClock): (() => Promise<Value>) => {
  let last: { readonly atMs: number; readonly value: Promise<Value> } | null = null
  return () => {
    const nowMs = monotonicMs()
    if (last === null || nowMs - last.atMs > sharedMs) last = { atMs: nowMs, value: read() }
    return last.value
  }
}

export type WebhookMetrics = { onAttempt(result: DeliveryResult): void }

/** Metrics of webhooks. Label values are constants of this file, never an endpoint, account or event. */
export const createWebhookMetrics = (
  registry: Registry,
  parts: { readonly pool: pg.Pool; readonly monotonicMs: MonotonicClock },
): WebhookMetrics => {
  const { pool, monotonicMs } = parts
  const registers = [registry]
  const readCounts = memo(
    sharedPerScrape(() => readEndpointCounts(pool)),
    monotonicMs,
  )
  const gauge = (name: string, help: string, read: (counts: EndpointCounts) => number): void => {
    new Gauge({
      name,
      help,
      registers,
      async collect() {
        const counts = await readCounts()
        if (counts === null) this.remove()
        else this.set(read(counts))
      },
    })
  }
  gauge(
    'farebox_webhook_fan_out_targets',
    'Endpoints that a notice is still to be enqueued for.',
    ({ announcing }) => announcing,
  )
  new Gauge({
    name: 'farebox_webhook_endpoints',
    help: 'Endpoints: active, disabled by their owners, gone since the receiver answered 410, or disabled since they failed for days.',
    labelNames: ['status'] as const,
    registers,
    async collect() {
      const counts = await readCounts()
      this.reset()
      if (counts === null) return
      const { active, disabled, gone, failing } = counts
      for (const [status, count] of Object.entries({ active, disabled, gone, failing }))
        this.set({ status }, count)
    },
  })
  const attempts = new Counter({
    name: 'farebox_webhook_attempts_total',
    help: 'Attempts of this process by what followed.',
    labelNames: ['outcome'] as const,
    registers,
  })
  for (const outcome of outcomes) attempts.inc({ outcome }, 0)
  const latency = new Histogram({
    name: 'farebox_webhook_attempt_duration_seconds',
    help: 'From the look-up of the name to the end of the answer, or to giving up.',
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers,
  })
  return {
    onAttempt: (result) => {
      if (result.attempt === null) return
      attempts.inc({ outcome: outcomeOf(result) })
      latency.observe(result.attempt.latencyMs / 1000)
    },
  }
}
