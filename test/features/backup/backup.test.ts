import assert from 'node:assert/strict'
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { copyFile, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'
import pg from 'pg'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { parsePosition } from '../../../src/kernel/log-position.ts'
import { ledgerStream } from '../../../src/kernel/streams.ts'
import { call, dataDirectory, farebox, startFarebox } from '../../support/farebox.ts'
import { emptyDatabase } from '../../support/postgres.ts'
import { testApp } from '../../support/test-app.ts'
import { scratch } from '../exports/books.ts'
import { order, startLoad } from './load.ts'

const body = { product_id: 'residential-premium', quantity: 5 }

const schemasOf = async (url: string): Promise<number> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rowCount } = await client.query(
      "select from pg_namespace where nspname in ('log', 'vault', 'work')",
    )
    return rowCount ?? 0
  } finally {
    await client.end()
  }
}

test('a backup under load restores into a new database, which passes verification and accepts the next order', async (t) => {
  const app = await testApp(t, { own: true })
  const { env, baseUrl, demo } = app
  const { key, accountId } = demo.buyer
  const credit = ['wallet', 'credit', '--account', accountId, '--cents', '90000000', '--reference', 'load']
  assert.equal((await farebox(t, credit, env)).code, 0)

  const load = startLoad(t, baseUrl, key)
  const file = join(await scratch(t), 'farebox.backup')
  await load.more(40)
  const before = [...load.placed]
  const created = await farebox(t, ['backup', 'create', '--out', file, '--json'], env)
  await load.stop()
  assert.equal(created.code, 0, created.err)
  assert.deepEqual(load.failures, [])
  assert.equal((await stat(file)).mode & 0o777, 0o600)
  const { position } = JSON.parse(created.out)
  assert.ok(
    (parsePosition(position) ?? Infinity) < (await app.core.log.head()),
    'there was load behind the snapshot',
  )

  const { url } = await emptyDatabase(t)
  const restoredEnv = { ...env, DATABASE_URL: url }
  const restored = await farebox(t, ['backup', 'restore', file, '--json'], restoredEnv)
  assert.equal(restored.code, 0, restored.err)
  assert.equal(JSON.parse(restored.out).position, position)
  const server = await startFarebox(t, restoredEnv)
  assert.equal((await farebox(t, ['ledger', 'seal'], restoredEnv)).code, 0)
  const verified = await farebox(t, ['ledger', 'verify', '--json'], restoredEnv)
  assert.equal(verified.code, 0, verified.out)

  // Orders answered before the snapshot exist, under their keys; then the next order succeeds.
  for (const { key: idempotencyKey, orderId } of before.slice(-5)) {
    const again = await order(server.baseUrl, key, idempotencyKey)
    assert.deepEqual([again.status, again.body.orderId], [200, orderId])
  }
  const wallet = (await call(`${server.baseUrl}/api/v1/wallet`, key)).body.balanceCents
  const next = await order(server.baseUrl, key)
  assert.equal(next.status, 201, JSON.stringify(next.body))
  assert.equal(next.body.balanceCents, wallet - next.body.amountCents)
  await server.stop()
})

test('a backup is complete right after a refused append, and the restored log continues', async (t) => {
  const { env, demo, farebox: running } = await testApp(t, { own: true })
  const stream = ledgerStream(demo.buyer.accountId as AccountId)
  const event = { id: randomUUID(), type: 'Refused', data: '{}', metadata: '{}' }
  const [refused] = await running.core.log.appendAll([
    { appends: [{ stream, expected: 1_000_000, events: [event] }] },
  ])
  assert.equal(refused?.status, 'conflict')
  // The log's sequence is at the start of a bigint, beyond the numbers of JavaScript.
  const file = join(await scratch(t), 'farebox.backup')
  const created = await farebox(t, ['backup', 'create', '--out', file], env)
  assert.equal(created.code, 0, created.err)

  const { url } = await emptyDatabase(t)
  const restoredEnv = { ...env, DATABASE_URL: url }
  assert.equal((await farebox(t, ['backup', 'restore', file], restoredEnv)).code, 0)
  const server = await startFarebox(t, restoredEnv)
  const placed = await order(server.baseUrl, demo.buyer.key)
  assert.equal(placed.status, 201, JSON.stringify(placed.body))
  assert.equal((await farebox(t, ['ledger', 'seal'], restoredEnv)).code, 0)
  const verified = await farebox(t, ['ledger', 'verify', '--json'], restoredEnv)
  assert.equal(verified.code, 0, verified.out)
  await server.stop()
})

