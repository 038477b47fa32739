import assert from 'node:assert/strict'
import { test } from 'node:test'
import { blocksOf, pageOf, pageShell } from '../support/page-shell.ts'
import { testApp } from '../support/test-app.ts'

const page = pageOf('docs/guides/scrapers.md')

test('the call of the scrapers guide runs as printed, and its answer has the printed fields', async (t) => {
  const [call = ''] = blocksOf(page)
  const [, answer = ''] = /^```json\n([\s\S]*?)^```$/m.exec(page) ?? []
  const { env, baseUrl, demo } = await testApp(t)
  const shell = await pageShell(t, { env: { ...env, KEY: demo.scraper.key }, baseUrl })
  const { stdout } = await shell(call)
  const [actual, printed] = [JSON.parse(stdout), JSON.parse(answer)]
  assert.deepEqual(Object.keys(actual), Object.keys(printed))
  for (const field of ['platform', 'operation', 'requestId', 'billing', 'cached'])
    assert.deepEqual(actual[field], printed[field])
})
