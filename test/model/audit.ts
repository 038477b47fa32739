import assert from 'node:assert/strict'
import type { HttpClient } from '../support/http.ts'
import { bytesPerGb, type Order, type Plan, type Rental, remainingBytes, type World } from './model.ts'
import type { Shop } from './shop.ts'

// biome-ignore lint/suspicious/noExplicitAny: the client checked it against the interface description
type Body = any

const all = async (http: HttpClient, key: string, path: string, name: string): Promise<Body[]> => {
  const items: Body[] = []
  for (;;) {
    const { status, body, text } = await http.get(`${path}?limit=100&offset=${items.length}`, { key })
    assert.equal(status, 200, text)
    items.push(...body[name])
    if (items.length >= body.total || body[name].length === 0) {
      assert.equal(items.length, body.total, `${path} counts what it lists`)
      return items
    }
  }
}

const ownedBy = <Item extends { readonly account: string }>(
  items: Record<string, Item>,
  name: string,
): Item[] => Object.values(items).filter(({ account }) => account === name)

const sameThings = (actual: readonly object[], expected: readonly object[], what: string): void => {
  const texts = (items: readonly object[]) => items.map((item) => JSON.stringify(item)).sort()
  assert.deepEqual(texts(actual), texts(expected), what)
}

/** The balance is the model's, never below zero, and what moved it adds up to it. */
const auditMoney = async (http: HttpClient, key: string, name: string, world: World): Promise<void> => {
  const account = world.accounts[name]!
  const { body: wallet } = await http.get('/api/v1/wallet', { key })
  assert.equal(wallet.balanceCents, account.balanceCents, `the balance of ${name}`)
  assert.ok(wallet.balanceCents >= 0, `${name} is below zero`)
  const list = (await all(http, key, '/api/v1/wallet/transactions', 'transactions')).reverse()
  let sum = 0
  for (const { amountCents, amountMicros, balanceAfterCents } of list) {
    sum += amountCents
    assert.equal(balanceAfterCents, sum, `the transactions of ${name} add up`)
    assert.equal(amountMicros, amountCents * 10_000)
    assert.ok(sum >= 0, `${name} was below zero`)
  }
  assert.equal(sum, wallet.balanceCents)
  sameThings(
    list.map(({ type, amountCents, orderId }) => ({ type, cents: amountCents, orderId })),
    account.movements,
    `what moved the wallet of ${name}`,
  )
  const paid = ownedBy(world.orders, name).reduce(
    (cents, order) => cents + order.costCents - order.refundedCostCents,
    0,
  )
  const given = list.filter(({ type }) => type !== 'order' && type !== 'refund')
  const givenCents = given.reduce((cents, { amountCents }) => cents + amountCents, 0)
  // A debt takes part of what comes in; the movements above were held against the model's, which knows how much.
  if (given.every(({ type }) => type !== 'chargeback'))
    assert.equal(wallet.balanceCents, givenCents - paid, `the money of ${name} is conserved`)
}

const orderOf = (order: Order, { reseller }: Pick<World['accounts'][string], 'reseller'>) => ({
  orderId: order.orderId,
  kind: order.kind,
  status: order.refundedCents === order.amountCents ? 'refunded' : 'completed',
  productId: order.productId,
  quantity: order.quantity,
  amountCents: order.amountCents,
  refundedCents: order.refundedCents,
  refundedCostCents: reseller ? order.refundedCostCents : undefined,
  planId: order.planId,
  proxyIds: order.proxyIds,
})

const planOf = (plan: Plan, nowMs: number) => {
  const { totalGb, usedBytes, takenBytes } = plan
  const totalBytes = totalGb === null ? null : totalGb * bytesPerGb - takenBytes
  const expired = plan.expiresAtMs !== null && plan.expiresAtMs <= nowMs
  const depleted = totalBytes !== null && usedBytes >= totalBytes
  return {
    planId: plan.planId,
    productId: plan.productId,
    status: expired ? 'expired' : depleted ? 'depleted' : 'active',
    dataGbTotal: totalBytes === null ? null : totalBytes / bytesPerGb,
    bytesUsed: usedBytes,
    dataGbRemaining: totalBytes === null ? null : remainingBytes(plan) / bytesPerGb,
  }
}

const rentalOf = (rental: Rental, nowMs: number) => {
  const over = rental.releasedAtMs !== null || rental.expiresAtMs <= nowMs
  const refunded = rental.releasedAtMs !== null && rental.releasedAtMs < rental.expiresAtMs
  const soon = rental.expiresAtMs <= nowMs + 72 * 60 * 60 * 1000
  return {
    proxyId: rental.proxyId,
    orderId: rental.orderId,
    productId: rental.productId,
    country: rental.target.country,
    carrier: rental.target.carrierId,
    service: rental.target.service,
    rotationMinutes: rental.target.rotationMinutes,
    status: over ? 'expired' : soon ? 'expiring' : 'active',
    expiresAt: refunded ? 'its refund' : new Date(rental.expiresAtMs).toISOString(),
  }
}

