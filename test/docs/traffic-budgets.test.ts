import assert from 'node:assert/strict'
import { test } from 'node:test'
import { blocksOf, pageOf, pageShell } from '../support/page-shell.ts'
import { testApp } from '../support/test-app.ts'

const blocks = blocksOf(pageOf('docs/guides/traffic-budgets.md'))

test('the requests of the guide about traffic budgets run as printed', async (t) => {
  assert.equal(blocks.length, 5)
  const { env, baseUrl, demo } = await testApp(t)
  const keys = { KEY: demo.buyer.key, RESELLER_KEY: demo.reseller.key }
  const shell = await pageShell(t, { env: { ...env, API: `${baseUrl}/api/v1`, ...keys } })
  const { stdout } = await shell(blocks.map((block, n) => `printf '\\n== ${n}\\n'\n${block}`).join('\n'))
  const [set, entry, team, changed, customer] = stdout.split(/^== \d\n/m).slice(1) as [
    string,
    string,
    string,
    string,
    string,
  ]
  assert.match(set, /"scope":"plan".*"timeZone":"Europe\/Berlin","limitBytes":500000000,"usedBytes":0/)
  assert.match(entry, /"scope":"whitelist_entry"[\s\S]*"total":2/)
  assert.match(team, /"scope":"line_set".*"lineSet":"[a-z0-9]{8}"/)
  assert.match(changed, /"limitBytes":800000000[\s\S]*"usedBytes":0/)
  assert.match(customer, /"scope":"customer"[\s\S]*"customer":"alice-17"[\s\S]*"total":1/)
})
