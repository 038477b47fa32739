import { randomBytes } from 'node:crypto'
import { readConfig } from '../../src/app/config.ts'
import { openFarebox } from '../../src/app/start.ts'
import { startDeliveryWorker } from '../../src/features/webhooks/deliver.ts'
import { createWebhooks } from '../../src/features/webhooks/endpoint-service.ts'
import { deliveryIdOf } from '../../src/features/webhooks/enqueue.ts'
import { onWebhooks } from '../../src/features/webhooks/start-webhooks.ts'
import { createSender } from '../../src/features/webhooks/webhook-sender.ts'
import { createWebhookValues } from '../../src/features/webhooks/webhook-vault.ts'
import { type AccountId, newEventId, newId } from '../../src/kernel/ids.ts'
import { deliveryStream } from '../../src/kernel/streams.ts'
import { encode } from '../../src/platform/eventstore/codec.ts'
import type { AppendItem } from '../../src/platform/eventstore/port.ts'
import { createLogger } from '../../src/platform/http/logging.ts'
import { createVault } from '../../src/platform/vault/seal.ts'
import { createWorkers } from '../../src/platform/work/queue-workers.ts'
import { payloadOf, type SendJob, serveContender, urlOf } from './contender.ts'

const cause = { actor: { kind: 'system', name: 'bench' }, correlationId: 'bench' } as const

/** The whole way: events in the log, the queue, read models that are passed, outcomes in the log. */
const open = async (job: SendJob) => {
  const config = readConfig({
    DATABASE_URL: job.databaseUrl,
    FAREBOX_MASTER_KEY: randomBytes(32).toString('base64'),
    FAREBOX_SEAL_KEY: randomBytes(32).toString('base64'),
    FAREBOX_DEMO: 'off',
    LOG_LEVEL: 'error',
  })
  const farebox = await openFarebox({
    config,
    roles: ['projections'],
    systemClock: Date.now,
    monotonicMs: () => performance.now(),
    logger: createLogger(config.logLevel),
    kill: () => undefined,
  })
  const { core, projecting } = farebox
  const values = createWebhookValues({ pool: core.pool, vault: createVault(core.keys.master) })
  const webhooks = createWebhooks({ runner: core.runner, values })
  const endpoints: { endpointId: string; accountId: AccountId }[] = []
  while (endpoints.length < job.endpoints) {
    const accountId = newId<AccountId>('acc')
    for (let n = 0; n < 10 && endpoints.length < job.endpoints; n++) {
      const url = urlOf(job, endpoints.length)
      const made = await webhooks.register({ accountId, url, events: null }, cause)
      if (made.outcome !== 'done') throw new Error('no endpoint')
      endpoints.push({ endpointId: made.endpointId, accountId })
    }
  }
  for (let from = 0; from < job.deliveries; from += 200) {
    const metadata = { ...cause, causationId: null, recordedAt: new Date().toISOString() }
    const items = Array.from({ length: Math.min(200, job.deliveries - from) }, (_, at): AppendItem => {
      const data = payloadOf(from + at)
      const place = endpoints[(from + at) % endpoints.length]!
      const [event, resource] = ['order.fulfilled', data.orderId] as const
      const deliveryId = deliveryIdOf(place.endpointId, event, resource)
      const fact = { type: 'WebhookEnqueued', data: { deliveryId, ...place, event, resource, data } }
      const stream = deliveryStream(place.endpointId, event, resource)
      return { appends: [{ stream, expected: 'noStream', events: [encode(fact, metadata, newEventId())] }] }
    })
    await core.log.appendAll(items)
  }
  if (!(await projecting.caughtUp(120_000))) throw new Error('the projections are behind')
  return {
    start: () => {
      const worker = startDeliveryWorker({
        workers: createWorkers({ ...core, monotonicMs: () => performance.now() }),
        pool: core.pool,
        log: core.log,
        values,
        sender: createSender({ resolve: async () => [], rules: { allowLoopback: true }, ca: job.ca }),
        clock: core.clock,
        monotonicMs: () => performance.now(),
        random: Math.random,
        logger: core.logger,
        onDead: async () => undefined,
        limits: { active: job.concurrency },
      })
      onWebhooks(projecting.progress, { due: [], queued: [worker.wake] })
    },
  }
}

serveContender(open)
