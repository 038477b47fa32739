import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { checkOpenFiles } from '../../src/app/open-files.ts'
import { surroundings } from '../support/farebox.ts'

const root = join(import.meta.dirname, '../..')

test('a start with a too low limit of open files names the limit and the needed number', {
  skip: process.platform !== 'linux',
}, () => {
  const script = `ulimit -n 200 && exec '${root}/bin/run-node' '${root}/src/main.ts'`
  const { status, stderr } = spawnSync('sh', ['-c', script], { env: surroundings(), encoding: 'utf8' })
  assert.equal(
    stderr,
    'Farebox does not start: a process may open 200 files and sockets here, and Farebox needs at least 512 (in production more than FAREBOX_CONNECTIONS): raise the limit with "ulimit -n", or LimitNOFILE= of systemd\n',
  )
  assert.equal(status, 1)
})

test('a sufficient limit of open files is accepted, and an unknown one', () => {
  for (const limit of [null, 512, 1_048_576]) checkOpenFiles(limit)
})
