import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import pino from 'pino'
import {
  createDeliveryCursor,
  deliverSeals,
  readDeliveryLag,
  startDelivery,
} from '../../../src/audit/external-seals/deliver-seals.ts'
import { recordName, recordsOf, recordText } from '../../../src/audit/external-seals/seal-record.ts'
import type { StoredEvent } from '../../../src/platform/eventstore/port.ts'
import type { Store } from '../../../src/platform/outgoing/object-store.ts'
import {
  parseStoreLocation,
  probeName,
  type StoreLocation,
  storeLocationText,
} from '../../../src/platform/outgoing/object-store.ts'
import { openStore } from '../../../src/platform/outgoing/open-object-store.ts'
import { startKeeper } from '../../support/s3-stand-in.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { type Audited, appendEach, auditWorld, everyKind, sealedHistory, tamper, testKey } from '../world.ts'

const token = 'the-token-of-the-keeper'
const access = { token, s3: null, allowPrivate: true }
const clock = (): number => Date.now()

const recordsIn = async ({ log }: Pick<Audited, 'log'>): Promise<[name: string, text: string][]> => {
  const found: [string, string][] = []
  for await (const { record } of recordsOf(log)) found.push([recordName(record.revision), recordText(record)])
  return found
}

const partsOf = async ({ pool, log }: Audited, place: StoreLocation, store: Store) => {
  const target = storeLocationText(place)
  const cursor = createDeliveryCursor(pool, clock, { logId: await log.logId(), target })
  return { log, store, cursor, target }
}

/** A log with a few seals, one change of the key among them, and a server that keeps them. */
const withKeeper = async (t: TestContext) => {
  const world = await auditWorld(t)
  const server = await startKeeper(t, token)
  const place = parseStoreLocation(server.url)!
  const store = await openStore(place, access, clock)
  t.after(() => store.close())
  return { world, server, place, store, parts: await partsOf(world, place, store) }
}

const files = (server: { files: Map<string, string> }): [string, string][] =>
  [...server.files]
    .map(([path, text]): [string, string] => [path.slice(1), text])
    .filter(([name]) => name !== probeName)

/** How often a seal was put. */
const written = (server: { readonly requests: readonly string[] }): number =>
  server.requests.filter((request) => request.startsWith('PUT') && !request.endsWith(probeName)).length

