import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startDepositReactor } from '../../src/deposits/look-again.ts'
import type { DepositId } from '../../src/ids.ts'
import { silent } from '../projections/engine.ts'
import { until } from '../support/until.ts'
import { openShop } from './support.ts'

const minuteMs = 60_000
const firstLookMs = 2 * minuteMs
const open = 60

test('deposits that are due are all looked at in one go, first those that are late by the largest share of their pause', async (t) => {
  const shop = await openShop(t)
  const { key } = await shop.customer({ cents: 0 })
  const { pool } = shop.farebox.core
  const ids: DepositId[] = []
  for (let n = 0; n < open; n += 1)
    ids.push((await shop.open(key, { amount_cents: 500, method: 'card' })).deposit_id)
  await until(
    async () => {
      const { rows } = await pool.query('select count(*)::integer as n from read.deposits')
      return rows[0].n === open
    },
    { what: 'the deposits in the read model' },
  )
  // All but the last were looked at for days, once an hour, and are ten minutes late; the last is late by one of its two.
  const nowMs = Date.now() + 3 * minuteMs
  await pool.query(
    `insert into work.deposit_looks (deposit_id, looks, next_at) select unnest($1::text[]), 100, $2::timestamptz`,
    [ids.slice(0, -1), new Date(nowMs - 10 * minuteMs).toISOString()],
  )
  const looked: DepositId[] = []
  const looks = startDepositReactor({
    pool,
    clock: () => nowMs,
    logger: silent,
    firstLookMs,
    deposits: {
      settle: async (depositId) => {
        looked.push(depositId)
        return null
      },
      abandon: () => assert.fail('no deposit is given up here'),
    },
  })
  t.after(looks.stop)
  await looks.runNow()
  assert.deepEqual([...looked].sort(), [...ids].sort())
  assert.ok(looked.indexOf(ids.at(-1)!) < 50, 'the young one was not among the first')
  await looks.runNow()
  assert.equal(looked.length, open, 'none is looked at again before its next turn')
})
