import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { DisablingReason } from '../../../src/domain/webhooks/events.ts'
import { createWebhooks } from '../../../src/features/webhooks/endpoint-service.ts'
import { isoTime } from '../../../src/kernel/clock.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { operator } from '../../support/operator.ts'
import { type OwnApp, type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { caughtUp, enqueued, nowhere } from './causes.ts'
import {
  deliveriesOf,
  type Hook,
  hookTo,
  path,
  ping,
  startReactor,
  startWorker,
  untilDelivery,
  valuesOf,
} from './deliveries.ts'
import { type Receiver, startReceiver, status } from './receiver.ts'

const hour = 60 * 60 * 1000

/** Keeps every request open for a moment, and reports how many were open at once, and when each came. */
const countOpen = ({ core }: TestApp, receiver: Receiver, code: number) => {
  const timesMs: number[] = []
  let open = 0
  let most = 0
  receiver.answer((response) => {
    timesMs.push(core.clock())
    open += 1
    most = Math.max(most, open)
    void sleep(20).then(() => {
      open -= 1
      response.writeHead(code).end()
    })
  })
  return { most: () => most, timesMs }
}

/** Waits for so many requests, with a clock that runs several times as fast as that of the machine. */
const untilReceived = (app: OwnApp, { received }: Receiver, count: number) =>
  until(
    () => {
      if (received.length < count) app.wait(100)
      return received.length >= count
    },
    { everyMs: 20, what: `${count} attempts` },
  )

test('a URL that never answered 2xx gets one attempt, then fewer and fewer, however much there is to send', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  startReactor(t, app)
  const receiver = await startReceiver(t)
  const { most, timesMs } = countOpen(app, receiver, 404)
  const hook = await hookTo(app, receiver.url)
  await Promise.all(Array.from({ length: 40 }, () => ping(app, hook)))
  assert.equal((await deliveriesOf(app, hook)).length, 40)
  startWorker(t, app)
  await untilReceived(app, receiver, 4)
  const [first, second, third, fourth] = timesMs as [number, number, number, number]
  assert.ok(second - first >= 950, `${second - first} ms before the second`)
  assert.ok(third - second >= 1_950, `${third - second} ms before the third`)
  assert.ok(fourth - third >= 3_900, `${fourth - third} ms before the fourth`)
  assert.equal(most(), 1)
  assert.equal(receiver.received.length, 4)
})

test('after one success an endpoint gets the rest at once, and a new URL must succeed first', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  startReactor(t, app)
  const receiver = await startReceiver(t)
  const { most } = countOpen(app, receiver, 200)
  const hook = await hookTo(app, receiver.url)
  await Promise.all(Array.from({ length: 40 }, () => ping(app, hook)))
  await deliveriesOf(app, hook)
  startWorker(t, app)
  await until(async () => (await deliveriesOf(app, hook)).every((one) => one.status === 'succeeded'))
  assert.equal(most(), 4, 'as many at once as any endpoint')

  const newReceiver = await startReceiver(t)
  const there = countOpen(app, newReceiver, 403)
  const moved = await app.client.call('PATCH', `${path}/${hook.id}`, {
    key: hook.key,
    json: { url: newReceiver.url },
  })
  assert.equal(moved.status, 200, moved.text)
  await Promise.all(Array.from({ length: 20 }, () => ping(app, hook)))
  await untilReceived(app, newReceiver, 3)
  const [first, second, third] = there.timesMs as [number, number, number]
  assert.ok(second - first >= 950 && third - second >= 1_950, 'it is left alone after each failure')
  assert.equal(there.most(), 1)
})