describe('external delivery of seals', () => {
  test('is in order, once per seal, and repeated only if an answer was lost', async (t) => {
    const { world, server, parts } = await withKeeper(t)
    assert.equal(await deliverSeals(parts), 0)
    await sealedHistory(world)
    const made = await recordsIn(world)
    assert.ok(made.length >= 4)
    server.faults.push(null, null, null, null, { cut: 'after' })
    await assert.rejects(deliverSeals(parts), /^StoreFailed: it gave no answer/)
    assert.equal((await parts.cursor.read()).revision, 0, 'the second is stored, the cursor is not')
    assert.equal(await deliverSeals(parts), made.length - 1)
    assert.deepEqual(files(server), made)
    assert.equal(await deliverSeals(parts), 0)
    // A process that crashed before it stored the cursor delivers the same bytes again.
    await parts.cursor.forget()
    assert.equal(await deliverSeals(parts), made.length)
    assert.deepEqual(files(server), made)
  })

  test('is retried with growing pauses, and reports how far behind it is', async (t) => {
    const { world, server, place, store } = await withKeeper(t)
    await sealedHistory(world)
    const made = await recordsIn(world)
    for (let n = 0; n < 1_000; n += 1) server.faults.push({ status: 503 })
    const lines: string[] = []
    const logger = pino({}, { write: (line) => void lines.push(line) })
    const delivery = startDelivery({
      scheduler: testScheduler(world),
      ...world,
      place,
      store,
      clock,
      logger,
      pollMs: 50,
      firstBackoffMs: 50,
    })
    t.after(() => delivery.stop())
    const lag = () => readDeliveryLag({ ...world, clock }, place)
    const behind = await until(async () => ((await lag()).problem === null ? null : await lag()), {
      what: 'a reported problem',
    })
    assert.equal(behind.target, storeLocationText(place))
    server.faults.splice(0, server.faults.length, null, { status: 500 }, { cut: 'before' })
    await until(() => files(server).length === made.length, { what: 'all seals' })
    await until(async () => (await lag()).seals === 0, { what: 'a cursor at the end' })
    assert.deepEqual(await lag(), { target: storeLocationText(place), seals: 0, since: null, problem: null })
    assert.deepEqual(files(server), made)
    await until(() => lines.join('').includes('seals reach their target again'), {
      what: 'the end of the trouble',
    })
    assert.match(lines.join(''), /a seal did not reach its target and is brought again/)
    assert.ok(!lines.join('').includes(token))
    // Later seals follow automatically.
    const [event] = await everyKind()
    const fresh = (stream: string): StoredEvent => ({
      ...event!,
      id: crypto.randomUUID(),
      stream: stream as never,
    })
    await appendEach(world.log, [fresh('x')])
    await world.seal(testKey(2))
    await until(() => files(server).length === made.length + 1, { what: 'one more' })
    const before = server.requests.length
    server.faults.push({ hang: true })
    await appendEach(world.log, [fresh('y')])
    await world.seal(testKey(2))
    await until(() => server.requests.length > before, { what: 'a request that hangs' })
    const startedMs = performance.now()
    await delivery.stop()
    assert.ok(performance.now() - startedMs < 14_000, 'an end does not wait for an answer')
  })

  test('resumes from the cursor in another process, and only one of two processes delivers', async (t) => {
    const { world, server, place } = await withKeeper(t)
    await sealedHistory(world)
    const made = await recordsIn(world)
    const logger = pino({ level: 'silent' })
    const start = async () => {
      const store = await openStore(place, access, clock)
      const delivery = startDelivery({
        scheduler: testScheduler(world),
        ...world,
        place,
        store,
        clock,
        logger,
        pollMs: 50,
      })
      t.after(() => delivery.stop())
      return delivery
    }
    const [first, second] = [await start(), await start()]
    await until(() => files(server).length === made.length, { what: 'all seals' })
    const lag = () => readDeliveryLag({ ...world, clock }, place)
    await until(async () => (await lag()).seals === 0, { what: 'a cursor at the end' })
    await Promise.all([first.stop(), second.stop()])
    assert.equal(written(server), made.length, server.requests.join(', '))
    await start()
    await appendEach(world.log, [
      { ...(await everyKind())[0]!, id: crypto.randomUUID(), stream: 'another' as never },
    ])
    await world.seal(testKey(2))
    await until(() => files(server).length === made.length + 1, { what: 'the new one' })
    assert.equal(written(server), made.length + 1)
  })

  test('is refused for a target that overwrites files, and reports why', async (t) => {
    const world = await auditWorld(t)
    const server = await startKeeper(t, token, 'ignored')
    const place = parseStoreLocation(server.url)!
    await sealedHistory(world)
    const lines: string[] = []
    const delivery = startDelivery({
      scheduler: testScheduler(world),
      ...world,
      place,
      store: await openStore(place, access, clock),
      clock,
      logger: pino({}, { write: (line) => void lines.push(line) }),
    })
    t.after(() => delivery.stop())
    const { problem } = await until(async () => {
      const lag = await readDeliveryLag({ ...world, clock }, place)
      return lag.problem === null ? null : lag
    })
    assert.match(problem!.text, /overwrites files: it ignores "If-None-Match: \*"/)
    await until(() => lines.join('').includes('seals are not brought to their target any more'))
    assert.deepEqual(files(server), [])
  })

  test('never overwrites files of the target, and stops if the log lost delivered seals', async (t) => {
    const { world, server, parts } = await withKeeper(t)
    await sealedHistory(world)
    const [first, ...rest] = await recordsIn(world)
    server.files.set(`/${first![0]}`, 'of another log')
    await assert.rejects(deliverSeals(parts), /^DeliveryRefused: .* has another seal as 000000000000\.json/)
    assert.equal(server.files.size, 1)
    server.files.clear()
    assert.equal(await deliverSeals(parts), rest.length + 1)
    await tamper(
      world.pool,
      [`delete from log.events where stream = 'seal' and revision = ${rest.length}`],
      ['update log.head set last_position = (select max(position) from log.events)'],
    )
    await assert.rejects(
      deliverSeals(parts),
      new RegExp(`^DeliveryRefused: seal ${rest.length} was brought to .*, and the log does not have it`),
    )
  })

  test('does not block orders and sealing while a target hangs, and reports how far behind it is', async (t) => {
    const keeper = await startKeeper(t, token)
    for (let n = 0; n < 1_000; n += 1) keeper.faults.push({ hang: true })
    const lines: string[] = []
    const { farebox, buyer, close } = await testApp(t, {
      own: true,
      settings: {
        FAREBOX_SEAL_SECONDS: '1',
        FAREBOX_SEAL_TARGET: keeper.url,
        FAREBOX_SEAL_TARGET_TOKEN: token,
        FAREBOX_SEAL_TARGET_PRIVATE: 'on',
        FAREBOX_METRICS_PORT: '0',
        LOG_LEVEL: 'info',
      },
      logTo: { write: (line: string) => void lines.push(line) },
      audits: true,
    })
    const { insideUrl, core } = farebox
    await until(() => keeper.requests.length > 0, { what: 'a seal on its way' })
    const order = { product_id: 'residential-premium', quantity: 1 }
    const { status } = await buyer.post('/api/v1/orders', order, { headers: { 'idempotency-key': 'one' } })
    assert.equal(status, 201)
    await until(async () => ((await core.log.lastOf('seal' as never))?.revision ?? -1) >= 1, {
      what: 'sealing that goes on',
    })
    const ready = await fetch(`${insideUrl}/readyz`)
    const body = (await ready.json()) as { notes: Record<string, string>; checks: Record<string, string> }
    assert.equal(ready.status, 200)
    assert.match(body.notes['seal target'] ?? '', /^\d+ seals? behind for \d+ seconds?/)
    assert.equal(body.checks['seal target'], undefined)
    const metrics = await (await fetch(`${insideUrl}/metrics`)).text()
    assert.match(metrics, /^farebox_seal_target_behind_seals [1-9]/m)
    assert.match(metrics, /^farebox_seal_target_behind_seconds \d/m)
    assert.match(metrics, /^farebox_seal_target_problem [01]$/m)
    await close()
    assert.ok(!lines.join('').includes(token), 'no token in the log')
  })
})
