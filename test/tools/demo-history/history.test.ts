import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { atEnd } from '../../support/cleanup.ts'
import { demoEnv } from '../../support/demo-env.ts'
import { dataDirectory, farebox } from '../../support/farebox.ts'
import { operate } from '../../support/operator.ts'
import { emptyDatabase } from '../../support/postgres.ts'

const command = ['demo', 'history', '--days', '20', '--customers', '8', '--seed', 'spring', '--json']
const dayMs = 86_400_000

test('a history is a demo with past events that passes verification, is reproducible, and precedes all other events', async (t) => {
  const { url } = await emptyDatabase(t)
  const env = demoEnv(url, await dataDirectory(t))
  const [first, second] = await Promise.all([
    operate(command, env),
    operate(command, demoEnv((await emptyDatabase(t)).url, await dataDirectory(t))),
  ])
  assert.equal(first.code, 0, first.err)
  assert.equal(second.code, 0, second.err)

  const made = JSON.parse(first.out)
  assert.equal(made.accounts, 3 + 8)
  assert.ok(made.orders >= 10, `only ${made.orders} orders`)
  const again = JSON.parse(second.out)
  assert.deepEqual([again.accounts, again.orders, again.events], [made.accounts, made.orders, made.events])

  const pool = new pg.Pool({ connectionString: url, max: 1 })
  atEnd(t, () => pool.end())
  const { rows } = await pool.query<{ day: string; orders: string }>(
    `select to_char(created_at at time zone 'UTC', 'YYYY-MM-DD') as day, count(*) as orders
       from read.orders group by 1 order by 1`,
  )
  assert.ok(rows.length >= 8, 'orders of many days')
  assert.ok(Date.parse(rows[0]!.day) < Date.now() - 15 * dayMs, `the first order is of ${rows[0]!.day}`)
  const { rows: hours } = await pool.query('select from work.plan_hours')
  assert.ok(hours.length > 100, 'hours of traffic')
  const { rows: unfinished } = await pool.query('select from read.open_orders')
  assert.equal(unfinished.length, 0)

  const verified = await operate(['ledger', 'verify', '--json'], env)
  assert.equal(verified.code, 0, verified.out)
  assert.equal(JSON.parse(verified.out).result.seals.unsealed, 0)

  const once = await operate(command, env)
  assert.equal(once.code, 1, once.out)
  assert.equal(JSON.parse(once.out).code, 'has_history')
})

test('a history on the embedded Postgres is sealed with the role of the auditor', async (t) => {
  const env = { FAREBOX_DATA: await dataDirectory(t), FAREBOX_DEMO: 'on' }
  const short = ['demo', 'history', '--days', '2', '--customers', '2', '--json']
  const { code, out, err } = await farebox(t, short, env)
  assert.equal(code, 0, err)
  assert.equal(JSON.parse(out).accounts, 3 + 2)
  const verified = await farebox(t, ['ledger', 'verify', '--json'], env)
  assert.equal(verified.code, 0, verified.out)
})
