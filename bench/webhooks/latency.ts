import { randomUUID } from 'node:crypto'
import { decode } from '../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../src/platform/eventstore/port.ts'
import { percentile } from '../percentile.ts'

const orders = 200

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** From an order to the event that enqueues its webhook, by the times that both were decided at. */
const latenciesAfter = async (log: EventLog, from: number): Promise<readonly number[]> => {
  const completed = new Map<string, number>()
  const latencies: number[] = []
  const head = await log.head()
  for (let after = from; after < head; ) {
    const page = await log.readAll(after, 5_000)
    for (const stored of page) {
      if (stored.type !== 'OrderCompleted' && stored.type !== 'WebhookEnqueued') continue
      const { id, metadata } = decode(stored)
      const atMs = Date.parse(metadata.recordedAt)
      if (stored.type === 'OrderCompleted') completed.set(id, atMs)
      const causedMs = completed.get(metadata.causationId ?? '')
      if (stored.type === 'WebhookEnqueued' && causedMs !== undefined) latencies.push(atMs - causedMs)
    }
    after = page.at(-1)?.position ?? head
  }
  return latencies
}

/** How soon the webhook of an order is enqueued: orders of one account, some 20 a second, each on its own. */
export const measureLatency = async (
  log: EventLog,
  server: URL,
  key: string,
  order: string,
  receiver: string,
): Promise<string> => {
  const call = async (method: string, path: string, body: string | null = null): Promise<Response> => {
    const headers = { 'X-API-Key': key, 'Content-Type': 'application/json', 'Idempotency-Key': randomUUID() }
    const answer = await fetch(new URL(path, server), { method, headers, body })
    if (!answer.ok) throw new Error(`${method} ${path} was answered ${answer.status}`)
    return answer
  }
  const endpoint = JSON.stringify({ url: receiver, events: ['order.fulfilled'] })
  const { id } = (await (await call('POST', '/api/v1/webhooks', endpoint)).json()) as { id: string }
  const from = await log.head()
  for (let n = 0; n < orders; n += 1) {
    await call('POST', '/api/v1/orders', order)
    await pause(20 + Math.random() * 60)
  }
  await pause(2_000)
  await call('DELETE', `/api/v1/webhooks/${id}`)
  const sorted = [...(await latenciesAfter(log, from))].sort((a, b) => a - b)
  const of = (share: number): string => percentile(sorted, share).toFixed(0)
  return `p50 ${of(0.5)} ms, p99 ${of(0.99)} ms of ${sorted.length} orders`
}
