import assert from 'node:assert/strict'
import { test } from 'node:test'
import { blocksOf, pageOf, pageShell } from '../support/page-shell.ts'
import { testApp } from '../support/test-app.ts'

test('the migration from another panel runs as printed, and ends with the old balances and new proxies', async (t) => {
  const blocks = blocksOf(pageOf('docs/guides/migrate-from-another-panel.md'))
  assert.equal(blocks.length, 6)
  const { env, baseUrl } = await testApp(t, { own: 'file', audits: true })
  const shell = await pageShell(t, { env, baseUrl, cwd: env.FAREBOX_DATA })
  const { stdout } = await shell(blocks.map((block) => `printf '\\n==\\n'\n${block}`).join('\n'))
  const [, , , , orders = '', compared = '', proxies = ''] = stdout.split(/^==\n/m)
  assert.equal(orders.match(/"status":"completed"/g)?.length, 2, orders)
  const [json = ''] = /^\{.*"customers".*\}/m.exec(compared) ?? []
  const credits = JSON.parse(json).customers.map((each: { customer: string; creditCents: number }) => [
    each.customer,
    each.creditCents,
  ])
  assert.deepEqual(Object.fromEntries(credits), { 'ann-1': 2500, 'bob-2': 120 }, compared)
  assert.match(compared, /nothing is wrong/)
  assert.equal(proxies.trim().split('\n').length, 2, proxies)
})

test("a reseller's first hour runs as the page describes, from terms to margins", async (t) => {
  const blocks = blocksOf(pageOf('docs/guides/resellers.md'))
  assert.equal(blocks.length, 9)
  const shell = await pageShell(t, await testApp(t, { own: 'file', audits: true }))
  // Some of the requests are to be refused.
  const lenient = 'curl() { command curl -S "$@"; }'
  const { stdout } = await shell(
    [lenient, ...blocks.map((block, n) => `printf '\\n== ${n}\\n'\n${block}`)].join('\n'),
  )
  const [terms, own, prices, paid, short, held, limited, earned, explained] = stdout
    .split(/^== \d\n/m)
    .slice(1) as [string, string, string, string, string, string, string, string, string]
  assert.match(terms, /merchant name +Acme Proxies/)
  assert.match(
    own,
    /"markup":"1\.25"[\s\S]*"country":"DEU","periodDays":90,"tiers":\[\{"from":1,"unitPrice":"9\.90"/,
  )
  assert.match(
    prices,
    /"amountCents":700[\s\S]*"yourCostCents":490,"marginCents":210,"listCents":560,"note":/,
  )
  assert.match(
    prices,
    /"days":30,[^}]*"listCents":560,"yourCostCents":490,"customerCents":700,"marginCents":210/,
  )
  assert.match(paid, /"credited_cents":2500/)
  assert.match(
    paid,
    /"status":"completed"[\s\S]*"amountCents":700[\s\S]*"customer":"alice-17"[\s\S]*"marginCents":210/,
  )
  assert.match(short, /"code":"customer_credit_insufficient"/)
  for (const field of ['payUrl', 'depositId', 'chargeCents', 'shortfallCents'])
    assert.match(short, new RegExp(`"${field}":`))
  assert.match(short, /"status":"completed"/)
  assert.match(held, /"kind":"topup"[\s\S]*"customer":"bob-4"/)
  assert.match(limited, /"customer":"alice-17"[\s\S]*"code":"not_found"[\s\S]*"proxies":\[\],"total":0/)
  assert.match(earned, /"customer":"alice-17"[\s\S]*at,type,order_id,/)
  assert.match(explained, /CustomerRefunded/)
  assert.match(explained, /nothing is wrong/)
  // No call but those that were to be refused was.
  assert.deepEqual(
    new Set(stdout.match(/"code":"[a-z_]+"/g)),
    new Set(['"code":"customer_credit_insufficient"', '"code":"not_found"']),
  )
})
