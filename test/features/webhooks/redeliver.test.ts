import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { deliveriesOf, hookTo, path, ping, startReactor, startWorker, untilDelivery } from './deliveries.ts'
import { startReceiver, status } from './receiver.ts'

const hour = 60 * 60 * 1000

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
