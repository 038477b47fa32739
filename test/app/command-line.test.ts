import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { readDataUser } from '../../src/platform/postgres/data-lock.ts'
import { call, dataDirectory, farebox, startFarebox, surroundings } from '../support/farebox.ts'
import { until } from '../support/until.ts'
import { usedDirectory } from '../support/used-folder.ts'

const root = join(import.meta.dirname, '../..')

test('a running server sees what an operator changes on the command line', async (t) => {
  const env = { FAREBOX_DATA: await usedDirectory(t) }
  const { baseUrl } = await startFarebox(t, env)
  const run = async (...args: string[]) => {
    const { code, out, err } = await farebox(t, [...args, '--json'], env)
    return { code, err, json: JSON.parse(out) }
  }
  const account = await run('accounts', 'create', '--email', 'customer@example.com')
  assert.equal(account.code, 0, account.err)
  const { accountId } = account.json
  const issued = await run('keys', 'create', '--account', accountId, '--scopes', 'buy')
  const { key, keyId } = issued.json
  assert.equal((await call(`${baseUrl}/api/v1/me`, key)).body.userId, accountId)

  // The server has folded the empty wallet when it refuses; the credit must not be lost on that fold.
  const body = { product_id: 'residential-premium', quantity: 5 }
  const short = await call(`${baseUrl}/api/v1/orders`, key, { body })
  assert.deepEqual([short.status, short.body.code], [402, 'insufficient_balance'])
  const credit = ['wallet', 'credit', '--account', accountId, '--cents', '5000', '--reference', 'bank-1']
  assert.equal((await run(...credit)).json.balanceCents, 5000)
  const placed = await call(`${baseUrl}/api/v1/orders`, key, { body })
  assert.deepEqual([placed.status, placed.body.balanceCents], [201, 2250])

  const again = await run(...credit)
  assert.deepEqual([again.code, again.json.code], [1, 'already_applied'])
  assert.match(again.err, /nothing moved/)
  assert.equal((await call(`${baseUrl}/api/v1/wallet`, key)).body.balanceCents, 2250)

  assert.equal((await run('keys', 'revoke', keyId)).code, 0)
  await until(async () => (await call(`${baseUrl}/api/v1/me`, key)).status === 401)
})

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

test('a command refuses wrong settings by name, as wrong use', async (t) => {
  const { code, out, err } = await farebox(t, ['stock', 'list', '--json'], { LOG_LEVEL: 'loud' })
  assert.equal(code, 2)
  assert.match(err, /LOG_LEVEL: expected one of/)
  assert.equal(JSON.parse(out).code, 'invalid_settings')
})

test('the command line runs through npm and npx, and prints only JSON on standard output', async (t) => {
  const file = join(await dataDirectory(t), 'catalog.json')
  await writeFile(file, '{}')
  const options = {
    cwd: root,
    encoding: 'utf8' as const,
    env: surroundings(),
  }
  for (const [command, ...args] of [
    ['npm', 'run', '-s', 'farebox', '--', 'settings', '--json'],
    ['npx', 'farebox', 'settings', '--json'],
  ]) {
    const { status, stdout, stderr } = spawnSync(command!, args, options)
    assert.equal(status, 0, stderr)
    assert.equal(JSON.parse(stdout)[0].name, 'PORT')
  }
  const wrong = spawnSync('npm', ['run', '-s', 'farebox', '--', 'stock', 'nonsense'], options)
  assert.equal(wrong.status, 2)
})
