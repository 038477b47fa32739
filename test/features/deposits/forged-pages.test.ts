import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findingText } from '../../../src/audit/checks/finding.ts'
import { verifyLog } from '../../../src/audit/verify.ts'
import { newId } from '../../../src/kernel/ids.ts'
import { testKey } from '../../audit/world.ts'
import { signedIn } from '../../support/console.ts'
import { testApp } from '../../support/test-app.ts'

const thief = 'https://checkout.stripe.example/c/pay/cs_live_thief'
const orders = '/api/v1/orders'

test('a changed database row sends no payer to another page, and the audit finds it', async (t) => {
  const app = await testApp(t, { own: true })
  const { client } = app
  const { core } = app
  const { pool } = core
  const { key, accountId } = await app.customer({ cents: 0 })
  const mal = await app.customer({ cents: 0 })
  const named = { 'Idempotency-Key': 'top-up' }
  const input = { amount_cents: 2500, return_url: 'https://shop.example/thanks' }
  const made = await app.openDeposit(key, input, named)
  const order = { product_id: 'residential-premium', quantity: 5, method: 'card' }
  const headers = { 'Idempotency-Key': 'order' }
  const placed = await client.post(orders, order, { key, headers })
  assert.equal(placed.status, 201, placed.text)
  const { orderId, payUrl } = placed.body
  const others = await app.openDeposit(mal.key, input)
  const browser = await signedIn(app, accountId)

  /** All that the payer is shown of pay pages and return addresses. */
  const shown = async (): Promise<string> => {
    const answers = await Promise.all([
      client.get(`/api/v1/deposits/${made.deposit_id}`, { key }),
      client.get('/api/v1/deposits', { key }),
      client.get(`${orders}/${orderId}`, { key }),
      client.get(orders, { key }),
    ])
    const pages = await Promise.all([
      browser.get(`/console/deposits/${made.deposit_id}`),
      browser.get(`/console/orders/${orderId}`),
      browser.get('/console/orders'),
    ])
    return [...answers.map(({ text }) => text), ...pages.map(({ html }) => html)].join('\n')
  }
  const found = async (): Promise<string> => {
    const { findings } = await verifyLog(
      { pool, log: core.log, groups: [], logInPostgres: true },
      { runId: newId('vrf'), publicKey: testKey().publicKey, exported: null, keys: core.keys },
    )
    return findings
      .map(findingText)
      .filter((text) => text.startsWith('vault'))
      .join('\n')
  }

  const before = await shown()
  for (const url of [made.pay_url, payUrl, input.return_url]) assert.ok(before.includes(url), url)
  assert.equal(await found(), '')

  const edits: readonly (readonly [string, RegExp | null])[] = [
    [`update vault.deposit_pages set pay_url = '${thief}'`, /deposit_pages holds another pay page/],
    [`update vault.deposit_pages set return_url = '${thief}'`, /deposit_pages holds another pay page/],
    [`update vault.deposit_pages set pay_url = '${thief}', return_url = '${thief}', signature = null`, null],
    [
      `update vault.deposit_pages set deposit_id = 'other' where deposit_id = '${made.deposit_id}';
       update vault.deposit_pages set deposit_id = '${made.deposit_id}' where deposit_id = '${others.deposit_id}';
       update vault.deposit_pages set deposit_id = '${others.deposit_id}' where deposit_id = 'other'`,
      /deposit_pages holds another pay page/,
    ],
    // Their own deposit, in the place of the payer's.
    [
      `update read.order_payments set deposit_id = '${others.deposit_id}' where order_id = '${orderId}';
       update read.deposits set account_id = '${accountId}' where deposit_id = '${others.deposit_id}'`,
      null,
    ],
  ]
  for (const [sql, finding] of edits) {
    for (const table of ['vault.deposit_pages', 'read.order_payments', 'read.deposits'])
      await pool.query(`create table public.${table.replace('.', '_')} as select * from ${table}`)
    await pool.query(sql)
    const after = await shown()
    for (const url of [thief, others.pay_url]) assert.ok(!after.includes(url), `${url} after ${sql}`)
    if (finding !== null) assert.match(await found(), finding)
    for (const table of ['vault.deposit_pages', 'read.order_payments', 'read.deposits']) {
      await pool.query(`delete from ${table}`)
      await pool.query(`insert into ${table} select * from public.${table.replace('.', '_')}`)
      await pool.query(`drop table public.${table.replace('.', '_')}`)
    }
  }
  assert.equal(await shown(), before)

  // A retry gets another invoice. A payment of the first one is still credited.
  await pool.query(`update vault.deposit_pages set pay_url = '${thief}'`)
  const again = await app.openDeposit(key, input, named)
  assert.notEqual(again.deposit_id, made.deposit_id)
  assert.match(await (await fetch(again.pay_url)).text(), /SANDBOX/)
  const repeated = await client.post(orders, order, { key, headers })
  assert.equal(repeated.body.payUrl, null)
  await app.act(made.deposit_id, 'pay', 2500)
  await app.untilDeposit(key, made.deposit_id, { status: 'paid' })
  assert.equal(await app.balance(key), 2500)
})
