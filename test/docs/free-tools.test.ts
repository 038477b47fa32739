import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { publicErrors } from '../../src/features/free-tools/check-result.ts'
import { testApp } from '../support/test-app.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/guides/free-tools.md'), 'utf8')
const blocks = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block)

test('the commands of the free tools page run as printed', async (t) => {
  assert.equal(blocks.length, 5)
  const { baseUrl } = await testApp(t)
  const outputs: string[] = []
  for (const block of blocks) {
    const script = block
      .replaceAll('http://127.0.0.1:3000', baseUrl)
      .replaceAll('curl -s', 'curl -sS --fail-with-body -s')
    const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script]).catch((error) =>
      assert.fail(`${block}${error.stdout}${error.stderr}`),
    )
    outputs.push(stdout)
  }
  const [list = '', check = '', lookup = '', networks = '', tool = ''] = outputs
  assert.match(list, /"proxies":\[/)
  assert.match(check, /"error":"refused"[\s\S]*event: result[\s\S]*event: summary/)
  assert.equal(JSON.parse(lookup).asn_org, 'Google LLC')
  assert.match(networks, /"networks":\[[\s\S]*"asn":7922/)
  assert.match(tool, /"structuredContent":\{"ip":"8\.8\.8\.8"/)
})

test('the page explains every failure of a check', () => {
  const [, table = ''] = /^\| `error` .*\n\|[-|]+\n((?:\|.*\n)+)/m.exec(page) ?? []
  const rows = [...table.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name)
  assert.deepEqual(rows.sort(), [...publicErrors].sort())
})
