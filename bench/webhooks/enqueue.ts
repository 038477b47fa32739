import { webhookDeliveries, webhookDue } from '../../projections/groups.ts'
import { startEnqueuer } from '../../src/features/webhooks/start-webhooks.ts'
import type { DomainEvent } from '../../src/kernel/event.ts'
import { type AccountId, newEventId, newId, type OrderId } from '../../src/kernel/ids.ts'
import { orderStream, webhooksStream } from '../../src/kernel/streams.ts'
import { createCodec, encode } from '../../src/platform/eventstore/codec.ts'
import type { AppendItem } from '../../src/platform/eventstore/port.ts'
import { createLogger } from '../../src/platform/http/logging.ts'
import { createLogFeed } from '../../src/platform/projections/feed.ts'
import { createProjectionRunner } from '../../src/platform/projections/projection-runner.ts'
import { testScheduler } from '../../test/support/scheduler.ts'
import { planOrder } from '../../test/support/world.ts'
import type { BenchLog } from '../database.ts'

const metadata = {
  correlationId: 'bench',
  causationId: null,
  actor: { kind: 'system' as const, name: 'bench' },
  recordedAt: '2026-11-21T02:30:00.000Z',
}
const fact = (event: DomainEvent) => encode(event, metadata, newEventId())

const placed = (accountId: AccountId): AppendItem => {
  const orderId = newId<OrderId>('ord')
  const order = planOrder(orderId, { accountId })
  const data = { order, balanceCents: 0, proxyIds: [], fulfilledAt: metadata.recordedAt }
  const events = [fact({ type: 'OrderCompleted', data })]
  return { appends: [{ stream: orderStream(orderId), expected: 'noStream', events }] }
}

/** What webhooks cost an order, in processor time of this process: read, decoded, folded, enqueued, queued. */
export const benchEnqueue = async (
  { pool, log }: BenchLog,
  orders: number,
  print: (line: string) => void,
): Promise<void> => {
  const logger = createLogger('error')
  const { decode } = createCodec()
  const measure = async (what: string, accountId: AccountId, perOrder: number): Promise<number> => {
    for (let from = 0; from < orders; from += 200)
      await log.appendAll(Array.from({ length: 200 }, () => placed(accountId)))
    const end = (await log.head()) + perOrder * orders
    const feed = createLogFeed({ log, decode, onError: () => undefined })
    const enqueuer = { wake: (): void => undefined }
    const engine = createProjectionRunner({
      pool,
      log,
      feed,
      decode,
      groups: [webhookDue, webhookDeliveries],
      logger,
      clock: Date.now,
      onBatch: () => enqueuer.wake(),
    })
    const startedMs = performance.now()
    const before = process.cpuUsage()
    await engine.start()
    if (!(await engine.progress.reached(webhookDue.name, 0, 60_000))) throw new Error('no tables')
    const { stop, wake } = startEnqueuer({
      scheduler: testScheduler({ pool }),
      pool,
      log,
      clock: Date.now,
      logger,
    })
    enqueuer.wake = wake
    if (!(await engine.progress.reached(webhookDeliveries.name, end, 120_000)))
      throw new Error('enqueueing is behind')
    const { user, system } = process.cpuUsage(before)
    const tookMs = performance.now() - startedMs
    await stop()
    await engine.stop()
    await feed.close()
    const micros = (user + system) / orders
    print(
      `  enqueue, ${what.padEnd(22)} ${micros.toFixed(1).padStart(6)} µs of processor an order, ${((orders / tookMs) * 1000).toFixed(0).padStart(6)} orders/s`,
    )
    return micros
  }
  const idle = await measure('without subscriptions', newId<AccountId>('acc'), 0)
  const accountId = newId<AccountId>('acc')
  const data = { endpointId: newId('whs'), accountId, events: null, urlId: 'none', secretId: 'none' }
  await log.append(webhooksStream(accountId), 'noStream', [fact({ type: 'EndpointRegistered', data })])
  const busy = await measure('one endpoint each order', accountId, 1)
  print(`  an order that is enqueued costs ${(busy / idle).toFixed(1)} times one that is not`)
}
