import assert from 'node:assert/strict'
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'
import pg from 'pg'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { ledgerStream } from '../../../src/kernel/streams.ts'
import { operate } from '../../support/operator.ts'
import { emptyDatabase } from '../../support/postgres.ts'
import { testApp } from '../../support/test-app.ts'
import { scratch } from '../exports/books.ts'
import { order } from './load.ts'

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

test('a backup is complete right after a refused append, and the restored log continues', async (t) => {
  const { env, demo, farebox: running, baseUrl } = await testApp(t, { own: 'file' })
  const { key } = demo.buyer
  const before = await order(baseUrl, key, 'before')
  const stream = ledgerStream(demo.buyer.accountId as AccountId)
  const event = { id: randomUUID(), type: 'Refused', data: '{}', metadata: '{}' }
  const [refused] = await running.core.log.appendAll([
    { appends: [{ stream, expected: 1_000_000, events: [event] }] },
  ])
  assert.equal(refused?.status, 'conflict')
  // The log's sequence is at the start of a bigint, beyond the numbers of JavaScript.
  const file = join(await scratch(t), 'farebox.backup')
  const created = await operate(['backup', 'create', '--out', file], env)
  assert.equal(created.code, 0, created.err)

  const { url } = await emptyDatabase(t)
  const restoredEnv = { ...env, DATABASE_URL: url }
  const made = await operate(['backup', 'restore', file], restoredEnv)
  assert.equal(made.code, 0, made.err)
  // The printed next step works, and without it verify prints the same.
  const lines = made.out.trimEnd().split('\n').slice(-3)
  const commands = lines.map((line) => /: bin\/farebox (.*)$/.exec(line)?.[1]?.split(' ') ?? [])
  assert.deepEqual(commands, [
    ['projections', 'rebuild', 'all'],
    ['ledger', 'seal'],
    ['ledger', 'verify'],
  ])
  const [rebuild = [], ...proof] = commands
  const unmade = await operate(['ledger', 'verify'], restoredEnv)
  assert.equal(unmade.code, 1)
  assert.match(unmade.err, /hot: its tables were never made: "farebox projections rebuild all" makes them/)
  const rebuilt = await operate(rebuild, restoredEnv)
  assert.equal(rebuilt.code, 0, rebuilt.err)
  const restored = await testApp(t, { own: true, settings: restoredEnv })
  const again = await order(restored.baseUrl, key, 'before')
  assert.deepEqual([again.status, again.body.orderId], [200, before.body.orderId])
  const placed = await order(restored.baseUrl, key)
  assert.equal(placed.status, 201, JSON.stringify(placed.body))
  for (const command of proof) {
    const { code, out, err } = await operate(command, restoredEnv)
    assert.equal(code, 0, out + err)
  }
})

test('a file that is not a backup, is truncated, changed, or has other keys is refused, and nothing is written', async (t) => {
  const { env } = await testApp(t, { own: 'file' })
  const directory = await scratch(t)
  const file = join(directory, 'farebox.backup')
  const created = await operate(['backup', 'create', '--out', file], env)
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
    const { code, err } = await operate(['backup', 'restore', path], target)
    assert.equal(code, 2, `${name}: ${err}`)
    assert.match(err, why, name)
  }
  const otherKey = { ...target, FAREBOX_SEAL_KEY: randomBytes(32).toString('base64') }
  const wrongKey = await operate(['backup', 'restore', file], otherKey)
  assert.equal(wrongKey.code, 2)
  assert.match(wrongKey.err, /the seal key is not the one of the backup/)
  const full = await operate(['backup', 'restore', file], env)
  assert.equal(full.code, 2)
  assert.match(full.err, /the database is not empty/)
  assert.equal((await operate(['backup', 'restore', join(directory, 'none')], target)).code, 2)
  const nowhere = join(directory, 'no', 'where')
  assert.equal((await operate(['backup', 'create', '--out', nowhere], env)).code, 2)
  const stored = await readFile(file)
  const again = await operate(['backup', 'create', '--out', file], env)
  assert.equal(again.code, 2)
  assert.match(again.err, /exists: name another file, or replace it with --force/)
  assert.deepEqual(await readFile(file), stored, 'the backup that is there stays')
  assert.equal((await operate(['backup', 'create', '--out', file, '--force'], env)).code, 0)
  assert.equal((await operate(['backup', 'create', '--out', '/dev/null', '--force'], env)).code, 2)
  assert.equal(await schemasOf(url), 0, 'nothing was written')
  assert.deepEqual(
    (await readdir(directory)).filter((name) => name.endsWith('.part')),
    [],
  )
})
