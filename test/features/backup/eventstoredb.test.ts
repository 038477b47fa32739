import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { parsePosition } from '../../../src/kernel/log-position.ts'
import {
  eventStoreDirectory,
  skipWithoutEventStore,
  startEventStore,
} from '../../support/eventstore-server.ts'
import { call, dataDirectory, farebox, runToEnd, startFarebox } from '../../support/farebox.ts'
import { emptyDatabase } from '../../support/postgres.ts'
import { scratch } from '../exports/books.ts'
import { backUpLog, putLogBack } from './eventstore-files.ts'

const skip = skipWithoutEventStore
const body = { product_id: 'residential-premium', quantity: 5 }

const place = (baseUrl: string, key: string, idempotencyKey: string = randomUUID()) =>
  call(`${baseUrl}/api/v1/orders`, key, { body, headers: { 'Idempotency-Key': idempotencyKey } })

const placed = async (baseUrl: string, key: string): Promise<void> => {
  const { status, body: answer } = await place(baseUrl, key)
  assert.equal(status, 201, JSON.stringify(answer))
}

const succeeds = async (t: TestContext, env: NodeJS.ProcessEnv, ...args: string[]) => {
  const { code, out, err } = await farebox(t, [...args, '--json'], env)
  assert.equal(code, 0, `${args.join(' ')}: ${out}${err}`)
  return JSON.parse(out)
}

const open = async (t: TestContext) => {
  const { url } = await emptyDatabase(t)
  const server = await startEventStore(t)
  const dataDir = await dataDirectory(t)
  const env: NodeJS.ProcessEnv = {
    DATABASE_URL: url,
    EVENTSTORE_URL: server.url,
    FAREBOX_DATA: dataDir,
    FAREBOX_DEMO: 'on',
    FAREBOX_RATE_LIMIT: 'off',
    FAREBOX_MASTER_KEY: randomBytes(32).toString('base64'),
    FAREBOX_SEAL_KEY: randomBytes(32).toString('base64'),
  }
  const service = await startFarebox(t, env)
  const { buyer } = JSON.parse(await readFile(join(dataDir, 'demo.json'), 'utf8'))
  const money = ['--account', buyer.accountId, '--cents', '90000000', '--reference', 'load']
  await succeeds(t, env, 'wallet', 'credit', '--kind=payment', ...money)
  return { server, env, service, key: buyer.key as string }
}

/** A server over data restored into a new directory. */
const startRestored = async (t: TestContext, backup: string) => {
  const directory = await eventStoreDirectory(t)
  const db = join(directory, 'db')
  await mkdir(db)
  await putLogBack(db, backup)
  return await startEventStore(t, directory)
}

test('a log in EventStoreDB that is copied under load, then Postgres, is restored as a service that continues', {
  skip,
}, async (t) => {
  const { server, env, service, key } = await open(t)
  const before: { readonly key: string; readonly orderId: string }[] = []
  let loading = true
  let saved = false
  const client = async (): Promise<void> => {
    while (loading) {
      const idempotencyKey = randomUUID()
      const { status, body: answer } = await place(service.baseUrl, key, idempotencyKey)
      assert.equal(status, 201, JSON.stringify(answer))
      if (!saved) before.push({ key: idempotencyKey, orderId: answer.orderId })
    }
  }
  const load = Promise.all(Array.from({ length: 4 }, client))
  while (before.length < 40) await new Promise((resolve) => setImmediate(resolve))
  await succeeds(t, env, 'ledger', 'seal')
  saved = true
  const backup = await scratch(t)
  await backUpLog(server.dataDir, backup)
  // Postgres is younger than the log by then, and has sealed digests that the log's copy does not reach.
  await succeeds(t, env, 'ledger', 'seal')
  const file = join(await scratch(t), 'farebox.backup')
  const { position } = await succeeds(t, env, 'backup', 'create', '--out', file)
  loading = false
  await load
  assert.equal((await service.stop()).code, 0)
  await server.stop()

  const again = await startRestored(t, backup)
  const { url } = await emptyDatabase(t)
  const restored = { ...env, DATABASE_URL: url, EVENTSTORE_URL: again.url }
  await succeeds(t, restored, 'backup', 'restore', file)
  await succeeds(t, restored, 'projections', 'rebuild', 'all')
  const { throughOrdinal } = await succeeds(t, restored, 'ledger', 'seal', '--remake-digests')
  assert.ok(throughOrdinal > 0 && parsePosition(position)! > 0)
  const verified = await farebox(t, ['ledger', 'verify'], restored)
  assert.equal(verified.code, 0, verified.out + verified.err)

  const next = await startFarebox(t, restored)
  for (const { key: idempotencyKey, orderId } of before) {
    const { status, body: answer } = await place(next.baseUrl, key, idempotencyKey)
    assert.deepEqual([status, answer.orderId], [200, orderId])
  }
  const wallet = (await call(`${next.baseUrl}/api/v1/wallet`, key)).body.balanceCents
  const order = await place(next.baseUrl, key)
  assert.equal(order.status, 201, JSON.stringify(order.body))
  assert.equal(order.body.balanceCents, wallet - order.body.amountCents)
  const last = await farebox(t, ['ledger', 'verify'], restored)
  assert.equal(last.code, 0, last.out + last.err)
  assert.equal((await next.stop()).code, 0)
})

test('a start detects a log in EventStoreDB restored to an earlier point, also after it has grown past that point', {
  skip,
}, async (t) => {
  const { server, env, service, key } = await open(t)
  await placed(service.baseUrl, key)
  const backup = await scratch(t)
  await backUpLog(server.dataDir, backup)
  for (let n = 0; n < 3; n += 1) await placed(service.baseUrl, key)
  assert.equal((await service.stop()).code, 0)
  await server.stop()

  const again = await startRestored(t, backup)
  const restored = { ...env, EVENTSTORE_URL: again.url }
  const tooShort = await runToEnd(t, restored)
  assert.notEqual(tooShort.code, 0)
  assert.match(tooShort.err, /the log ends at \d+: it was restored from an older backup/)
  const addresses = Array.from({ length: 200 }, (_, n) => `203.0.113.${n}`).join(',')
  const stocking = ['--product', 'isp-static', '--country', 'USA', '--addresses', addresses]
  await succeeds(t, restored, 'stock', 'add', ...stocking)
  const refused = await runToEnd(t, restored)
  assert.notEqual(refused.code, 0)
  assert.match(refused.err, /end with event \S+ at position \d+, but the log has (no event|event \S+) there/)

  await succeeds(t, restored, 'projections', 'rebuild', 'all')
  // The stop sealed the orders that this log lost.
  await succeeds(t, restored, 'ledger', 'seal', '--remake-digests')
  const next = await startFarebox(t, restored)
  await placed(next.baseUrl, key)
  const verified = await farebox(t, ['ledger', 'verify'], restored)
  assert.equal(verified.code, 0, verified.out + verified.err)
  assert.equal((await next.stop()).code, 0)
})
