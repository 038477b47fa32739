import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { maxAttempts, retryDelayMs } from '../../../src/features/webhooks/deliver.ts'
import { retryAfterMs } from '../../../src/platform/outgoing/retry-after.ts'
import fc from '../../support/fast-check.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import {
  deliveriesOf,
  eventsOf,
  hookTo,
  path,
  ping,
  startReactor,
  startWorker,
  untilDelivery,
} from './deliveries.ts'
import { startReceiver, status } from './receiver.ts'

const hour = 3_600_000

test('delays double from 30 s, stay below 6 h, and vary by a tenth each way', () => {
  const planned = [30, 60, 120, 240, 480, 960, 1920, 3840, 7680].map((seconds) => seconds * 1000)
  assert.deepEqual(
    planned.map((_, index) => retryDelayMs(index + 1, 0.5, null)),
    planned,
  )
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 40 }),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      fc.option(fc.integer({ min: 0, max: 100 * hour })),
      (attempt, random, retryAfter) => {
        const delay = retryDelayMs(attempt, random, retryAfter)
        const plan = Math.min(6 * hour, 30_000 * 2 ** (attempt - 1))
        assert.ok(delay <= 6 * hour)
        assert.ok(delay >= Math.floor(plan * 0.9))
        if (retryAfter === null || retryAfter <= plan * 0.9) assert.ok(delay <= Math.ceil(plan * 1.1))
        else assert.ok(delay >= Math.min(retryAfter, 6 * hour))
      },
    ),
  )
})

test('Retry-After is read as seconds or as a date, and nothing else', () => {
  const now = Date.parse('2026-11-21T02:30:00Z')
  assert.equal(retryAfterMs('120', now), 120_000)
  assert.equal(retryAfterMs('Sat, 21 Nov 2026 02:31:00 GMT', now), 60_000)
  assert.equal(retryAfterMs('Sat, 21 Nov 2026 02:29:00 GMT', now), 0)
  assert.equal(retryAfterMs('99999999999', now), 31_536_000_000, 'at most a year')
  for (const text of [undefined, '', 'soon', '-5', '1e3', '2026-11-21T02:31:00Z'])
    assert.equal(retryAfterMs(text, now), null, text)
})

test('a delivery that always fails is tried ten times on schedule, signed each time, and then abandoned', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  const { log } = app.core
  // This clock does not advance between its steps, and is ahead of the service's, which times the deliveries.
  let nowMs = app.core.clock() + hour
  const clock = () => nowMs
  const random = () => 0.9
  startReactor(t, app, { clock })
  startWorker(t, app, { clock, random })
  const failing = await startReceiver(t)
  failing.answer(status(500))
  const canary = await startReceiver(t)
  const hook = await hookTo(app, failing.url)
  const watch = await hookTo(app, canary.url)

  /** When a later delivery has arrived, all earlier due ones have been claimed too. */
  const oneRound = async () => {
    const id = await ping(app, watch)
    await untilDelivery(app, watch, id, (one) => one.status === 'succeeded')
  }

  const deliveryId = await ping(app, hook)
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    await until(() => failing.received.length === attempt, { what: `attempt ${attempt}` })
    const delivery = await untilDelivery(app, hook, deliveryId, (one) => one.attempts.length === attempt)
    const last = delivery.attempts.at(-1)!
    assert.deepEqual([last.attempt, last.status, last.answer], [attempt, 500, 'answered 500'])
    if (attempt === maxAttempts) break
    assert.equal(delivery.status, 'pending')
    const planned = Math.min(6 * hour, 30_000 * 2 ** (attempt - 1)) * 1.08
    const waitMs = Date.parse(delivery.nextAttemptAt!) - Date.parse(last.at)
    assert.ok(Math.abs(waitMs - planned) < 1_000, `after attempt ${attempt} it waits ${waitMs} ms`)
    nowMs = Date.parse(delivery.nextAttemptAt!) - 1
    await oneRound()
    assert.equal(failing.received.length, attempt, 'it was sent before it was due')
    nowMs += 1
  }
  const end = await untilDelivery(app, hook, deliveryId, (one) => one.status === 'abandoned')
  assert.equal(end.attempts.length, maxAttempts)
  nowMs += 100 * hour
  await oneRound()
  assert.equal(failing.received.length, maxAttempts)

  const outcomes = (await eventsOf(log, `delivery-${hook.id}`)).map(({ type, data }) => [
    type,
    (data as { attempts?: number }).attempts,
  ])
  assert.deepEqual(outcomes, [
    ['WebhookEnqueued', undefined],
    ['DeliveryAbandoned', maxAttempts],
  ])

  const created = failing.received.map(({ json }) => Date.parse(json.created))
  assert.ok(
    created.every((at, index) => index === 0 || at > created[index - 1]! + 25_000),
    'the time is signed again',
  )
  assert.equal(new Set(failing.received.map(({ headers }) => headers['webhook-id'])).size, 1)
  for (const { body, headers, json } of failing.received) {
    assert.equal(headers['x-service-signature'], createHmac('sha256', hook.secret).update(body).digest('hex'))
    assert.equal(headers['webhook-timestamp'], String(Math.floor(Date.parse(json.created) / 1000)))
    const expected = new Webhook(hook.secret).sign(deliveryId, new Date(json.created), body)
    assert.equal(headers['webhook-signature'], expected)
  }

  await t.test('and a redelivery has ten attempts of its own', async () => {
    failing.answer((response) => response.end('back'))
    const { key, id } = hook
    // Nothing is written after an event of the future: the service has reached the time of the worker.
    app.waitUntil(new Date(nowMs).toISOString())
    await app.client.post(`${path}/${id}/deliveries/${deliveryId}/redeliver`, undefined, { key })
    nowMs += hour
    const again = await untilDelivery(app, hook, deliveryId, (one) => one.status === 'succeeded')
    assert.deepEqual([again.attempts.at(-1)?.round, again.attempts.at(-1)?.attempt], [2, 1])
    assert.equal(again.attempts.length, maxAttempts + 1)
  })
})

