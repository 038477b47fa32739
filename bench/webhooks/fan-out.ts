import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type pg from 'pg'
import { createWebhookValues } from '../../src/features/webhooks/webhook-vault.ts'
import type { NoticeId } from '../../src/kernel/ids.ts'
import { newEventId, newId } from '../../src/kernel/ids.ts'
import { noticeStream } from '../../src/kernel/streams.ts'
import { type ProgressBar, stepsOf } from '../../src/platform/cli/progress-bar.ts'
import { encode } from '../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../src/platform/eventstore/port.ts'
import { masterKey } from '../../src/platform/vault/keys.ts'
import { createVault } from '../../src/platform/vault/seal.ts'
import { bulkEndpoints, metadataNow, sameValues } from '../../test/features/webhooks/bulk.ts'
import { withLogOf } from '../database.ts'
import { runLoad } from '../orders/load.ts'
import { serverSettings, startServer, stopServer } from '../orders/server.ts'
import { prepare } from '../orders/shop.ts'
import { measureLatency } from './latency.ts'
import type { Receiving } from './receiving.ts'

const plan = JSON.stringify({ product_id: 'residential-premium', quantity: 1 })
const connections = 4
const idleMs = 20_000
/** A longer fan-out is ended and measured by its arrived deliveries. */
const maxMs = 420_000

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

const publish = async (log: EventLog): Promise<void> => {
  const noticeId = newId<NoticeId>('ntc')
  const notice = {
    noticeId,
    title: 'Maintenance',
    body: 'On Sunday.',
    kind: 'MAINTENANCE',
    audience: 'ALL',
    publishedAt: new Date().toISOString(),
    expiresAt: null,
    linkHref: null,
    linkLabel: null,
  }
  await log.append(noticeStream(noticeId), 'noStream', [
    encode({ type: 'NoticePublished', data: notice }, metadataNow(), newEventId()),
  ])
}

/** Until the server has folded everything: endpoints, read models. */
const settled = async (pool: pg.Pool, log: EventLog): Promise<void> => {
  const head = await log.head()
  for (;;) {
    const { rows } = await pool.query<{ position: number }>(
      'select min(position) as position from engine.checkpoints',
    )
    if ((rows[0]?.position ?? 0) >= head) return
    await pause(200)
  }
}

/** Seconds until the count is `all`, or the time is over. */
const secondsUntil = async (
  all: number,
  count: () => Promise<number>,
  onCount: (count: number) => void = () => undefined,
): Promise<number> => {
  const startMs = performance.now()
  for (;;) {
    const now = await count()
    onCount(now)
    const tookMs = performance.now() - startMs
    if (now >= all || tookMs > maxMs) return tookMs / 1000
    await pause(500)
  }
}

/**
 * What orders feel of a notice to many endpoints: their latency while nothing else runs, and for as long as it takes to
 * put the notice into the log for each endpoint and to deliver it over TLS, all on one server. The receiver counts.
 */
export const benchFanOut = async (options: {
  readonly databaseUrl: string
  readonly endpoints: number
  readonly receiver: Receiving
  readonly print: (line: string) => void
  readonly bar: ProgressBar
}): Promise<void> => {
  const { databaseUrl, endpoints, receiver, print, bar } = options
  const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
  const env = {
    ...serverSettings(databaseUrl, directory),
    FAREBOX_WEBHOOK_ALLOW_LOOPBACK: 'on',
    NODE_EXTRA_CA_CERTS: receiver.certFile,
    LOG_LEVEL: 'error',
  }
  const { child, url } = await startServer(env)
  try {
    await withLogOf(databaseUrl, async ({ pool, log }) => {
      const { keys } = await prepare(env)
      const key = masterKey(Buffer.from(env.FAREBOX_MASTER_KEY, 'base64'))
      const values = createWebhookValues({ pool, vault: createVault(key) })
      await bulkEndpoints(log, endpoints, {
        values: sameValues(values.store, `https://127.0.0.1:${receiver.port}/hook`),
      })
      await settled(pool, log)
      const load = (measureMs: number, stopped?: Promise<unknown>) =>
        runLoad(
          {
            host: url.hostname,
            port: Number(url.port),
            connections,
            warmUpMs: 2_000,
            measureMs,
            path: '/api/v1/orders',
            run: randomBytes(4).toString('hex'),
            keys,
            bodies: [plan],
          },
          stopped,
        )
      const latency = () =>
        measureLatency(log, url, keys[0] ?? '', plan, `https://127.0.0.1:${receiver.port}/orders`)
      print(`  from an order to its webhook in the log: ${await latency()}`)
      const measured = latency()
      await load(30_000, measured)
      print(`  the same while ${connections} clients order: ${await measured}`)
      await receiver.forget()
      const idle = await load(idleMs)
      await publish(log)
      const queued = async () => {
        const { rows } = await pool.query<{ queued: number; endpoints: number }>(
          `select count(*) as queued, count(distinct endpoint_id) as endpoints
             from work.webhook_deliveries where event = 'announcement.published'`,
        )
        return rows[0]!
      }
      const step = stepsOf(bar, 'a notice', endpoints, 'endpoints')
      const enqueued = secondsUntil(endpoints, async () => (await queued()).queued)
      const arrived = secondsUntil(
        endpoints,
        async () => (await receiver.count()).distinct,
        (count) => step(count, count),
      )
      const busy = await load(maxMs, Promise.all([enqueued, arrived]))
      bar.end()
      const counted = await receiver.count()
      const queue = await queued()
      print(
        `  a notice to ${endpoints} endpoints while ${connections} clients order: p99 ${busy.p99Ms.toFixed(1)} ms, ${idle.p99Ms.toFixed(1)} ms idle (${(busy.p99Ms / idle.p99Ms).toFixed(2)} times, at most 1.5), p50 ${busy.p50Ms.toFixed(1)} beside ${idle.p50Ms.toFixed(1)} ms, ${busy.perSecond.toFixed(0)} beside ${idle.perSecond.toFixed(0)} orders/s`,
      )
      print(
        `  ${queue.queued} deliveries of ${queue.endpoints} endpoints were enqueued in ${(await enqueued).toFixed(0)} s; ${counted.distinct} arrived, by ${counted.requests} requests, in ${(await arrived).toFixed(0)} s`,
      )
    })
  } finally {
    await stopServer(child)
    await rm(directory, { recursive: true, force: true })
  }
}
