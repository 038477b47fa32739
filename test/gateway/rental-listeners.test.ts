import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pino } from 'pino'
import { announceRentals, rentedChannel, startRentalListeners } from '../../src/gateway/rental-listeners.ts'
import {
  createAnnouncementSender,
  createAnnouncements,
} from '../../src/platform/eventstore/postgres/announcements.ts'
import { clientConfig } from '../../src/platform/postgres/pool.ts'
import type { FoldedBatch } from '../../src/platform/projections/fold-batch.ts'
import { testDatabase } from '../support/postgres.ts'
import { testScheduler } from '../support/scheduler.ts'
import { until } from '../support/until.ts'

const batchOf = (...rows: readonly object[]) =>
  ({ tables: [{ table: { name: 'proxies' }, inserted: rows, put: [], removed: [] }] }) as never as FoldedBatch

test('a gateway listens on a rented address before the read tables have its rental', async (t) => {
  const { pool, url } = await testDatabase(t)
  await pool.query('create table read.proxies (ip text, released_at timestamptz)')
  const announcements = createAnnouncements(rentedChannel, {
    pool,
    connection: clientConfig({ url, applicationName: 'farebox-test' }),
  })
  t.after(() => announcements.close())
  const listening = new Set<string>()
  const listeners = startRentalListeners({
    scheduler: testScheduler(),
    pool,
    gateway: {
      listen: async ({ host, port }) => {
        listening.add(host)
        return port
      },
      unlisten: ({ host }) => void listening.delete(host),
    },
    announcements,
    monotonicMs: () => performance.now(),
    port: 9_000,
    shared: false,
    listen: ['127.0.0.1'],
    logger: pino({ level: 'silent' }),
  })
  t.after(() => listeners.stop())
  const announce = announceRentals(createAnnouncementSender(rentedChannel, { pool }))
  const rental = { ip: '127.1.2.3', endpoint: null, releasedAt: null }
  const others = [
    { ip: '127.1.2.4', endpoint: null, releasedAt: '2026-11-27T00:00:00.000Z' },
    { ip: '127.1.2.5', endpoint: { host: 'supplier.example' }, releasedAt: null },
    { ip: '203.0.113.7', endpoint: null, releasedAt: null },
  ]
  // The first announcement may come before the gateway listens to announcements.
  await until(
    async () => {
      await announce(batchOf(rental, ...others))
      return listening.has(rental.ip)
    },
    { what: 'the gateway to listen' },
  )
  assert.deepEqual([...listening], [rental.ip], 'only on addresses of this machine that are rented')
  // The table does not show the rental: the next rounds of the worker keep the announced address.
  await new Promise((resolve) => setTimeout(resolve, 300))
  assert.deepEqual([...listening], [rental.ip])
})