test('Retry-After delays an attempt, up to the cap; 410 disables the endpoint and cancels waiting deliveries', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  startReactor(t, app)
  const receiver = await startReceiver(t)
  const hook = await hookTo(app, receiver.url)
  const worker = startWorker(t, app)

  let pauseMs = 1_000
  const waitsFor = async (headers: Record<string, string>) => {
    receiver.answer(status(503, headers))
    const id = await ping(app, hook)
    const { attempts, nextAttemptAt } = await untilDelivery(app, hook, id, (one) => one.attempts.length === 1)
    // A URL that never answered 2xx is left alone after each failure, for twice as long each time.
    app.wait(pauseMs)
    pauseMs *= 2
    return Date.parse(nextAttemptAt!) - Date.parse(attempts[0]!.at)
  }
  const about = (actual: number, expected: number) =>
    assert.ok(Math.abs(actual - expected) < 3_000, `${actual} ms in place of ${expected}`)
  about(await waitsFor({}), 30_000)
  const failing = (await app.client.get(path, { key: hook.key })).body.webhooks[0]
  assert.equal(failing.status, 'active')
  assert.ok(Date.parse(failing.failingSince) > 0, 'it says since when its deliveries fail')
  about(await waitsFor({ 'Retry-After': '7200' }), 7_200_000)
  about(await waitsFor({ 'Retry-After': '5' }), 30_000)
  about(await waitsFor({ 'Retry-After': '999999' }), 6 * hour)

  receiver.answer(status(410))
  const gone = await ping(app, hook)
  await untilDelivery(app, hook, gone, (one) => one.status === 'abandoned')
  const shown = await until(async () => {
    const { body } = await app.client.get(path, { key: hook.key })
    return body.webhooks[0].status === 'disabled' && body.webhooks[0]
  })
  assert.equal(shown.disabledReason, 'gone')
  await until(async () => (await deliveriesOf(app, hook)).every(({ status: state }) => state !== 'pending'))
  assert.equal((await deliveriesOf(app, hook)).filter(({ status: state }) => state === 'canceled').length, 4)
  await worker.stop()
})

test('removing an endpoint cancels waiting deliveries, and nothing more is sent to it', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  startReactor(t, app)
  startWorker(t, app)
  const receiver = await startReceiver(t)
  receiver.answer(status(500))
  const canary = await startReceiver(t)
  const hook = await hookTo(app, receiver.url)
  const ids = [await ping(app, hook), await ping(app, hook), await ping(app, hook)]
  for (const [at, id] of ids.entries()) {
    await untilDelivery(app, hook, id, (one) => one.attempts.length === 1)
    app.wait(1_000 * 2 ** at)
  }
  const removed = await app.client.call('DELETE', `${path}/${hook.id}`, { key: hook.key })
  assert.equal(removed.status, 204)
  app.wait(hour)
  const watch = await hookTo(app, canary.url)
  const seen = await ping(app, watch)
  await untilDelivery(app, watch, seen, (one) => one.status === 'succeeded')
  assert.equal(receiver.received.length, 3)
  const outcomes = await until(async () => {
    const events = await eventsOf(app.core.log, `delivery-${hook.id}`)
    return events.length === 6 && events.map(({ type }) => type).slice(3)
  })
  assert.deepEqual(outcomes, ['DeliveryCanceled', 'DeliveryCanceled', 'DeliveryCanceled'])
  const { rows } = await app.core.pool.query(
    'select 1 from vault.webhook_values where endpoint_id = $1::text',
    [hook.id],
  )
  assert.equal(rows.length, 0, 'its URL and secret are erased')
})

