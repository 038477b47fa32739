import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { blocksOf, pageOf, pageShell } from '../support/page-shell.ts'
import { testApp } from '../support/test-app.ts'

const readme = pageOf('README.md')
const manifest = JSON.parse(pageOf('package.json'))

describe('the README', () => {
  test('has commands that run as printed, from a price to a verified log', async (t) => {
    const [block = '', ...none] = blocksOf(readme)
    assert.deepEqual(none, [])
    const app = await testApp(t, { own: true, audits: true })
    const shell = await pageShell(t, app)
    const { stdout } = await shell(block)
    assert.match(stdout, /"status":"completed"[\s\S]*nothing is wrong/)
    assert.doesNotMatch(stdout, /"code":/)
  })

  test('names existing scripts of package.json, and its program', () => {
    for (const [, script = ''] of readme.matchAll(/npm run ([a-z:]+)/g))
      assert.ok(script in manifest.scripts, script)
    assert.equal(manifest.bin.farebox, 'bin/farebox')
  })
})
