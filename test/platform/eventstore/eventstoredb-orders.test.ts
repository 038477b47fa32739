import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { demoEnv } from '../../support/demo-env.ts'
import { dataDirectory, type FareboxProcess, farebox, startFarebox } from '../../support/farebox.ts'
import { type HttpClient, httpClientOf } from '../../support/http.ts'
import { emptyDatabase } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { openLog } from './eventstoredb-server.ts'

/**
 * A server of this test's own, e.g. `esdb://127.0.0.1:2114?tls=false`: a server holds one log, and the contract fills
 * the other one with events that are none of the service's.
 */
const emptyServerUrl = process.env.FAREBOX_TEST_EVENTSTORE_EMPTY_URL
const skip = emptyServerUrl ? false : 'FAREBOX_TEST_EVENTSTORE_EMPTY_URL is not set'

const kills = 5
const inFlight = 16
const creditCents = 10_000_000
const addresses = { product_id: 'isp-static', fulfillment_meta: { country: 'USA', period_days: 30 } }
const traffic = { product_id: 'residential-premium', quantity: 1 }

type Shop = {
  readonly env: NodeJS.ProcessEnv
  readonly key: string
  readonly startCents: number
  /** The order that was acknowledged under each key; null while none was. */
  readonly sent: Map<string, { readonly body: object; orderId: string | null }>
}

const balanceCents = async (client: HttpClient): Promise<number> =>
  (await client.get('/api/v1/wallet')).body.balanceCents

/** The operator's command line, next to the running server. */
const operator = async (t: TestContext, env: NodeJS.ProcessEnv, ...args: string[]) => {
  const { code, out, err } = await farebox(t, [...args, '--json'], env)
  assert.equal(code, 0, err)
  return JSON.parse(out)
}

const open = async (t: TestContext) => {
  const log = await openLog(emptyServerUrl!)
  assert.equal(
    await log.head(),
    0,
    'FAREBOX_TEST_EVENTSTORE_EMPTY_URL is of a server that holds a log already',
  )
  await log.close()
  const { url } = await emptyDatabase(t)
  const dataDir = await dataDirectory(t)
  const env = { ...demoEnv(url, dataDir), EVENTSTORE_URL: emptyServerUrl }
  const running = await startFarebox(t, env)
  const { buyer } = JSON.parse(await readFile(join(dataDir, 'demo.json'), 'utf8'))
  const movement = ['--account', buyer.accountId, '--cents', String(creditCents), '--reference', 'end-to-end']
  await operator(t, env, 'wallet', 'credit', '--kind=payment', ...movement)
  const client = await httpClientOf(running.baseUrl, buyer.key)
  const shop: Shop = { env, key: buyer.key, startCents: await balanceCents(client), sent: new Map() }
  return { shop, running, client }
}

const send = (client: HttpClient, body: object, key: string) =>
  client.post('/api/v1/orders', body, { headers: { 'idempotency-key': key } })

/** Every read right after a write shows it: orders, wallet, plan, addresses. */
const buyAndRead = async (t: TestContext, { env }: Shop, client: HttpClient): Promise<void> => {
  const before = await balanceCents(client)
  const bought = await send(client, { ...addresses, quantity: 2 }, 'two-addresses')
  assert.equal(bought.status, 201, bought.text)
  assert.equal(await balanceCents(client), before - bought.body.amountCents)
  const again = await send(client, { ...addresses, quantity: 2 }, 'two-addresses')
  assert.equal(again.status, 200)
  assert.equal(again.headers.get('idempotency-replayed'), 'true')
  assert.equal(again.body.orderId, bought.body.orderId)
  const other = await send(client, { ...addresses, quantity: 3 }, 'two-addresses')
  assert.equal(other.body.code, 'idempotency_conflict')
  const { body: rented } = await client.get(`/api/v1/proxies?order_id=${bought.body.orderId}`)
  assert.equal(rented.proxies.length, 2)

  const plan = await send(client, traffic, 'one-gigabyte')
  assert.equal(plan.status, 201, plan.text)
  const { planId } = plan.body
  const toppedUp = await client.post(`/api/v1/plans/${planId}/topup`, { quantity: 2 })
  assert.equal(toppedUp.status, 201, toppedUp.text)
  assert.equal((await client.get(`/api/v1/plans/${planId}`)).body.dataGbTotal, 3)

  const paid = await balanceCents(client)
  const { refundCents } = await operator(t, env, 'orders', 'refund', '--order', bought.body.orderId)
  assert.equal(refundCents, bought.body.amountCents)
  await until(async () => (await balanceCents(client)) === paid + refundCents, { what: 'the refund' })
  assert.equal((await client.get(`/api/v1/orders/${bought.body.orderId}`)).body.status, 'refunded')
}

/** Orders of both kinds, `inFlight` at a time, until the process is gone. */
const load = async (shop: Shop, running: FareboxProcess, client: HttpClient): Promise<void> => {
  let over = false
  void running.ended.then(() => {
    over = true
  })
  const buyer = async (): Promise<void> => {
    for (let n = 0; !over && n < 1_000; n += 1) {
      const key = randomBytes(8).toString('hex')
      const body = n % 2 === 0 ? traffic : { ...addresses, quantity: 1 }
      shop.sent.set(key, { body, orderId: null })
      await client.call('POST', '/api/v1/orders', { json: body, headers: { 'idempotency-key': key } }).then(
        (answer) => acknowledge(shop, key, answer),
        (error) => {
          if (error instanceof assert.AssertionError) throw error // the others are the broken connection
        },
      )
    }
  }
  await Promise.all(Array.from({ length: inFlight }, buyer))
}