test('a delivery that waits for its next attempt is sent at once when it is redelivered', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  startReactor(t, app)
  startWorker(t, app)
  const receiver = await startReceiver(t)
  receiver.answer(status(503))
  const hook = await hookTo(app, receiver.url)
  const id = await ping(app, hook)
  const waiting = await untilDelivery(app, hook, id, (one) => one.attempts.length === 1)
  assert.ok(Date.parse(waiting.nextAttemptAt!) > app.core.clock() + 20_000, 'it waits')
  receiver.answer((response) => response.end('back'))
  const accepted = await app.client.post(`${path}/${hook.id}/deliveries/${id}/redeliver`, undefined, {
    key: hook.key,
  })
  assert.equal(accepted.status, 202, accepted.text)
  // The outcome may be folded from the log before its attempt is put down.
  const sent = await untilDelivery(
    app,
    hook,
    id,
    (one) => one.status === 'succeeded' && one.attempts.length >= 2,
  )
  assert.deepEqual(
    sent.attempts.map(({ round, attempt }) => [round, attempt]),
    [
      [1, 1],
      [1, 2],
    ],
    'it is the next attempt of its round',
  )
})

test('after an outage an endpoint gets everything that it missed since an instant, in order and once', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  const { clock } = app.core
  startReactor(t, app, { clock })
  startWorker(t, app, { clock, limits: { perOwner: 1 } })
  const receiver = await startReceiver(t)
  const hook = await hookTo(app, receiver.url)
  const redeliver = (since: string) =>
    app.client.post(`${path}/${hook.id}/redeliver?since=${encodeURIComponent(since)}`, undefined, {
      key: hook.key,
    })
  const sendAndWait = async (attempts: number): Promise<string> => {
    const id = await ping(app, hook)
    await untilDelivery(app, hook, id, (one) => one.attempts.length >= attempts)
    return id
  }

  const before = await sendAndWait(1)
  receiver.answer(status(500))
  const early = await sendAndWait(1)
  const since = (await deliveriesOf(app, hook)).find(({ id }) => id === early)!.createdAt
  // Ten attempts fail over hours: the first delivery is abandoned.
  for (let attempts = 2; attempts <= 10; attempts++) {
    app.wait(7 * hour)
    await untilDelivery(app, hook, early, (one) => one.attempts.length >= attempts)
  }
  await untilDelivery(app, hook, early, (one) => one.status === 'abandoned')
  const later = [await sendAndWait(1), await sendAndWait(1), await sendAndWait(1)]
  const seenBefore = receiver.received.length

  receiver.answer((response) => response.end('back'))
  const [first, second] = await Promise.all([redeliver(since), redeliver(since)])
  assert.deepEqual([first.status, second.status], [202, 202], `${first.text} ${second.text}`)
  assert.equal(first.body.count + second.body.count, 4, 'requested twice at once, each is counted once')
  assert.equal(first.body.more, false)
  await until(async () => (await deliveriesOf(app, hook)).every(({ status: state }) => state === 'succeeded'))
  const sent = receiver.received.slice(seenBefore).map(({ headers }) => headers['webhook-id'])
  assert.deepEqual(sent, [early, ...later], 'in the order of the events, each once')
  assert.ok(!sent.includes(before))
  assert.deepEqual((await redeliver(since)).body, { id: hook.id, count: 0, more: false })

  const other = await app.customer({ cents: 0 })
  const foreign = await app.client.post(`${path}/${hook.id}/redeliver?since=${since}`, undefined, {
    key: other.key,
  })
  assert.deepEqual([foreign.status, foreign.body.code], [404, 'not_found'])
  const wrong = await redeliver('yesterday')
  assert.deepEqual([wrong.status, wrong.body.code], [400, 'invalid_parameter'])
  assert.match(wrong.body.error, /since must be a date such as 2026-11-21/)
  const missing = await app.client.post(`${path}/${hook.id}/redeliver`, undefined, { key: hook.key })
  assert.deepEqual([missing.status, missing.body.code], [400, 'invalid_parameter'])
})