test('an endpoint that fails for five days is disabled, and its deliveries are canceled; one success prevents it', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  startReactor(t, app, app.core)
  startWorker(t, app, app.core)
  const dead = await startReceiver(t)
  const recovering = await startReceiver(t)
  for (const receiver of [dead, recovering]) receiver.answer(status(500))
  const hooks = [await hookTo(app, dead.url), await hookTo(app, recovering.url)] as const

  /** A ping of each, tried ten times in three days. */
  const round = async (beforeTheLast: () => Promise<void>): Promise<void> => {
    const ids = [await ping(app, hooks[0]), await ping(app, hooks[1])] as const
    for (let attempts = 1; attempts <= 10; attempts++) {
      await Promise.all(
        hooks.map((hook, at) =>
          untilDelivery(
            app,
            hook,
            ids[at]!,
            (one) => one.attempts.length >= attempts || one.status === 'canceled',
          ),
        ),
      )
      if (attempts === 9) await beforeTheLast()
      app.wait(7 * hour)
    }
  }
  const shown = async (at: 0 | 1) =>
    (await app.client.get(`${path}/${hooks[at].id}`, { key: hooks[at].key })).body

  await round(async () => undefined)
  assert.equal((await shown(0)).status, 'active', 'three days are not enough')
  recovering.answer((response) => response.end('ok'))
  await untilDelivery(app, hooks[1], await ping(app, hooks[1]), (one) => one.status === 'succeeded')
  await until(async () => (await shown(1)).failingSince === null)
  assert.notEqual((await shown(0)).failingSince, null)
  recovering.answer(status(500))
  await round(async () => {
    await ping(app, hooks[0])
  })
  await until(async () => (await shown(0)).status === 'disabled', { what: 'the end of it' })
  assert.equal((await shown(0)).disabledReason, 'failing')
  const noticed = async () =>
    (await app.client.get('/api/v1/announcements', { key: hooks[0].key })).body.announcements
  await until(async () => (await noticed()).length > 0, { what: 'the notice of it' })
  await until(async () => (await deliveriesOf(app, hooks[0])).every((one) => one.status !== 'pending'))
  const ends = (await deliveriesOf(app, hooks[0])).map((one) => one.status)
  assert.ok(ends.includes('canceled'), ends.join())
  assert.equal((await noticed()).length, 1)
  assert.equal((await shown(1)).status, 'active', 'it answered in between')
})

/** Reads the feed once every read model has the present log. */
const feedOf = async (app: TestApp, key: string) => {
  assert.ok(await app.caughtUp())
  const { body, status: code, text } = await app.client.get('/api/v1/announcements', { key })
  assert.equal(code, 200, text)
  return body.announcements
}

test('the account of a disabled endpoint gets one notice, in its feed and at its other endpoints, and no other account does', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  const { core } = app
  const reactor = startReactor(t, app)
  const event = 'announcement.published'
  const owner = await app.customer({ cents: 0 })
  const failing = await hookTo(app, nowhere, [event], owner)
  const sibling = await hookTo(app, nowhere, [event], owner)
  const unrelated = await hookTo(app, nowhere, [event])
  const gone = await hookTo(app, nowhere, [event])
  const webhooks = createWebhooks({ runner: core.runner, values: valuesOf(app) })
  const disable = (hook: Hook, why: DisablingReason) =>
    webhooks.disable({ accountId: hook.accountId as AccountId, endpointId: hook.id }, why, operator)
  const failingSince = isoTime(core.clock() - 5 * 24 * hour)

  await disable(failing, { reason: 'failing', failingSince })
  await disable(failing, { reason: 'failing', failingSince })
  await disable(gone, { reason: 'gone' })
  await caughtUp(app)
  await caughtUp(app) // past its own appends
  const [notice, ...more] = await feedOf(app, owner.key)
  assert.deepEqual(more, [])
  assert.equal(notice.title, 'A webhook endpoint was disabled')
  assert.deepEqual([notice.kind, notice.audience, notice.unread], ['ACTION_REQUIRED', 'DEVELOPERS', true])
  for (const part of [
    failing.id,
    failingSince,
    isoTime(core.clock()).slice(0, 10),
    'PATCH',
    '/redeliver?since=',
  ])
    assert.ok(notice.body.includes(part), `${part} in: ${notice.body}`)
  assert.ok(!notice.body.includes(nowhere), 'the URL is the account’s secret')
  for (const { key } of [unrelated, gone]) assert.deepEqual(await feedOf(app, key), [])
  const queued = async () =>
    (await enqueued(app))
      .filter(({ event: name }) => name === event)
      .map(({ endpointId, event, resource }) => [endpointId, event, resource])
  assert.deepEqual(await queued(), [[sibling.id, event, notice.id]])

  // A restarted reactor reads the event again.
  await reactor.stop()
  await core.pool.query(`update engine.checkpoints set epoch = epoch + 1, position = 0, last_event = null
    where name = 'webhook-queue'`)
  startReactor(t, app)
  await caughtUp(app)
  assert.equal((await feedOf(app, owner.key)).length, 1)
  assert.deepEqual(await queued(), [[sibling.id, event, notice.id]])

  // A second disabling has its own notice.
  const enabled = { key: owner.key, json: { status: 'active' } }
  assert.equal((await app.client.call('PATCH', `${path}/${failing.id}`, enabled)).status, 200)
  await disable(failing, { reason: 'failing', failingSince })
  await caughtUp(app)
  assert.equal((await feedOf(app, owner.key)).length, 2)
  assert.deepEqual(await feedOf(app, unrelated.key), [])
})
