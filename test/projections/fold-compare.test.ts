import assert from 'node:assert/strict'
import { test } from 'node:test'
import { groups } from '../../projections/groups.ts'
import type { AccountId, OrderId } from '../../src/kernel/ids.ts'
import { caughtUp, startEngine } from '../platform/projections/engine.ts'
import { compareWithLog } from '../support/fold-compare.ts'
import { createMemoryLog } from '../support/memory-log.ts'
import { testDatabase } from '../support/postgres.ts'
import { createShop } from './shop.ts'

test('the comparison with the log reports every row that was changed, lost or added outside it', async (t) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, groups)
  const shop = createShop(log, Date.parse('2026-11-21T00:00:00.000Z'))
  const account = 'acc_one' as AccountId
  await shop.credit(account, 50_000)
  await shop.stockUp(['198.18.0.1', '198.18.0.2', '198.18.0.3'])
  await shop.buyAddresses(account, 'ord_1' as OrderId, 2)
  await caughtUp(engine, log)
  const clean = await compareWithLog(pool, log)
  assert.deepEqual(clean.differences, [])
  assert.ok(clean.events >= 3 && clean.rows > 5)

  await pool.query('update read.balances set available_micros = available_micros + 1')
  await pool.query("delete from read.proxies where ip = '198.18.0.1'")
  await pool.query("insert into read.order_counts values ('acc_two', 0, 0, 1, 0, 0, 0)")
  const { differences } = await compareWithLog(pool, log)
  const found = differences.map(({ table, live, folded }) => [table, live === null, folded === null])
  assert.deepEqual(found.sort(), [
    ['balances', false, false],
    ['order_counts', false, true],
    ['proxies', true, false],
  ])
})
