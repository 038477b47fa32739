import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listTransactions } from '../../../projections/balances.ts'
import { listDeposits } from '../../../projections/deposits.ts'
import { groups } from '../../../projections/groups.ts'
import { listMargins } from '../../../projections/margins.ts'
import { listOrders } from '../../../projections/orders.ts'
import { listPlans } from '../../../projections/plans.ts'
import { listProxies } from '../../../projections/proxies.ts'
import { readStatement } from '../../../src/features/resellers/reseller-statement.ts'
import type { AccountId, CustomerId } from '../../../src/kernel/ids.ts'
import type { AccountScope as Scope } from '../../../src/kernel/scopes.ts'
import { createKysely } from '../../../src/platform/postgres/kysely.ts'
import { caughtUp, startEngine } from '../../platform/projections/engine.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { connected, fillTables } from '../../support/planned.ts'
import { testDatabase } from '../../support/postgres.ts'

const rows = 2_000
const customers = 200

test("a customer's data is read by its index, however much the reseller has", async (t) => {
  const { pool, url } = await testDatabase(t)
  const texts: string[] = []
  pool.on('connect', (session) => {
    const query = session.query.bind(session) as (...args: unknown[]) => unknown
    const recorded = (statement: string | { readonly text: string }, ...rest: unknown[]) => {
      texts.push(typeof statement === 'string' ? statement : statement.text)
      return query(statement, ...rest)
    }
    Object.assign(session, { query: recorded })
  })
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, groups)
  await caughtUp(engine, log)
  const client = await connected(t, url)
  await fillTables(client, rows)
  const ofOne = `customer_id = 'cus_' || abs(hashtext(ctid::text)) % ${customers}`
  for (const table of ['plans', 'proxies', 'deposits', 'transactions'])
    await client.query(`update read.${table} set account_id = 'acc_one', ${ofOne}`)
  await client.query(`update read.orders set account_id = 'acc_one', details = '{}', ${ofOne}`)
  await client.query(`update read.margin_lines set reseller_id = 'acc_one', type = 'sale', ${ofOne}`)
  await client.query('analyze; set random_page_cost = 4')

  const scope: Scope = { accountId: 'acc_one' as AccountId, customerId: 'cus_7' as CustomerId }
  const db = createKysely(pool)
  const page = { limit: 50, offset: 0, status: undefined }
  const period = { fromMs: null, toMs: null }
  const nowMs = Date.now()
  for (const [what, read] of [
    ['orders', () => listOrders(db, scope, { ...page, orderIds: undefined }, nowMs, () => null)],
    ['plans', () => listPlans(db, scope, { ...page, productId: undefined }, nowMs)],
    ['proxies', () => listProxies(db, scope, {}, page, nowMs)],
    ['deposits', () => listDeposits(db, scope, page)],
    ['transactions', () => listTransactions(db, scope, page)],
    ['margins by day', () => listMargins(pool, scope, { ...period, ...page, groupBy: 'day' })],
    ['margins by product', () => listMargins(pool, scope, { ...period, ...page, groupBy: 'product' })],
    ['margins by customer', () => listMargins(pool, scope, { ...period, ...page, groupBy: 'customer' })],
    ['statement', () => readStatement(pool, scope, { ...period, after: null, limit: 50 })],
  ] as const) {
    texts.length = 0
    await read()
    const limited = texts.filter((text) => /^select.*customer_id"? = \$/s.test(text.trim()))
    assert.ok(limited.length > 0, `${what}: no statement names the customer`)
    for (const text of limited) {
      const explained = await client.query<{ 'QUERY PLAN': string }>(`explain (generic_plan) ${text}`)
      const plan = explained.rows.map((row) => row['QUERY PLAN']).join('\n')
      assert.match(plan, /Index Cond: .*customer_id = \$/, `${what}: ${text}\n${plan}`)
    }
  }
})
