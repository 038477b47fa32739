import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideAllocation } from '../../../src/domain/stock/decide.ts'
import { stockFold } from '../../../src/domain/stock/fold.ts'
import { startRentalExpiry } from '../../../src/features/stock/expire-rentals.ts'
import { isoTime } from '../../../src/kernel/clock.ts'
import type { DomainEvent } from '../../../src/kernel/event.ts'
import { newEventId, type ProxyId, proxyIdOf } from '../../../src/kernel/ids.ts'
import type { StreamName } from '../../../src/kernel/streams.ts'
import { stockStream } from '../../../src/kernel/streams.ts'
import { runnerOver } from '../../platform/commands/purse.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { testDatabase } from '../../support/postgres.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { addressesStocked, addressOrder } from '../../support/world.ts'

const dayMs = 24 * 60 * 60 * 1000
const rentedMs = Date.now() - 31 * dayMs
const ip = '192.0.2.1'
const order = addressOrder('ord_due', { quantity: 1 })

const due = proxyIdOf(order.orderId, ip)

const stocked = addressesStocked([ip])

/** A log in which the rental in the USA has ended, and the stock of France cannot be decided. */
const openLog = async () => {
  const log = createMemoryLog()
  const write = (stream: StreamName, events: readonly DomainEvent[]) =>
    log.append(
      stream,
      'noStream',
      events.map(({ type, data }) => ({
        id: newEventId(),
        type,
        data: JSON.stringify(data),
        metadata: JSON.stringify({
          correlationId: 'test',
          causationId: null,
          actor: { kind: 'system', name: 'test' },
          recordedAt: isoTime(rentedMs),
        }),
      })),
    )
  const stock = stockFold.evolve(stockFold.initial, { ...stocked, revision: 0, recordedAtMs: rentedMs })
  await write(stockStream('isp-static', 'USA'), [stocked, ...decideAllocation(stock, order, rentedMs).events])
  await write(stockStream('isp-static', 'FRA'), [{ type: 'AddressesForgotten', data: {} }])
  return log
}

test('rentals of a stock that cannot be decided delay no others, however many are overdue', async (t) => {
  const { pool } = await testDatabase(t)
  const log = await openLog()
  const runner = runnerOver(log)
  t.after(() => runner.close())
  // The read data of the rentals: their stock and their end.
  await pool.query(`create table read.proxies
    (proxy_id text, product_id text, country text, expires_at timestamptz, released_at timestamptz)`)
  const overdue = Array.from({ length: 600 }, (_, n) => proxyIdOf(order.orderId, `198.51.100.${n}` as string))
  await pool.query(
    `insert into read.proxies (proxy_id, product_id, country, expires_at)
     select id, 'isp-static', 'FRA', $2::timestamptz from unnest($1::text[]) id
     union all select $3::text, 'isp-static', 'USA', $4::timestamptz`,
    [overdue, isoTime(rentedMs + dayMs), due, isoTime(rentedMs + 30 * dayMs)],
  )
  const expiry = startRentalExpiry({ scheduler: testScheduler(), pool, runner, clock: Date.now })
  t.after(() => expiry.stop())
  await assert.rejects(expiry.runNow(), /unknown stock event/)
  const released = (await log.readAll(0, 10)).filter(({ type }) => type === 'AddressesReleased')
  const ended = released.flatMap(({ data }) =>
    (JSON.parse(data).releases as { proxyId: ProxyId }[]).map(({ proxyId }) => proxyId),
  )
  assert.deepEqual(ended, [due])
})
