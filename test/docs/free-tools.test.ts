import assert from 'node:assert/strict'
import { test } from 'node:test'
import { publicErrors } from '../../src/features/free-tools/check-result.ts'
import { blocksOf, pageOf, pageShell } from '../support/page-shell.ts'
import { testApp } from '../support/test-app.ts'

const page = pageOf('docs/guides/free-tools.md')
const blocks = blocksOf(page)

test('the commands of the free tools page run as printed', async (t) => {
  assert.equal(blocks.length, 5)
  const shell = await pageShell(t, await testApp(t))
  const { stdout } = await shell(blocks.map((block) => `printf '\\n==\\n'\n${block}`).join('\n'))
  const [, list = '', check = '', lookup = '', networks = '', tool = ''] = stdout.split(/^==\n/m)
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
