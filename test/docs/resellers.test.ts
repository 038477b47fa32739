import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { dataDirectory, startFarebox, surroundings } from '../support/farebox.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')
const page = readFileSync(join(root, 'docs/guides/resellers.md'), 'utf8')
const blocks = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block)

test("a reseller's first hour runs as the page describes, from terms to margins", {
  timeout: 240_000,
}, async (t) => {
  assert.equal(blocks.length, 9)
  const dataDir = await dataDirectory(t)
  const server = await startFarebox(t, { FAREBOX_DATA: dataDir, FAREBOX_AUDITOR: 'on' })
  const script = blocks
    .map((block, n) => `printf '\\n== ${n}\\n'\n${block}`)
    .join('\n')
    .replaceAll('http://127.0.0.1:3000', server.baseUrl)
    .replaceAll('.farebox/', `${dataDir}/`)
    // npx would look in the registry of the machine where the bin is not linked; this is the file behind it.
    .replaceAll('npx farebox', `'${process.execPath}' src/cli.ts`)
  const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], {
    cwd: root,
    env: { ...surroundings(), FAREBOX_DATA: dataDir },
    maxBuffer: 16 * 1024 * 1024,
  })
  const [terms, own, prices, paid, short, held, limited, earned, explained] = stdout
    .split(/^== \d\n/m)
    .slice(1) as [string, string, string, string, string, string, string, string, string]
  assert.match(terms, /merchant name +Acme Proxies/)
  assert.match(own, /"markup":"1\.25"[\s\S]*"country":"DEU","periodDays":90,"unitPrice":"9\.90"/)
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
  await server.stop()
})
