import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { tour } from '../../src/app/greeting.ts'

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
