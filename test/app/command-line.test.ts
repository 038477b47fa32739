import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { readDataUser } from '../../src/platform/postgres/data-lock.ts'
import { farebox, surroundings } from '../support/farebox.ts'
import { usedDirectory } from '../support/used-folder.ts'

const root = join(import.meta.dirname, '../..')

test('without a server a command starts Postgres, and a second command waits for the first', async (t) => {
  const env = { FAREBOX_DATA: await usedDirectory(t) }
  const made = await Promise.all(
    ['a', 'b'].map((name) =>
      farebox(t, ['accounts', 'create', '--email', `${name}@example.com`, '--json'], env),
    ),
  )
  for (const { code, err } of made) assert.equal(code, 0, err)
  const ids = made.map(({ out }) => JSON.parse(out).accountId)
  assert.notEqual(ids[0], ids[1])
  assert.equal(await readDataUser(env.FAREBOX_DATA), null)
  const shown = await farebox(t, ['accounts', 'show', ids[0], '--json'], env)
  assert.equal(JSON.parse(shown.out).accountId, ids[0])
})

test('the command line runs through npm and its own program, and prints only JSON on standard output', () => {
  const options = {
    cwd: root,
    encoding: 'utf8' as const,
    env: surroundings(),
  }
  for (const [command, ...args] of [
    ['npm', 'run', '-s', 'farebox', '--', 'settings', '--json'],
    ['bin/farebox', 'settings', '--json'],
  ]) {
    const { status, stdout, stderr } = spawnSync(command!, args, options)
    assert.equal(status, 0, stderr)
    assert.equal(JSON.parse(stdout)[0].name, 'PORT')
  }
  const wrong = spawnSync('npm', ['run', '-s', 'farebox', '--', 'stock', 'nonsense'], options)
  assert.equal(wrong.status, 2)
})
