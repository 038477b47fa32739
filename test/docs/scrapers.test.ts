import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { testApp } from '../support/test-app.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/guides/scrapers.md'), 'utf8')

test('the call of the scrapers guide runs as printed, and its answer has the printed fields', async (t) => {
  const [, call = ''] = /^```sh\n([\s\S]*?)^```$/m.exec(page) ?? []
  const [, answer = ''] = /^```json\n([\s\S]*?)^```$/m.exec(page) ?? []
  const { baseUrl, demo } = await testApp(t)
  const script = call
    .replaceAll('http://127.0.0.1:3000', baseUrl)
    .replaceAll('curl -s', 'curl -sS --fail-with-body')
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], {
    env: { ...process.env, KEY: demo.scraper.key },
  }).catch((error) => assert.fail(`${error.stdout}${error.stderr}`))
  const [actual, printed] = [JSON.parse(stdout), JSON.parse(answer)]
  assert.deepEqual(Object.keys(actual), Object.keys(printed))
  for (const field of ['platform', 'operation', 'requestId', 'billing', 'cached'])
    assert.deepEqual(actual[field], printed[field])
})
