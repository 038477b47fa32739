import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { placeholders } from '../../src/gateway/exits/template.ts'
import { parseUsername } from '../../src/gateway/lines/username.ts'
import { startService } from '../support/service.ts'

const root = join(import.meta.dirname, '../..')
const page = readFileSync(join(root, 'docs/gateway.md'), 'utf8')

test('the commands of the page on lines and exits run as they stand', async (t) => {
  const { env } = await startService(t, { FAREBOX_SANDBOX: 'off' })
  const [, block = ''] = /^```sh\n([\s\S]*?)^```$/m.exec(page) ?? []
  const script = block.replaceAll('npx farebox', `'${process.execPath}' '${join(root, 'src/cli.ts')}'`)
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], {
    cwd: env.FAREBOX_DATA,
    env: { ...process.env, ...env },
  }).catch((error) => assert.fail(`${error.stdout}${error.stderr}`))
  assert.match(stdout, /4 exits: 4 added, 0 changed, 0 as before/)
  assert.match(stdout, /removed 1 exit/)
})

test('the page on lines and exits names every key of usernames and every placeholder, and its example is a username', () => {
  const refused = parseUsername('u7k2m9x4-nothing-1')
  assert.ok(!refused.ok)
  const keys = refused.problem.detail.split(' are ')[1]?.split(', ') ?? []
  assert.ok(keys.length > 10)
  for (const name of [...keys, ...placeholders.map((placeholder) => `{${placeholder}}`)])
    assert.ok(page.includes(`\`${name}\``), name)
  const [example = ''] = /u7k2m9x4-[^\n]+/.exec(page) ?? []
  assert.ok(parseUsername(example).ok, example)
})
