import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { test } from 'node:test'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { ledgerStream } from '../../../src/kernel/streams.ts'
import { operate } from '../../support/operator.ts'
import { emptyDatabase } from '../../support/postgres.ts'
import { testApp } from '../../support/test-app.ts'
import { scratch } from '../exports/books.ts'
import { order } from './load.ts'

test('a backup is complete right after a refused append, and the restored log continues', async (t) => {
  const { env, demo, farebox: running, baseUrl } = await testApp(t, { own: true })
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
  const commands = lines.map((line) => /: npx farebox (.*)$/.exec(line)?.[1]?.split(' ') ?? [])
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