const acknowledge = (
  shop: Shop,
  key: string,
  { status, body, text }: Awaited<ReturnType<typeof send>>,
): void => {
  if (status !== 200 && status !== 201) {
    assert.ok(status === 503 || body.code === 'out_of_stock', text)
    return
  }
  const request = shop.sent.get(key)!
  assert.equal(request.orderId ?? body.orderId, body.orderId, 'one key gave two orders')
  request.orderId = body.orderId
}

const allOrders = async (client: HttpClient) => {
  const orders: { orderId: string; status: string; amountCents: number; refundedCents: number }[] = []
  for (;;) {
    const { status, body, text } = await client.get(`/api/v1/orders?limit=100&offset=${orders.length}`)
    assert.equal(status, 200, text)
    orders.push(...body.orders)
    if (orders.length >= body.total) return orders
  }
}

/**
 * The wallet lacks exactly the cost of the orders, once the completion reactor has ended the orders that the
 * kill left open.
 */
const audit = async (shop: Shop, client: HttpClient, calls: number): Promise<void> => {
  let seen = ''
  await until(
    async () => {
      const orders = await allOrders(client)
      const paid = orders.reduce((sum, order) => sum + order.amountCents - order.refundedCents, 0)
      const missing = shop.startCents - (await balanceCents(client))
      seen = `orders of ${paid} cents, ${missing} cents gone`
      return paid === missing
    },
    { timeoutMs: 30_000, what: 'a wallet that matches the orders' },
  ).catch((error) => assert.fail(`${error.message}: ${seen}`))
  const orders = await allOrders(client)
  const byId = new Map(orders.map((order) => [order.orderId, order]))
  assert.equal(byId.size, orders.length, 'an order is listed twice')
  for (const { status } of orders) assert.ok(status === 'completed' || status === 'refunded', status)
  for (const [key, { orderId }] of shop.sent)
    if (orderId !== null) assert.ok(byId.has(orderId), `the order of ${key} is gone`)
  assert.ok(orders.length <= shop.sent.size + calls, 'there are orders without a request')
}

/** How many orders a kill left as a prefix: they were placed by the completion, not by their request. */
const completedByReactor = async (): Promise<number> => {
  const log = await openLog(emptyServerUrl!)
  const stored = await log.readAll(0, 1_000_000)
  await log.close()
  return stored
    .filter(({ type }) => type === 'OrderCompleted' || type === 'OrderPlaced')
    .filter(({ metadata }) => JSON.parse(metadata).actor.name === 'completion').length
}

/** Every address is in one running rental at most. */
const noAddressTwice = async (client: HttpClient): Promise<void> => {
  const ips: string[] = []
  for (let total = 1, offset = 0; offset < total; offset += 100) {
    const { body } = await client.get(`/api/v1/proxies?limit=100&offset=${offset}`)
    total = body.total
    for (const proxy of body.proxies) if (proxy.status !== 'expired') ips.push(proxy.ip)
  }
  assert.equal(new Set(ips).size, ips.length, 'an address is rented twice')
}

test(`the whole service on EventStoreDB keeps its orders over ${kills} kills during them`, {
  skip,
}, async (t) => {
  const { shop, running: first, client } = await open(t)
  await buyAndRead(t, shop, client)
  await audit(shop, client, 3)
  await first.stop()

  for (let kill = 0; kill < kills; kill += 1) {
    const running = await startFarebox(t, shop.env)
    const killed = await httpClientOf(running.baseUrl, shop.key)
    const loading = load(shop, running, killed)
    // How long it takes until enough orders are acknowledged differs from run to run, and so does where the kill falls.
    const before = [...shop.sent.values()].filter(({ orderId }) => orderId !== null).length
    await until(
      () => [...shop.sent.values()].filter(({ orderId }) => orderId !== null).length >= before + 20 + kill,
      { timeoutMs: 30_000, what: 'orders under way' },
    )
    await running.kill()
    await loading
    const again = await startFarebox(t, shop.env)
    const reader = await httpClientOf(again.baseUrl, shop.key)
    await audit(shop, reader, 3)
    await again.stop()
  }

  const last = await startFarebox(t, shop.env)
  const reader = await httpClientOf(last.baseUrl, shop.key)
  const acknowledged = () => [...shop.sent.values()].filter(({ orderId }) => orderId !== null).length
  const atOnce = acknowledged()
  for (const [key, { body, orderId }] of shop.sent)
    if (orderId === null) acknowledge(shop, key, await send(reader, body, key))
  await audit(shop, reader, 3)
  await noAddressTwice(reader)
  await last.stop()
  const completed = await completedByReactor()
  t.diagnostic(
    `${kills} kills, ${atOnce} orders acknowledged, ${acknowledged() - atOnce} more by a retry, ${completed} prefixes completed`,
  )
})