const pick = (item: Body, like: object): object =>
  Object.fromEntries(Object.keys(like).map((name) => [name, item[name]]))

/** Rentals as the customer sees them; the world stores their addresses. */
const auditRentals = async (shop: Shop, key: string, name: string, world: World): Promise<void> => {
  const mine = ownedBy(world.rentals, name)
  const list = await all(shop.http(), key, '/api/v1/proxies', 'proxies')
  const expected = mine.map((rental) => rentalOf(rental, shop.nowMs()))
  const refunded = new Set(
    expected.filter(({ expiresAt }) => expiresAt === 'its refund').map(({ proxyId }) => proxyId),
  )
  const seen = list.map((proxy) => ({
    ...pick(proxy, expected[0] ?? {}),
    ...(refunded.has(proxy.proxyId) && { expiresAt: 'its refund' }),
  }))
  sameThings(seen, expected, `the addresses of ${name}`)
  for (const proxy of list) {
    const rental = world.rentals[proxy.proxyId]!
    assert.ok(rental.ip === null || rental.ip === proxy.ip, `${proxy.proxyId} changed its address`)
    rental.ip = proxy.ip
  }
}

const auditOrders = async (http: HttpClient, key: string, name: string, world: World): Promise<void> => {
  const expected = ownedBy(world.orders, name).map((order) => orderOf(order, world.accounts[name]!))
  const listed = await all(http, key, '/api/v1/orders', 'orders')
  sameThings(
    listed.map((order) => pick(order, expected[0] ?? {})),
    expected,
    `the orders of ${name}`,
  )
}

const auditPlans = async (shop: Shop, key: string, name: string, world: World): Promise<void> => {
  const expected = ownedBy(world.plans, name).map((plan) => planOf(plan, shop.nowMs()))
  const listed = await all(shop.http(), key, '/api/v1/plans', 'plans')
  sameThings(
    listed.map((plan) => pick(plan, expected[0] ?? {})),
    expected,
    `the plans of ${name}`,
  )
}

/** The credit of each customer and the earnings from it, which add up: the reseller's book and the wallet. */
const auditCustomers = async (http: HttpClient, key: string, name: string, world: World): Promise<void> => {
  if (!world.accounts[name]!.reseller) return
  const known = ownedBy(world.customers, name)
  const listed = await all(http, key, '/api/v1/reseller/customers', 'customers')
  for (const { customer, creditCents } of listed) {
    const model = known.find((one) => one.name === customer)
    assert.equal(creditCents, model?.creditCents ?? 0, `the credit of ${customer}`)
    assert.ok(creditCents >= 0)
  }
  for (const { name: customer, creditCents } of known)
    if (creditCents > 0)
      assert.ok(
        listed.some((one) => one.customer === customer),
        `${customer} is not listed`,
      )
  const sold = ownedBy(world.orders, name).filter((order) => order.customer !== null)
  const revenueCents = sold.reduce((cents, order) => cents + order.amountCents - order.refundedCents, 0)
  const costCents = sold.reduce((cents, order) => cents + order.costCents - order.refundedCostCents, 0)
  const { body } = await http.get('/api/v1/reseller/statement', { key })
  assert.deepEqual(body.totals, {
    orders: sold.length,
    revenueCents,
    costCents,
    marginCents: revenueCents - costCents,
  })
}

/** Holds everything that an account can read against the model. */
const auditAccount = async (shop: Shop, key: string, name: string, world: World): Promise<void> => {
  const http = shop.http()
  await Promise.all([
    auditMoney(http, key, name, world),
    auditOrders(http, key, name, world),
    auditPlans(shop, key, name, world),
    auditRentals(shop, key, name, world),
    auditCustomers(http, key, name, world),
  ])
}

/** Compares all readable data with the model; `keys` read, by the accounts' names. */
export const audit = async (
  shop: Shop,
  keys: Readonly<Record<string, string>>,
  world: World,
): Promise<void> => {
  await Promise.all(Object.entries(keys).map(([name, key]) => auditAccount(shop, key, name, world)))
  const running = Object.values(world.rentals).filter(({ releasedAtMs }) => releasedAtMs === null)
  assert.equal(
    new Set(running.map(({ ip }) => ip)).size,
    running.length,
    'an address is in two running rentals',
  )
}
