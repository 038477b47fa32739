import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { done } from '../../support/app-actions.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { startReceiver } from './receiver.ts'

const path = '/api/v1/webhooks'
const all = [
  'order.fulfilled',
  'order.failed',
  'order.refunded',
  'subscription.canceled',
  'subscription.expired',
  'plan.low_traffic',
  'wallet.low_balance',
  'key.cap_reached',
  'announcement.published',
  'ping',
]

test('webhook endpoints over HTTP', async (t) => {
  const app = await testApp(t)
  const { client } = app
  const receiver = await startReceiver(t)

  const refused = async (key: string, body: unknown, code: string, message: RegExp) => {
    const answer = await client.post(path, body, { key })
    assert.equal(answer.body.code, code, answer.text)
    assert.match(answer.body.error, message)
  }

  await t.test('an endpoint is registered for all events, and its secret is shown once', async () => {
    const { key } = await app.customer({ cents: 0 })
    const made = await client.post(path, { url: receiver.url }, { key })
    assert.equal(made.status, 201, made.text)
    assert.deepEqual([made.body.events, made.body.status, made.body.url], [all, 'active', receiver.url])
    assert.match(made.body.id, /^whs_/)
    assert.equal(Buffer.from(made.body.secret.replace(/^whsec_/, ''), 'base64').length, 32)
    const listed = await client.get(path, { key })
    const { secret: _, ...shown } = made.body
    assert.deepEqual(listed.body, { webhooks: [shown], total: 1, limit: 50, offset: 0 })
    const one = await client.get(`${path}/${made.body.id}`, { key })
    assert.deepEqual([one.status, one.body], [200, shown], 'one is read as it is listed')
    const { id } = (await done(client.post(path, { url: receiver.url, events: ['ping'] }, { key }))).body
    const both = (await client.get(path, { key })).body.webhooks.map((one: { id: string }) => one.id)
    assert.deepEqual(both, [id, shown.id], 'the newest comes first')
  })

  await t.test('wrong input is refused with the accepted values', async () => {
    const { key } = await app.customer({ cents: 0 })
    const url = receiver.url
    await refused(key, {}, 'invalid_body', /url is missing/)
    await refused(key, { url: 7 }, 'invalid_body', /url must be a text/)
    await refused(key, { url, events: 5 }, 'invalid_body', /events must be a list /)
    await refused(key, { url, events: 'ping' }, 'invalid_body', /events must be a list/)
    await refused(
      key,
      { url, events: [] },
      'invalid_events',
      /at least one event; accepted are order\.fulfilled/,
    )
    await refused(key, { url, events: ['ping', 'ping'] }, 'invalid_events', /twice: "ping"/)
    await refused(
      key,
      { url, events: ['order.paid', 'ping', 'plan.gone'] },
      'invalid_events',
      /unknown names: "order\.paid", "plan\.gone"; accepted are .*ping/,
    )
    await refused(key, { url: 'nothing' }, 'invalid_url', /absolute URL/)
    await refused(key, { url: 'ftp://example.com' }, 'invalid_url', /https/)
    await refused(key, { url: 'https://user:pw@example.com' }, 'invalid_url', /user or password/)
    await refused(key, { url: 'https://10.0.0.1/' }, 'invalid_url', /private/)
    await refused(key, { url, colour: 'blue' }, 'unknown_field', /accepted fields: url, events/)
  })

  await t.test('the eleventh active endpoint is refused, also with simultaneous registrations', async () => {
    const { key } = await app.customer({ cents: 0 })
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => client.post(path, { url: receiver.url, events: ['ping'] }, { key })),
    )
    const made = answers.filter(({ status }) => status === 201)
    assert.equal(made.length, 10)
    for (const answer of answers.filter(({ status }) => status !== 201))
      assert.deepEqual([answer.status, answer.body.code], [409, 'webhook_limit_reached'])
    const [first, second] = made as [(typeof made)[0], (typeof made)[0]]
    const patch = (id: string, json: unknown) => client.call('PATCH', `${path}/${id}`, { key, json })
    assert.equal((await patch(first.body.id, { status: 'disabled' })).body.status, 'disabled')
    await done(client.post(path, { url: receiver.url }, { key }))
    const enabled = await patch(first.body.id, { status: 'active' })
    assert.deepEqual([enabled.status, enabled.body.code], [409, 'webhook_limit_reached'])
    assert.equal((await client.call('DELETE', `${path}/${second.body.id}`, { key })).status, 204)
    assert.equal((await patch(first.body.id, { status: 'active' })).body.status, 'active')
  })

  await t.test('an account has at most a hundred endpoints, including disabled ones', async () => {
    const { key } = await app.customer({ cents: 0 })
    const create = () => client.post(path, { url: receiver.url, events: ['ping'] }, { key })
    const ids: string[] = []
    for (let batch = 0; batch < 10; batch++)
      await Promise.all(
        Array.from({ length: 10 }, async () => {
          const { id } = (await done(create())).body
          ids.push(id)
          await done(client.call('PATCH', `${path}/${id}`, { key, json: { status: 'disabled' } }))
        }),
      )
    const refusal = await create()
    assert.deepEqual([refusal.status, refusal.body.code], [409, 'webhook_limit_reached'])
    assert.match(refusal.body.error, /at most 10 active webhook endpoints, and 100 with disabled ones/)
    assert.equal((await client.call('DELETE', `${path}/${ids[0]}`, { key })).status, 204)
    assert.equal((await create()).status, 201, 'one that is removed makes room')
  })

  await t.test("another account's endpoint is not found, in every operation", async () => {
    const owner = await app.customer({ cents: 0 })
    const { key } = await app.customer({ cents: 0 })
    const { id } = (await done(client.post(path, { url: receiver.url }, { key: owner.key }))).body
    const { deliveryId } = (await done(client.post(`${path}/${id}/test`, undefined, { key: owner.key }))).body
    const calls = [
      ['GET', `/${id}`],
      ['PATCH', `/${id}`],
      ['DELETE', `/${id}`],
      ['POST', `/${id}/test`],
      ['POST', `/${id}/rotate-secret`],
      ['GET', `/${id}/deliveries`],
      ['POST', `/${id}/deliveries/${deliveryId}/redeliver`],
      ['POST', `/${id}/redeliver?since=2026-11-21`],
    ] as const
    for (const [method, tail] of calls) {
      const json = method === 'PATCH' ? { status: 'disabled' } : undefined
      const answer = await client.call(method, `${path}${tail}`, { key, json })
      assert.deepEqual([answer.status, answer.body.code], [404, 'not_found'], `${method} ${tail}`)
    }
    assert.equal((await client.get(path, { key: owner.key })).body.webhooks[0].status, 'active')
  })

  await t.test("a delivery of another endpoint cannot be redelivered through one's own", async () => {
    const own = await app.customer({ cents: 0 })
    const owner = await app.customer({ cents: 0 })
    const hook = async (key: string) =>
      (await done(client.post(path, { url: receiver.url }, { key }))).body.id
    const sent = async (key: string, id: string): Promise<string> => {
      const { deliveryId } = (await done(client.post(`${path}/${id}/test`, undefined, { key }))).body
      await until(async () => {
        const { body } = await client.get(`${path}/${id}/deliveries`, { key })
        return body.deliveries.some(
          (one: { id: string; status: string }) => one.id === deliveryId && one.status === 'succeeded',
        )
      })
      return deliveryId
    }
    const [mine, sibling, foreign] = [await hook(own.key), await hook(own.key), await hook(owner.key)]
    const redeliver = (deliveryId: string) =>
      client.post(`${path}/${mine}/deliveries/${deliveryId}/redeliver`, undefined, { key: own.key })
    const absent = `dlv_${'0'.repeat(32)}`
    const plain = ({ status, body: { requestId: _, ...body } }: Awaited<ReturnType<typeof redeliver>>) => ({
      status,
      body,
    })
    const none = plain(await redeliver(absent))
    assert.deepEqual([none.status, none.body.code], [404, 'not_found'])
    for (const deliveryId of [await sent(owner.key, foreign), await sent(own.key, sibling)])
      assert.deepEqual(plain(await redeliver(deliveryId)), none)
    assert.deepEqual((await client.get(`${path}/${mine}/deliveries`, { key: own.key })).body.deliveries, [])
  })

  await t.test(
    'a ping arrives signed in both header families, and is listed among the deliveries',
    async () => {
      const { key } = await app.customer({ cents: 0 })
      const made = (await done(client.post(path, { url: receiver.url, events: ['order.failed'] }, { key })))
        .body
      const queued = (await done(client.post(`${path}/${made.id}/test`, undefined, { key }))).body
      const ping = await until(() =>
        receiver.received.find(({ headers }) => headers['webhook-id'] === queued.deliveryId),
      )
      assert.deepEqual(Object.keys(ping.json), ['event', 'created', 'resource', 'data'])
      assert.equal(ping.json.event, 'ping')
      assert.equal(ping.json.data.webhookId, made.id)
      assert.equal(ping.headers['x-service-event'], 'ping')
      assert.equal(ping.headers['x-service-timestamp'], ping.json.created)
      assert.equal(ping.headers['content-type'], 'application/json')
      const hex = createHmac('sha256', made.secret).update(ping.body).digest('hex')
      assert.equal(ping.headers['x-service-signature'], hex)
      new Webhook(made.secret).verify(ping.body, ping.headers as Record<string, string>)
      const delivery = await until(async () => {
        const { body } = await client.get(`${path}/${made.id}/deliveries`, { key })
        // The attempt is stored after its outcome is in the log, from which the status may be read before.
        return body.deliveries.find(
          (one: { status: string; attempts: readonly unknown[] }) =>
            one.status === 'succeeded' && one.attempts.length > 0,
        )
      })
      assert.equal(delivery.id, queued.deliveryId)
      assert.deepEqual(
        delivery.attempts.map((one: { status: number; answer: string }) => [one.status, one.answer]),
        [[200, 'ok']],
      )
      const again = await done(
        client.post(`${path}/${made.id}/deliveries/${queued.deliveryId}/redeliver`, undefined, { key }),
      )
      assert.deepEqual(again.body, queued)
      await until(
        () =>
          receiver.received.filter(({ headers }) => headers['webhook-id'] === queued.deliveryId).length === 2,
      )
    },
  )

  await t.test('the data of an order equals its read endpoint', async () => {
    const { key } = await app.customer({ cents: 10_000 })
    await done(client.post(path, { url: receiver.url, events: ['order.fulfilled'] }, { key }))
    const order = (
      await done(client.post('/api/v1/orders', { product_id: 'residential-premium', quantity: 1 }, { key }))
    ).body
    const delivered = await until(() => receiver.received.find(({ json }) => json.resource === order.orderId))
    const { orderId, status, productId, quantity, amountCents, currency, createdAt, fulfilledAt } = order
    assert.deepEqual(delivered.json.data, {
      orderId,
      status,
      productId,
      quantity,
      amountCents,
      currency,
      createdAt,
      fulfilledAt,
    })
  })

  await t.test('after a rotation the former secret signs too', async () => {
    const { key } = await app.customer({ cents: 0 })
    const made = (await done(client.post(path, { url: receiver.url }, { key }))).body
    const rotated = (await done(client.post(`${path}/${made.id}/rotate-secret`, undefined, { key }))).body
    assert.notEqual(rotated.secret, made.secret)
    const { deliveryId } = (await done(client.post(`${path}/${made.id}/test`, undefined, { key }))).body
    const ping = await until(() =>
      receiver.received.find(({ headers }) => headers['webhook-id'] === deliveryId),
    )
    const hex = (secret: string) => createHmac('sha256', secret).update(ping.body).digest('hex')
    assert.equal(ping.headers['x-service-signature'], hex(rotated.secret))
    assert.equal(ping.headers['x-service-signature-previous'], hex(made.secret))
    for (const secret of [made.secret, rotated.secret])
      new Webhook(secret).verify(ping.body, ping.headers as Record<string, string>)
  })
})
