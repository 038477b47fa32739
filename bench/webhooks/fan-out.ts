import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { encode } from '../../src/eventstore/codec.ts'
import { noticeStream } from '../../src/eventstore/streams.ts'
import type { NoticeId } from '../../src/ids.ts'
import { newEventId, newId } from '../../src/ids.ts'
import { bulkEndpoints, metadataNow } from '../../test/webhooks/bulk.ts'
import { withLogOf } from '../database.ts'
import { runLoad } from '../orders/load.ts'
import { serverSettings, startServer, stopServer } from '../orders/server.ts'
import { prepare } from '../orders/shop.ts'

const plan = JSON.stringify({ product_id: 'residential-premium', quantity: 1 })
const connections = 4
const measureMs = 15_000

/**
 * What orders feel of a notice to many endpoints: their p99 while nothing else runs, and while the notice is put into
 * the log for each endpoint, on one server that also queues those deliveries. The endpoints have no URL, so nothing is
 * sent: this is the cost of enqueueing.
 */
export const benchFanOut = async (options: {
  readonly databaseUrl: string
  readonly endpoints: number
  readonly print: (line: string) => void
}): Promise<void> => {
  const { databaseUrl, endpoints, print } = options
  const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
  const env = serverSettings(databaseUrl, directory)
  const { child, url } = await startServer(env)
  try {
    await withLogOf(databaseUrl, async ({ pool, log }) => {
      const { keys } = await prepare(env)
      await bulkEndpoints(log, endpoints)
      const load = () =>
        runLoad({
          host: url.hostname,
          port: Number(url.port),
          connections,
          warmUpMs: 2_000,
          measureMs,
          path: '/api/v1/orders',
          run: randomBytes(4).toString('hex'),
          keys,
          bodies: [plan],
        })
      while (!(await fetch(new URL('/readyz', url))).ok)
        await new Promise((resolve) => setTimeout(resolve, 200))
      const idle = await load()
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
      const startedMs = performance.now()
      const busy = await load()
      const left = async (): Promise<number> =>
        (await pool.query('select count(*)::int as left from work.webhook_fan_out_targets')).rows[0].left
      const meanwhile = endpoints - (await left())
      while ((await left()) > 0 && performance.now() - startedMs < 180_000)
        await new Promise((resolve) => setTimeout(resolve, 500))
      const tookS = (performance.now() - startedMs) / 1000
      const { rows } = await pool.query(
        "select count(*)::int as queued, count(distinct endpoint_id)::int as endpoints from work.webhook_deliveries where event = 'announcement.published'",
      )
      print(
        `  a notice to ${endpoints} endpoints while ${connections} clients order: p99 ${busy.p99Ms.toFixed(1)} ms beside ${idle.p99Ms.toFixed(1)} ms idle (${(busy.p99Ms / idle.p99Ms).toFixed(2)} times), p50 ${busy.p50Ms.toFixed(1)} beside ${idle.p50Ms.toFixed(1)} ms, ${busy.perSecond.toFixed(0)} beside ${idle.perSecond.toFixed(0)} orders/s`,
      )
      print(
        `  ${meanwhile} endpoints were enqueued meanwhile, all of them after ${tookS.toFixed(0)} s; ${rows[0].queued} deliveries of ${rows[0].endpoints} endpoints are queued, ${await left()} are left`,
      )
    })
  } finally {
    await stopServer(child)
    await rm(directory, { recursive: true, force: true })
  }
}
