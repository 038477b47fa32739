import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtemp, readdir, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { dataDirectory, runToEnd, surroundings } from '../support/farebox.ts'
import { operate } from '../support/operator.ts'
import { emptyDatabase } from '../support/postgres.ts'

const root = join(import.meta.dirname, '../..')

const elsewhere = async (t: TestContext): Promise<string> => {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-elsewhere-'))
  t.after(() => rm(directory, { recursive: true }))
  return directory
}

test('a command refuses a folder without a Farebox, says what to do, and creates nothing there', async (t) => {
  const FAREBOX_DATA = await elsewhere(t)
  for (const data of [FAREBOX_DATA, join(FAREBOX_DATA, 'nowhere')]) {
    const { code, out, err } = await operate(['accounts', 'list', '--json'], { FAREBOX_DATA: data })
    assert.equal(code, 2)
    assert.ok(
      err.includes(`${data} holds no Farebox. Set FAREBOX_DATA to the directory that holds yours.`),
      err,
    )
    assert.match(err, /A new one is made by "npm start", /)
    assert.equal(JSON.parse(out).code, 'no_farebox')
  }
  assert.deepEqual(await readdir(FAREBOX_DATA), [])
})

test('a folder whose first start was killed before its database existed is refused as well', async (t) => {
  const FAREBOX_DATA = await elsewhere(t)
  const { lockData } = await import('../../src/platform/postgres/data-lock.ts')
  await (await lockData(FAREBOX_DATA, 'server')).release()
  const { code, err } = await operate(['accounts', 'list'], { FAREBOX_DATA })
  assert.equal(code, 2)
  assert.match(err, /holds no Farebox/)
  assert.deepEqual(await readdir(FAREBOX_DATA), ['lock'])
})

test('a command that fills a new Farebox creates it', async (t) => {
  const env = { FAREBOX_DATA: await dataDirectory(t), FAREBOX_DEMO: 'off' }
  // It is refused only for its file, after the database was created.
  const { code, err } = await operate(['ledger', 'import', join(root, 'package.json')], env)
  assert.equal(code, 2)
  assert.match(err, /package\.json is refused, nothing was written/)
  assert.equal((await operate(['accounts', 'list'], env)).code, 0)
})

test('a command refuses a database without a Farebox and creates nothing there', async (t) => {
  const { url } = await emptyDatabase(t)
  const key = Buffer.alloc(32, 7).toString('base64')
  const env = { DATABASE_URL: url, FAREBOX_MASTER_KEY: key, FAREBOX_SEAL_KEY: key }
  for (let time = 0; time < 2; time++) {
    const { code, err } = await operate(['accounts', 'list'], env)
    assert.equal(code, 2)
    assert.match(
      err,
      /the database farebox_test_\w+ on 127\.0\.0\.1:\d+ holds no Farebox\. Is DATABASE_URL right\?/,
    )
  }
})

test('a misspelt setting causes a warning at a refused start and by every command', async (t) => {
  const warning = 'FAREBOX_DEMOS is not a setting and has no effect; did you mean FAREBOX_DEMO?'
  const misspelt = { FAREBOX_DATA: await elsewhere(t), FAREBOX_DEMO: 'off', FAREBOX_DEMOS: 'on' }
  const refused = await runToEnd(t, { ...misspelt, PORT: 'x' })
  assert.ok(refused.err.includes(`warning: ${warning}`), refused.err)
  for (const args of [['accounts', 'list', '--json'], ['settings'], ['accounts', '--help'], ['nonsense']]) {
    const { out, err } = await operate(args, misspelt)
    assert.ok(err.startsWith(`warning: ${warning}\n`), err)
    assert.ok(!out.includes(warning))
  }
})

test('a command refuses wrong settings by name, as wrong use', async () => {
  const { code, out, err } = await operate(['stock', 'list', '--json'], { LOG_LEVEL: 'loud' })
  assert.equal(code, 2)
  assert.match(err, /LOG_LEVEL: expected one of/)
  assert.equal(JSON.parse(out).code, 'invalid_settings')
})

test('bin/farebox works from any folder and through links, with the Node and the data of the project', async (t) => {
  const directory = await elsewhere(t)
  await symlink(join(root, 'bin/farebox'), join(directory, 'one'))
  await symlink('one', join(directory, 'two'))
  for (const command of [join(root, 'bin/farebox'), './one', './two']) {
    const run = (...args: string[]) =>
      spawnSync(command, args, { cwd: directory, encoding: 'utf8', env: surroundings() })
    const { status, stdout, stderr } = run('settings', '--json')
    assert.equal(status, 0, stderr)
    assert.equal(JSON.parse(stdout)[0].name, 'PORT')
    assert.equal(run('stock', 'nonsense').status, 2)
  }
})

test('bin/farebox needs no home folder', () => {
  for (const home of [{}, { HOME: '/proc/none' }]) {
    const env = { PATH: process.env.PATH, ...home }
    const { status, stderr, stdout } = spawnSync(join(root, 'bin/farebox'), ['settings', '--json'], {
      env,
      encoding: 'utf8',
    })
    assert.deepEqual([status, stderr], [0, ''])
    assert.ok(Array.isArray(JSON.parse(stdout).settings ?? JSON.parse(stdout)))
  }
})
