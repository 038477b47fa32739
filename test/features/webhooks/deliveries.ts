import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type pg from 'pg'
import type { Logger } from 'pino'
import { createNotices } from '../../../src/features/notices/notice-service.ts'
import { startDeliveryWorker } from '../../../src/features/webhooks/deliver.ts'
import { createWebhooks } from '../../../src/features/webhooks/endpoint-service.ts'
import type { EnqueuerDependencies } from '../../../src/features/webhooks/enqueue.ts'
import type { DeliveryResult } from '../../../src/features/webhooks/settle.ts'
import { onWebhooks, startEnqueuer } from '../../../src/features/webhooks/start-webhooks.ts'
import { createSender, type SenderOptions } from '../../../src/features/webhooks/webhook-sender.ts'
import { createWebhookValues } from '../../../src/features/webhooks/webhook-vault.ts'
import type { Clock } from '../../../src/kernel/clock.ts'
import { type AccountId, newId } from '../../../src/kernel/ids.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { createResolve } from '../../../src/platform/outgoing/target.ts'
import { createVault } from '../../../src/platform/vault/seal.ts'
import type { QueueLimits } from '../../../src/platform/work/queue.ts'
import type { WorkMetrics } from '../../../src/platform/work/queue-table.ts'
import { createWorkers } from '../../../src/platform/work/queue-workers.ts'
import { openLog } from '../../platform/eventstore/open-postgres.ts'
import { type Customer, done } from '../../support/app-actions.ts'
import { operator } from '../../support/operator.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { logInPostgres } from '../../support/service-env.ts'
import type { TestApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

export const path = '/api/v1/webhooks'

export type Sending = {
  readonly pool?: pg.Pool
  readonly log?: EventLog
  readonly logger?: Logger
  readonly clock?: Clock
  readonly random?: () => number
  readonly sender?: Partial<SenderOptions>
  readonly limits?: Partial<QueueLimits>
  readonly onEnqueued?: EnqueuerDependencies['onEnqueued']
  readonly onAttempt?: (result: DeliveryResult) => void
  readonly metrics?: WorkMetrics
}

export const valuesOf = (app: TestApp) => {
  const { core } = app
  return createWebhookValues({ pool: core.pool, vault: createVault(core.keys.master) })
}

/** The service's log refuses events of its future: senders with their own clock have their own log. */
const logOf = (t: TestContext, app: TestApp, { log, clock }: Sending): EventLog => {
  const { core } = app
  if (log !== undefined || clock === undefined || !logInPostgres) return log ?? core.log
  const own = openLog(core.postgresUrl)
  t.after(async () => (await own).close())
  return { ...core.log, appendAll: async (items) => (await own).appendAll(items) }
}

/** The enqueuer only: deliveries stay in the queue. */
export const startReactor = (t: TestContext, app: TestApp, sending: Sending = {}) => {
  const { core, projecting } = app.farebox
  const reactor = startEnqueuer({
    scheduler: testScheduler({ pool: core.pool }),
    pool: sending.pool ?? core.pool,
    log: logOf(t, app, sending),
    clock: sending.clock ?? core.clock,
    logger: sending.logger ?? core.logger,
    onEnqueued: sending.onEnqueued,
  })
  t.after(onWebhooks(projecting.progress, { due: [reactor.wake], queued: [reactor.wake] }))
  t.after(() => reactor.stop())
  return reactor
}

/** A worker alone. */
export const startWorker = (t: TestContext, app: TestApp, sending: Sending = {}) => {
  const { core } = app
  const values = valuesOf(app)
  const webhooks = createWebhooks({ runner: core.runner, values })
  const sender = createSender({
    resolve: createResolve(),
    rules: { allowLoopback: true },
    ...sending.sender,
  })
  const clock = sending.clock ?? core.clock
  const workers = createWorkers({
    scheduler: testScheduler(),
    pool: core.pool,
    clock,
    monotonicMs: () => performance.now(),
    logger: core.logger,
    ...(sending.metrics && { metrics: sending.metrics }),
  })
  const worker = startDeliveryWorker({
    workers,
    pool: core.pool,
    log: logOf(t, app, sending),
    values,
    sender,
    clock,
    monotonicMs: () => performance.now(),
    random: sending.random ?? (() => 0.5),
    logger: core.logger,
    onDead: ({ account_id, endpoint_id, delivery_id }, why) =>
      webhooks.disable({ accountId: account_id as AccountId, endpointId: endpoint_id }, why, {
        actor: { kind: 'system', name: 'webhooks' },
        correlationId: delivery_id,
      }),
    ...(sending.limits && { limits: sending.limits }),
    ...(sending.onAttempt && { onAttempt: sending.onAttempt }),
  })
  let stopped: Promise<void> | null = null
  const stop = (): Promise<void> => {
    stopped ??= worker
      .stop()
      .then(() => workers.stop())
      .then(() => sender.close())
    return stopped
  }
  t.after(stop)
  return { ...worker, stop }
}

export type Hook = {
  readonly id: string
  readonly secret: string
  readonly key: string
  readonly accountId: string
}

/** A new customer with one endpoint. */
export const hookTo = async (
  app: Pick<TestApp, 'client' | 'customer'>,
  url: string,
  events: readonly string[] = ['ping'],
  customer?: Pick<Customer, 'key' | 'accountId'>,
): Promise<Hook> => {
  const { key, accountId } = customer ?? (await app.customer({ cents: 0 }))
  const made = await done(app.client.post(path, { url, events }, { key }))
  return { id: made.body.id, secret: made.body.secret, key, accountId }
}

export const ping = async (app: TestApp, { id, key }: Hook): Promise<string> =>
  (await done(app.client.post(`${path}/${id}/test`, undefined, { key }))).body.deliveryId

/** Publishes a notice and gives its id. */
export const publish = async (
  app: TestApp,
  audience: 'ALL' | 'PARTNERS' | 'DEVELOPERS' | 'CUSTOMERS',
): Promise<string> => {
  const noticeId = newId<string>('ntc')
  const published = await createNotices(app.core).publish(
    {
      noticeId,
      title: 'Maintenance',
      body: 'On Sunday.',
      kind: 'MAINTENANCE',
      audience,
      expiresAt: null,
      linkHref: null,
      linkLabel: null,
    },
    operator,
  )
  assert.equal(published.outcome, 'done')
  return noticeId
}

export type Delivery = {
  readonly id: string
  readonly event: string
  readonly resource: string
  readonly status: string
  readonly createdAt: string
  readonly nextAttemptAt: string | null
  readonly finishedAt: string | null
  readonly attempts: readonly {
    readonly round: number
    readonly attempt: number
    readonly at: string
    readonly status: number | null
    readonly error: string | null
    readonly answer: string
    readonly latencyMs: number
  }[]
}

export const deliveriesOf = async (app: TestApp, { id, key }: Hook): Promise<readonly Delivery[]> =>
  (await done(app.client.get(`${path}/${id}/deliveries?limit=100`, { key }))).body.deliveries

/** Waits until the delivery fits. */
export const untilDelivery = (
  app: TestApp,
  hook: Hook,
  deliveryId: string,
  fits: (delivery: Delivery) => boolean,
): Promise<Delivery> =>
  until(async () => (await deliveriesOf(app, hook)).find((one) => one.id === deliveryId && fits(one)), {
    timeoutMs: 30_000,
    what: `the delivery ${deliveryId}`,
  })

/** The events of the streams of one kind, in log order. */
export const eventsOf = async (log: EventLog, prefix: string) => {
  const events: { stream: string; type: string; data: unknown; position: number }[] = []
  for (let after = 0; ; ) {
    const page = await log.readAll(after, 1_000)
    if (page.length === 0) return events
    for (const { stream, type, data, position } of page)
      if (stream.startsWith(prefix)) events.push({ stream, type, data: JSON.parse(data), position })
    after = page.at(-1)!.position
  }
}
