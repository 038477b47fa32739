import { createLogFeed } from '../../projections/engine/feed.ts'
import { type AccountId, newEventId, newId, type OrderId } from '../../src/kernel/ids.ts'
import { createLowPlans } from '../../src/outbound/webhooks/low-plans.ts'
import { createQueueProgress } from '../../src/outbound/webhooks/reactor/progress.ts'
import { startWebhookReactor } from '../../src/outbound/webhooks/reactor/run.ts'
import { reactorTypes, takeStep } from '../../src/outbound/webhooks/reactor/step.ts'
import { createSubscribers } from '../../src/outbound/webhooks/reactor/subscribers.ts'
import { createCodec, encode } from '../../src/platform/eventstore/codec.ts'
import type { DomainEvent, RecordedEvent } from '../../src/platform/eventstore/event.ts'
import type { AppendItem } from '../../src/platform/eventstore/port.ts'
import { createLogger } from '../../src/platform/http/logging.ts'
import { orderStream, webhooksStream } from '../../src/terms/streams.ts'
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

/** What the reactor costs an order, in processor time of this process: read, decoded, decided, enqueued, queued. */
export const benchEnqueue = async (
  { pool, log }: BenchLog,
  orders: number,
  print: (line: string) => void,
): Promise<void> => {
  const logger = createLogger('error')
  const measure = async (what: string, accountId: AccountId): Promise<number> => {
    for (let from = 0; from < orders; from += 200)
      await log.appendAll(Array.from({ length: 200 }, () => placed(accountId)))
    const feed = createLogFeed({ log, decode: createCodec().decode, onError: () => undefined })
    const progress = createQueueProgress(pool)
    const head = await log.head()
    const startedMs = performance.now()
    const before = process.cpuUsage()
    const reactor = startWebhookReactor({
      pool,
      log,
      feed,
      clock: Date.now,
      logger,
      progress,
      onQueued: () => undefined,
    })
    if (!(await progress.reached(head, 120_000))) throw new Error('the reactor is behind')
    const { user, system } = process.cpuUsage(before)
    const tookMs = performance.now() - startedMs
    await reactor.stop()
    await feed.close()
    const micros = (user + system) / orders
    print(
      `  enqueue, ${what.padEnd(22)} ${micros.toFixed(1).padStart(6)} µs of processor an order, ${((orders / tookMs) * 1000).toFixed(0).padStart(6)} orders/s`,
    )
    return micros
  }
  const idle = await measure('nobody subscribed', newId<AccountId>('acc'))
  const codec = createCodec()
  const events: RecordedEvent[] = []
  const head = await log.head()
  for (let after = 0; after < head; ) {
    const page = await log.readAll(after, 5_000)
    for (const stored of page) if (reactorTypes.has(stored.type)) events.push(codec.decode(stored))
    after = page.at(-1)?.position ?? head
  }
  const before = process.cpuUsage()
  takeStep(events, head, { subscribers: createSubscribers([]), lowPlans: createLowPlans([]) })
  const { user, system } = process.cpuUsage(before)
  print(
    `  of which, beside the reading that the projections share: ${((user + system) / orders).toFixed(2)} µs an order`,
  )
  const accountId = newId<AccountId>('acc')
  const data = { endpointId: newId('whs'), accountId, events: null, urlId: 'none', secretId: 'none' }
  const registered = { type: 'EndpointRegistered', data }
  await log.append(webhooksStream(accountId), 'noStream', [fact(registered)])
  const busy = await measure('one endpoint each order', accountId)
  print(`  an order that is enqueued costs ${(busy / idle).toFixed(1)} times one that is not`)
}
