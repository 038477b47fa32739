import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { testApp } from '../support/test-app.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/guides/traffic-budgets.md'), 'utf8')
const blocks = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block)

test('the requests of the guide about traffic budgets run as printed', async (t) => {
  assert.equal(blocks.length, 5)
  const { baseUrl, demo } = await testApp(t)
  const script = blocks
    .map((block, n) => `printf '\\n== ${n}\\n'\n${block}`)
    .join('\n')
    .replaceAll('curl -sS ', 'curl -sS --fail-with-body ')
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], {
    env: {
      ...process.env,
      API: `${baseUrl}/api/v1`,
      KEY: demo.buyer.key,
      RESELLER_KEY: demo.reseller.key,
    },
  })
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
