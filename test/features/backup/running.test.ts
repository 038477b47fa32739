import assert from 'node:assert/strict'
import { copyFile, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { parsePosition } from '../../../src/kernel/log-position.ts'
import { call, dataDirectory, startFarebox } from '../../support/farebox.ts'
import { operate } from '../../support/operator.ts'
import { emptyDatabase } from '../../support/postgres.ts'
import { testApp } from '../../support/test-app.ts'
import { scratch } from '../exports/books.ts'
import { order, startLoad } from './load.ts'

const body = { product_id: 'residential-premium', quantity: 5 }

test('a backup under load restores into a new database, which passes verification and accepts the next order', async (t) => {
  const app = await testApp(t, { own: true })
  const { env, baseUrl, demo } = app
  const { key, accountId } = demo.buyer
  const credit = [
    ...['wallet', 'credit', '--kind=payment', '--account', accountId],
    ...['--cents', '90000000', '--reference', 'load'],
  ]
  assert.equal((await operate(credit, env)).code, 0)

  const load = startLoad(t, baseUrl, key)
  const file = join(await scratch(t), 'farebox.backup')
  await load.more(40)
  const before = [...load.placed]
  const created = await operate(['backup', 'create', '--out', file, '--json'], env)
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
  const restored = await operate(['backup', 'restore', file, '--json'], restoredEnv)
  assert.equal(restored.code, 0, restored.err)
  assert.equal(JSON.parse(restored.out).position, position)
  const restoredApp = await testApp(t, { own: true, settings: restoredEnv })
  assert.equal((await operate(['ledger', 'seal'], restoredEnv)).code, 0)
  const verified = await operate(['ledger', 'verify', '--json'], restoredEnv)
  assert.equal(verified.code, 0, verified.out)

  // Orders answered before the snapshot exist, under their keys; then the next order succeeds.
  for (const { key: idempotencyKey, orderId } of before.slice(-5)) {
    const again = await order(restoredApp.baseUrl, key, idempotencyKey)
    assert.deepEqual([again.status, again.body.orderId], [200, orderId])
  }
  const wallet = await restoredApp.balance(key)
  const next = await order(restoredApp.baseUrl, key)
  assert.equal(next.status, 201, JSON.stringify(next.body))
  assert.equal(next.body.balanceCents, wallet - next.body.amountCents)
})

test('the embedded Postgres is backed up while it runs, and is restored in another folder with its keys', async (t) => {
  const from = await dataDirectory(t)
  const server = await startFarebox(t, { FAREBOX_DATA: from })
  const file = join(await scratch(t), 'farebox.backup')
  const created = await operate(['backup', 'create', '--out', file], { FAREBOX_DATA: from })
  assert.equal(created.code, 0, created.err)
  const { buyer } = JSON.parse(await readFile(join(from, 'demo.json'), 'utf8'))
  const placed = await call(`${server.baseUrl}/api/v1/orders`, buyer.key, { body })
  await server.stop()

  const to = await dataDirectory(t)
  const early = await operate(['backup', 'restore', file], { FAREBOX_DATA: to })
  assert.equal(early.code, 2)
  assert.match(early.err, /put master.key of the service/)
  for (const name of ['master.key', 'seal.key']) await copyFile(join(from, name), join(to, name))
  const restored = await operate(['backup', 'restore', file], { FAREBOX_DATA: to })
  assert.equal(restored.code, 0, restored.err)
  const again = await startFarebox(t, { FAREBOX_DATA: to })
  const next = await call(`${again.baseUrl}/api/v1/orders`, buyer.key, { body })
  assert.deepEqual([next.status, next.body.balanceCents], [201, placed.body.balanceCents])
  await again.stop()
})