test('a file that is not a backup, is truncated, changed, or has other keys is refused, and nothing is written', async (t) => {
  const { env } = await testApp(t, { own: true })
  const directory = await scratch(t)
  const file = join(directory, 'farebox.backup')
  const created = await farebox(t, ['backup', 'create', '--out', file], env)
  assert.equal(created.code, 0, created.err)
  const { url } = await emptyDatabase(t)
  const target = { ...env, DATABASE_URL: url }
  const whole = await readFile(file)
  const text = gunzipSync(whole)
  const changed = Buffer.from(text)
  const at = changed.indexOf('WalletCredited')
  assert.notEqual(at, -1)
  changed[at] = 0x58
  const lines = text.toString('latin1').split('\n')
  const otherVersion = [
    lines[0]?.replace(/"checksum":"[0-9a-f]/, '"checksum":"x'),
    ...lines.slice(1, -2),
  ].join('\n')
  const sha256 = createHash('sha256').update(`${otherVersion}\n`, 'latin1').digest('hex')
  const end = { ...JSON.parse(lines.at(-2) ?? ''), sha256 }
  const files: Readonly<Record<string, readonly [Uint8Array | string, RegExp]>> = {
    text: ['hello', /no whole backup/],
    nothing: ['', /no whole backup|empty|cut off/],
    half: [whole.subarray(0, whole.length / 2), /no whole backup/],
    'last byte': [whole.subarray(0, -1), /no whole backup/],
    'cut inside': [gzipSync(text.subarray(0, text.length - 80)), /cut off|not what a backup holds/],
    changed: [gzipSync(changed), /digest does not fit/],
    'other version': [
      gzipSync(Buffer.from(`${otherVersion}\n${JSON.stringify(end)}\n`, 'latin1')),
      /another version/,
    ],
  }
  for (const [name, [content, why]] of Object.entries(files)) {
    const path = join(directory, name)
    await writeFile(path, content)
    const { code, err } = await farebox(t, ['backup', 'restore', path], target)
    assert.equal(code, 2, `${name}: ${err}`)
    assert.match(err, why, name)
  }
  const otherKey = { ...target, FAREBOX_SEAL_KEY: randomBytes(32).toString('base64') }
  const wrongKey = await farebox(t, ['backup', 'restore', file], otherKey)
  assert.equal(wrongKey.code, 2)
  assert.match(wrongKey.err, /the seal key is not the one of the backup/)
  const full = await farebox(t, ['backup', 'restore', file], env)
  assert.equal(full.code, 2)
  assert.match(full.err, /the database is not empty/)
  assert.equal((await farebox(t, ['backup', 'restore', join(directory, 'none')], target)).code, 2)
  const nowhere = join(directory, 'no', 'where')
  assert.equal((await farebox(t, ['backup', 'create', '--out', nowhere], env)).code, 2)
  const stored = await readFile(file)
  const again = await farebox(t, ['backup', 'create', '--out', file], env)
  assert.equal(again.code, 2)
  assert.match(again.err, /exists: name another file, or replace it with --force/)
  assert.deepEqual(await readFile(file), stored, 'the backup that is there stays')
  assert.equal((await farebox(t, ['backup', 'create', '--out', file, '--force'], env)).code, 0)
  assert.equal((await farebox(t, ['backup', 'create', '--out', '/dev/null', '--force'], env)).code, 2)
  assert.equal(await schemasOf(url), 0, 'nothing was written')
  assert.deepEqual(
    (await readdir(directory)).filter((name) => name.endsWith('.part')),
    [],
  )
})

test('the embedded Postgres is backed up while it runs, and is restored in another folder with its keys', async (t) => {
  const from = await dataDirectory(t)
  const server = await startFarebox(t, { FAREBOX_DATA: from })
  const file = join(await scratch(t), 'farebox.backup')
  const created = await farebox(t, ['backup', 'create', '--out', file], { FAREBOX_DATA: from })
  assert.equal(created.code, 0, created.err)
  const { buyer } = JSON.parse(await readFile(join(from, 'demo.json'), 'utf8'))
  const placed = await call(`${server.baseUrl}/api/v1/orders`, buyer.key, { body })
  await server.stop()

  const to = await dataDirectory(t)
  const early = await farebox(t, ['backup', 'restore', file], { FAREBOX_DATA: to })
  assert.equal(early.code, 2)
  assert.match(early.err, /put master.key of the service/)
  for (const name of ['master.key', 'seal.key']) await copyFile(join(from, name), join(to, name))
  const restored = await farebox(t, ['backup', 'restore', file], { FAREBOX_DATA: to })
  assert.equal(restored.code, 0, restored.err)
  // The printed next step works, and without it verify prints the same.
  const lines = restored.out.trimEnd().split('\n').slice(-3)
  const commands = lines.map((line) => /: npx farebox (.*)$/.exec(line)?.[1]?.split(' ') ?? [])
  assert.deepEqual(commands, [
    ['projections', 'rebuild', 'all'],
    ['ledger', 'seal'],
    ['ledger', 'verify'],
  ])
  const unmade = await farebox(t, commands[2]!, { FAREBOX_DATA: to })
  assert.equal(unmade.code, 1)
  assert.match(unmade.err, /hot: its tables were never made: "farebox projections rebuild all" makes them/)
  for (const command of commands) {
    const ran = await farebox(t, command, { FAREBOX_DATA: to })
    assert.equal(ran.code, 0, ran.err)
  }
  const again = await startFarebox(t, { FAREBOX_DATA: to })
  const next = await call(`${again.baseUrl}/api/v1/orders`, buyer.key, { body })
  assert.deepEqual([next.status, next.body.balanceCents], [201, placed.body.balanceCents])
  await again.stop()
})
