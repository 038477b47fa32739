import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { dataDirectory, startFarebox, surroundings } from '../support/farebox.ts'

const root = join(import.meta.dirname, '../..')
const page = readFileSync(join(root, 'docs/guides/migrate-from-another-panel.md'), 'utf8')
const blocks = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block)

test('the migration from another panel runs as printed, and ends with the old balances and new proxies', {
  timeout: 240_000,
}, async (t) => {
  assert.equal(blocks.length, 6)
  const dataDir = await dataDirectory(t)
  const server = await startFarebox(t, { FAREBOX_DATA: dataDir, FAREBOX_AUDITOR: 'on' })
  const script = blocks
    .map((block) => `printf '\\n==\\n'\n${block}`)
    .join('\n')
    .replaceAll('http://127.0.0.1:3000', server.baseUrl)
    .replaceAll('npx farebox', `'${process.execPath}' '${join(root, 'src/cli.ts')}'`)
    .replaceAll('curl -s ', 'curl -sS --fail-with-body ')
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], {
    cwd: dataDir,
    env: { ...surroundings(), FAREBOX_DATA: dataDir },
    maxBuffer: 16 * 1024 * 1024,
  }).catch((error) => assert.fail(`${error.stdout}${error.stderr}`))
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
  await server.stop()
})
