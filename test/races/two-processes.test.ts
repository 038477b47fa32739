import assert from 'node:assert/strict'
import { test } from 'node:test'
import { call } from '../support/farebox.ts'
import { assertVerified } from '../support/verify.ts'
import { allOrders, askBoth, balanceOf, counted, logOf, openTwo } from './two-shops.ts'

const orders = '/api/v1/orders'
const static1 = (country: string) => ({
  product_id: 'isp-static',
  quantity: 1,
  fulfillment_meta: { country, period_days: 30 },
})
const traffic = { product_id: 'residential-premium', quantity: 1 }
const trafficCents = 550

test('two services on one database', async (t) => {
  const two = await openTwo(t)
  const [a, b] = two.shops

  await t.test(
    'the last address, requested 16 times at once over both, goes to exactly one order',
    async () => {
      const { key } = await two.customer(1_000_000)
      const rest = { ...static1('POL'), quantity: 59 }
      const taken = await askBoth(two, 1, key, orders, () => ({ body: rest, idempotencyKey: 'rest' }))
      assert.deepEqual(counted(taken), { '201': 1 })
      const before = await balanceOf(two, key)
      const answers = await askBoth(two, 16, key, orders, (n) => ({
        body: static1('POL'),
        idempotencyKey: `last ${n}`,
      }))
      assert.deepEqual(counted(answers), { '201': 1, '409 out_of_stock': 15 })
      const [won] = answers.filter(({ status }) => status === 201)
      assert.equal(await balanceOf(two, key), before - won!.body.amountCents)
      const { body } = await call(`${a.baseUrl}/api/v1/proxies?country=POL&limit=100`, key)
      assert.equal(new Set(body.proxies.map(({ ip }: { ip: string }) => ip)).size, 60)
    },
  )

  await t.test('one Idempotency-Key, sent 16 times at once to both, creates one order', async () => {
    const { key } = await two.customer(1_000_000)
    const answers = await askBoth(two, 16, key, orders, () => ({ body: traffic, idempotencyKey: 'one' }))
    assert.deepEqual(counted(answers), { '201': 1, '200': 15 })
    assert.equal(new Set(answers.map(({ body }) => body.orderId)).size, 1)
    assert.equal(await balanceOf(two, key), 1_000_000 - trafficCents)
    const conflicting = await askBoth(two, 16, key, orders, (n) => ({
      body: { ...traffic, quantity: (n % 2) + 1 },
      idempotencyKey: 'two bodies',
    }))
    const { '201': placed, '200': replayed, '409 idempotency_conflict': refused } = counted(conflicting)
    assert.deepEqual([placed, replayed, refused], [1, 7, 8])
  })

  for (const { what, path, body } of [
    { what: 'a hosted order', path: orders, body: { ...traffic, method: 'card' } },
    { what: 'a deposit', path: '/api/v1/deposits', body: { amount_cents: 2_500 } },
    {
      what: 'a subscription',
      path: '/api/v1/subscriptions',
      body: { ...traffic, quantity: 10, interval: 'month' },
    },
  ])
    await t.test(
      `${what}, requested 12 times at once over both, is created once and returned 11 times`,
      async () => {
        const { key } = await two.customer(1_000_000)
        const answers = await askBoth(two, 12, key, path, () => ({ body, idempotencyKey: 'twelve' }))
        const replayed = answers.filter(({ headers }) => headers.get('idempotency-replayed') === 'true')
        assert.equal(replayed.length, 11, JSON.stringify(counted(answers)))
        const made = path === '/api/v1/deposits' ? { '200': 12 } : { '201': 1, '200': 11 }
        assert.deepEqual(counted(answers), made)
      },
    )

  await t.test('a wallet that both spend at once ends at exactly zero', async () => {
    const { key } = await two.customer(40 * trafficCents)
    const answers = await askBoth(two, 60, key, orders, (n) => ({
      body: traffic,
      idempotencyKey: `hot ${n}`,
    }))
    assert.deepEqual(counted(answers), { '201': 40, '402 insufficient_balance': 20 })
    assert.equal(await balanceOf(two, key), 0)
    const left = answers.filter(({ status }) => status === 201).map(({ body }) => body.balanceCents as number)
    const expected = Array.from({ length: 40 }, (_, n) => n * trafficCents)
    assert.deepEqual(
      left.sort((x, y) => x - y),
      expected,
      'each order left another balance',
    )
    const listed = await allOrders(b.baseUrl, key)
    assert.equal(
      listed.reduce((sum, { amountCents }) => sum + amountCents, 0),
      40 * trafficCents,
    )
  })

  await t.test('a daily cap holds over both, and is reached exactly', async () => {
    const { key } = await two.customer(1_000_000, 10 * trafficCents)
    const answers = await askBoth(two, 32, key, orders, (n) => ({
      body: traffic,
      idempotencyKey: `cap ${n}`,
    }))
    assert.deepEqual(counted(answers), { '201': 10, '402 spend_cap_reached': 22 })
    assert.equal(await balanceOf(two, key), 1_000_000 - 10 * trafficCents)
  })

  await t.test('a reference that two command lines credit at once moves money once', async () => {
    const { accountId, key } = await two.customer(100)
    const credit = [
      ...['wallet', 'credit', '--kind=payment', '--account', accountId],
      ...['--cents', '700', '--reference', 'wire 1'],
    ]
    const printed = await Promise.all([two.operator(...credit), two.operator(...credit)])
    assert.deepEqual(printed.map(({ code }) => code).sort(), [0, 1])
    assert.equal(printed.find(({ code }) => code === 1)?.json.code, 'already_applied')
    assert.equal(await balanceOf(two, key), 800)
  })

  await t.test('an order that command lines refund at once is refunded once', async () => {
    const { key } = await two.customer(10_000)
    const { body } = await call(`${a.baseUrl}${orders}`, key, { body: static1('ESP') })
    const refund = ['orders', 'refund', '--order', body.orderId]
    const printed = await Promise.all([two.operator(...refund), two.operator(...refund)])
    assert.deepEqual(printed.map(({ code }) => code).sort(), [0, 1])
    assert.equal(await balanceOf(two, key), 10_000)
  })

  await t.test('a write of one service is read at once in the other', async () => {
    const { key } = await two.customer(1_000_000)
    const write = async (n: number) => {
      const [writer, reader] = n % 2 === 0 ? [a, b] : [b, a]
      const placed = await call(`${writer.baseUrl}${orders}`, key, { body: static1('GBR') })
      assert.equal(placed.status, 201, JSON.stringify(placed.body))
      const { orderId, balanceCents } = placed.body
      const [order, wallet, proxies] = await Promise.all(
        [`${orders}/${orderId}`, '/api/v1/wallet', `/api/v1/proxies?order_id=${orderId}`].map((path) =>
          call(`${reader.baseUrl}${path}`, key),
        ),
      )
      assert.deepEqual([order!.status, order!.body.status], [200, 'completed'], JSON.stringify(order!.body))
      assert.equal(wallet!.body.balanceCents, balanceCents)
      assert.equal(proxies!.body.total, 1)
    }
    for (let n = 0; n < 8; n += 1) await write(n)
  })

  await t.test('after all of this a verification finds nothing wrong', async (t) => {
    const { events, groups } = await assertVerified({
      pool: two.pool,
      log: await logOf(t, two),
      sealKey: Buffer.from(two.env.FAREBOX_SEAL_KEY!, 'base64'),
    })
    assert.ok(events > 1_000)
    for (const { group, rows } of groups) assert.ok(rows > 0, `${group} has no rows of all that`)
  })
})
