import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commands as financeCommands } from '../../../src/features/finance/commands.ts'
import { parsePosition } from '../../../src/kernel/log-position.ts'
import { testApp } from '../../support/test-app.ts'
import { ledgerWorld } from './cli-world.ts'

test('an order is explained from its payment to its refund, with actors and terms', async (t) => {
  const { client, cli, run, demo } = await testApp(t)
  const { key } = demo.buyer
  const headers = { 'X-Request-Id': 'explain-me' }
  const json = {
    product_id: 'isp-static',
    quantity: 1,
    fulfillment_meta: { country: 'USA', period_days: 30 },
  }
  const placed = await client.post('/api/v1/orders', json, { key, headers })
  assert.equal(placed.status, 201, placed.text)
  const { orderId } = placed.body
  await run('orders', 'refund', '--order', orderId)
  const { chain, terms } = await run('ledger', 'explain', orderId)
  const types = chain.map((link: { type: string }) => link.type)
  assert.deepEqual(types.slice(0, 3), ['WalletDebited', 'AddressesAllocated', 'OrderCompleted'])
  for (const type of ['RefundDecided', 'WalletCredited', 'AddressesReleased', 'OrderRefunded'])
    assert.ok(types.includes(type), `${type} is missing in ${types}`)
  const [debit] = chain
  assert.equal(debit.correlationId, 'explain-me')
  assert.match(debit.actor, /^key:key_/)
  assert.deepEqual(
    debit.postings.map(({ account }: { account: string }) => account),
    ['revenue:orders:isp', `liabilities:wallet:${demo.buyer.accountId}`],
  )
  assert.match(chain.at(-1).actor, /^operator:/)
  assert.deepEqual(
    terms.map((term: { type: string }) => term.type),
    ['CatalogImported', 'KeyIssued'],
  )
  const text = await cli.text('ledger', 'explain', orderId)
  assert.match(text.out, /by key:key_\w+, through explain-me/)
  assert.match(text.out, /order of 1 IP isp-static for \$/)
  assert.match(text.out, /catalogue [0-9a-f]{12}: CatalogImported at position pos_0_\d+/)
})

test('a balance is explained by its last lines, an entry by its request', async (t) => {
  const { run } = await ledgerWorld(t, financeCommands)
  const all = JSON.parse((await run('ledger', 'explain', 'acc_one', '--json')).out)
  assert.deepEqual(
    all.chain.map((link: { type: string }) => link.type),
    ['WalletCredited', 'WalletDebited', 'FundsHeld', 'HoldCaptured'].slice(0, all.chain.length),
  )
  assert.equal(all.balanceMicros, '-84997000')
  const last = await run('ledger', 'explain', 'acc_one', '--limit', '1')
  assert.match(last.out, /is at -84\.997000 as of position pos_0_\d+ .*; the last 1 of its 3 lines:/)
  const entry = JSON.parse((await run('ledger', 'explain', '5', '--json')).out)
  assert.deepEqual(
    entry.chain.map((link: { type: string }) => link.type),
    ['WalletDebited', 'PlanActivated', 'OrderCompleted'],
  )
  const near = await run('ledger', 'explain', '5', '--limit', '1')
  assert.match(
    near.out,
    /^the event at position pos_0_5 and its request\n\n2 more events left out: --limit shows more\npos_0_5 {2}/,
  )
  assert.deepEqual(
    JSON.parse((await run('ledger', 'explain', '5', '--limit', '2', '--json')).out).chain.map(
      ({ position }: { position: string }) => parsePosition(position),
    ),
    [5, 6],
  )
  for (const [what, message] of [
    ['ord_nothing', /no event names the order ord_nothing/],
    ['pos_0_999999', /position pos_0_999999 is past the end/],
    ['assets:nothing', /no book has an account assets:nothing; .* an order is ord_…, an entry the position/],
    ['', /no book has an account ""; .* an order is ord_…/],
  ] as const) {
    const { code, err } = await run('ledger', 'explain', what)
    assert.equal(code, 2)
    assert.match(err, message)
  }
})
