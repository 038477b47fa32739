import assert from 'node:assert/strict'
import { test } from 'node:test'
import { blocksOf, pageOf, pageShell } from '../support/page-shell.ts'
import { testApp } from '../support/test-app.ts'

const blocks = blocksOf(pageOf('docs/guides/migrate-from-another-panel.md'))

test('the migration from another panel runs as printed, and ends with the old balances and new proxies', async (t) => {
  assert.equal(blocks.length, 6)
  const { env, baseUrl } = await testApp(t, { own: true, audits: true })
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
