import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { dataDirectory, startFarebox, surroundings } from '../support/farebox.ts'
import { blockFor, blocksOf, pageOf } from '../support/page-shell.ts'

const root = join(import.meta.dirname, '../..')

test('the README runs as printed on a first start, by processes of the server and of commands', async (t) => {
  const env = { FAREBOX_DATA: await dataDirectory(t) }
  const server = await startFarebox(t, { ...env, FAREBOX_AUDITOR: 'on' })
  const [block = ''] = blocksOf(pageOf('README.md'))
  const script = blockFor(block, { ...server, env })
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], {
    cwd: root,
    env: { ...surroundings(), ...env },
  })
  assert.match(stdout, /"status":"completed"[\s\S]*nothing is wrong/)
  assert.doesNotMatch(stdout, /"code":/)
  await server.stop()
})
