import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { greeting, tour } from '../../src/app/greeting.ts'
import { demoKeys } from '../support/demo-env.ts'
import { dataDirectory } from '../support/farebox.ts'
import { operate } from '../support/operator.ts'
import { pageOf, pageShell } from '../support/page-shell.ts'
import { testDatabase } from '../support/postgres.ts'

const run = promisify(execFile)
const account = { accountId: 'acc_1', key: 'fbx_1' }
const lines = tour(
  {
    baseUrl: 'http://127.0.0.1:3000',
    sandbox: null,
    buyer: account,
    reseller: account,
    scraper: { ...account, walletKey: 'fbx_2' },
  },
  false,
)

test('the printed commands reach curl unchanged, also in shells that reject unmatched patterns, such as zsh', async () => {
  const script = `set -eu\ncurl() { printf '%s\\n' "$*"; }\n${lines}`
  const { stdout } = await run('bash', ['-O', 'failglob', '-c', script])
  const calls = stdout.trim().split('\n')
  const keyless = calls.filter((call) => /http:\/\/127\.0\.0\.1:3000\/api\/proxy-list\?/.test(call))
  const keyed = calls.filter((call) =>
    /http:\/\/127\.0\.0\.1:3000\/(api\/)?v1\/\S+ -H X-API-Key: fbx_[12]/.test(call),
  )
  assert.deepEqual([keyed.length, keyless.length], [9, 1])
  assert.match(calls[0]!, /price\?quantity=5 /)
})

test('without a demo and without events the next steps are printed, and each of them works as printed', async (t) => {
  const dataDir = await dataDirectory(t)
  const started = { baseUrl: 'http://127.0.0.1:3000', dataDir, demo: null, console: null, gateway: null }
  assert.doesNotMatch(greeting({ ...started, empty: false }), /There are no products/)
  const steps = greeting({ ...started, empty: true })
    .split('\n')
    .filter((line) => line.includes('bin/farebox') && !line.startsWith(' '))
  assert.equal(steps.length, 4)
  const { url } = await testDatabase(t)
  const env = { FAREBOX_DATA: dataDir, FAREBOX_DEMO: 'off', DATABASE_URL: url, ...demoKeys() }
  await writeFile(join(dataDir, 'catalog.json'), pageOf('src/app/demo/catalog.json'))
  const shell = await pageShell(t, { env, cwd: dataDir })
  const { stdout } = await shell(steps.join('\n'))
  assert.match(stdout, /fbx_\w{40}/)
  const shown = await operate(['accounts', 'show', 'customer@example.com', '--json'], env)
  assert.equal(JSON.parse(shown.out).balanceCents, 10_000)
})
