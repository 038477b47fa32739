import { platforms, scrapers } from '../../src/domain/scrapers/scraper-table.ts'
import { done } from '../support/app-actions.ts'
import type { HttpClient } from '../support/http.ts'
import { until } from '../support/until.ts'
import type { Pools } from './arbitraries.ts'
import { closedUrl } from './requests.ts'

/** Waits until lines can go out somewhere: the sandbox makes its exits after the start. */
export const untilExits = async (client: HttpClient, key: string): Promise<void> => {
  const countries = () => client.get('/api/v1/geo/countries', { key })
  await until(async () => (await countries()).body.total >= 12, { what: 'the exits of the sandbox' })
}

/** Something that can be ordered now, with its price. */
export type Offer = {
  readonly product_id: string
  readonly quantity: number
  readonly fulfillment_meta: Readonly<Record<string, unknown>> | null
  readonly amountCents: number
}
/** Rentals that one extension can name. */
export type Rental = {
  readonly order_id: string
  readonly proxy_ids: readonly string[]
  readonly period_days: number
}

/** Data that the service shows a customer: products on sale, and the customer's resources. */
export type Live = {
  readonly offers: readonly Offer[]
  readonly productIds: readonly string[]
  readonly orderIds: readonly string[]
  readonly planIds: readonly string[]
  /** Of top-up products. */
  readonly topUpPlanIds: readonly string[]
  readonly proxyIds: readonly string[]
  /** Those of IPv4, all of this machine: what connects to them gets an answer at once. */
  readonly checkedIds: readonly string[]
  readonly rentals: readonly Rental[]
  readonly depositIds: readonly string[]
  /** Endpoints that stay, and those that are there to be removed. */
  readonly webhookIds: readonly string[]
  readonly subscriptionIds: readonly string[]
  readonly spareWebhookIds: readonly string[]
  /** An endpoint and a delivery of it, with a `|` between. */
  readonly deliveryIds: readonly string[]
  /** Addresses that are on no whitelist of another account. */
  readonly networks: readonly string[]
  /** A plan and an entry of its whitelist that is there to be removed, with a `|` between. */
  readonly entryIds: readonly string[]
  readonly budgetIds: readonly string[]
  /** Those that are there to be removed. */
  readonly spareBudgetIds: readonly string[]
  /** Of a reseller. */
  readonly customerIds: readonly string[]
  readonly movementIds: readonly string[]
  /** Of the account that scrapes. */
  readonly batchIds: readonly string[]
}

type Product = {
  readonly id: string
  readonly state: string
  readonly delivery: string
  readonly shape: string
  readonly minQuantity: number
  readonly lifecycle: { readonly aliases: readonly string[] }
}

/** Quotes of the smallest orders: every gateway product, and dedicated ones in the countries that are in stock. */
const offersOf = async (client: HttpClient, key: string, products: readonly Product[]): Promise<Offer[]> => {
  const offers: Offer[] = []
  const quoted = async (product: Product, quantity: number, country: string | null): Promise<void> => {
    const where = country === null ? '' : `&country=${country}&period_days=30`
    const path = `/api/v1/products/${product.id}/price?quantity=${quantity}${where}`
    const { body } = await done(client.get(path, { key }))
    const { amountCents } = body
    offers.push({ product_id: product.id, quantity, fulfillment_meta: body.targeting ?? null, amountCents })
  }
  for (const product of products.filter(({ state }) => state === 'active')) {
    if (product.delivery === 'lines') {
      for (const more of [0, 1, 2]) await quoted(product, product.minQuantity + more, null)
      continue
    }
    const { body } = await done(client.get(`/api/v1/products/${product.id}/options`, { key }))
    for (const { alpha3 } of body.countries) await quoted(product, product.minQuantity, alpha3)
  }
  return offers
}

const order = async (client: HttpClient, key: string, { amountCents: _, ...offer }: Offer) => {
  const { fulfillment_meta: meta, ...rest } = offer
  const json = meta === null ? rest : { ...rest, fulfillment_meta: meta }
  const headers = { 'Idempotency-Key': `live-${JSON.stringify(json)}` }
  return (await done(client.post('/api/v1/orders', json, { key, headers }))).body
}

/** Reads the catalogue, buys some of each product, and reads the customer's resources. */
/** @param batchIds of the account that scrapes */
export const liveOf = async (
  client: HttpClient,
  key: string,
  batchIds: readonly string[],
  reseller = false,
): Promise<Live> => {
  const products: readonly Product[] = (await done(client.get('/api/v1/products', { key }))).body.products
  const offers = await offersOf(client, key, products)
  const rentals: Rental[] = []
  for (const { id } of products)
    for (const offer of offers.filter(({ product_id }) => product_id === id).slice(0, 2)) {
      const { orderId, proxyIds } = await order(client, key, offer)
      if (proxyIds.length > 0)
        rentals.push({ order_id: orderId, proxy_ids: proxyIds.slice(0, 3), period_days: 30 })
    }
  for (const cents of [1_000, 2_500])
    await done(client.post('/api/v1/deposits', { amount_cents: cents }, { key }))
  const hook = async () => (await done(client.post('/api/v1/webhooks', { url: closedUrl }, { key }))).body.id
  const webhookIds: string[] = [await hook(), await hook()]
  const spareWebhookIds: string[] = [await hook(), await hook(), await hook()]
  const subscriptionIds: string[] = []
  for (const n of [1, 2]) {
    const wish = { product_id: 'residential-premium', quantity: n, interval: 'month' }
    const headers = { 'Idempotency-Key': `live-${n}` }
    const { body } = await done(client.post('/api/v1/subscriptions', wish, { key, headers }))
    subscriptionIds.push(body.subscriptionId)
  }
  const deliveryIds: string[] = []
  for (const id of webhookIds) {
    const { body } = await done(client.post(`/api/v1/webhooks/${id}/test`, undefined, { key }))
    await done(client.get(`/api/v1/webhooks/${id}/deliveries`, { key }))
    deliveryIds.push(`${id}|${body.deliveryId}`)
  }
  await untilExits(client, key)
  const list = async (path: string) => (await done(client.get(`/api/v1/${path}?limit=100`, { key }))).body
  const orders: readonly { orderId: string }[] = (await list('orders')).orders
  const plans: readonly { planId: string; productId: string }[] = (await list('plans')).plans
  const proxies: readonly { proxyId: string; ip: string }[] = (await list('proxies')).proxies
  const deposits: readonly { deposit_id: string }[] = (await list('deposits')).deposits
  const customers: readonly { customerId: string }[] = reseller
    ? (await list('reseller/customers')).customers
    : []
  const networks = Array.from({ length: 10 }, (_, n) => `9.9.${reseller ? 2 : 1}.${n + 1}`)
  const [{ planId: listed = '' } = {}] = plans
  const spare = networks.slice(0, 3).map((address) => ({ cidr: address.replace('9.9.', '9.10.') }))
  const { body: added } = await done(
    client.post(`/api/v1/plans/${listed}/whitelist`, { entries: spare }, { key }),
  )
  const entries: readonly { id: string }[] = added.whitelist
  const budget = async (planId: string, period: string): Promise<string> => {
    const json = { planId, period, limitBytes: 5_000_000_000 }
    return (await done(client.call('PUT', '/api/v1/traffic-budgets', { key, json }))).body.id
  }
  const spareBudgetIds = await Promise.all(['day', 'week', 'month'].map((period) => budget(listed, period)))
  const budgetIds = await Promise.all(plans.slice(1, 4).map(({ planId }) => budget(planId, 'day')))
  const moved = async (): Promise<string> => {
    const headers = { 'X-Reseller-Customer-Id': 'ann' }
    const json = { amount_cents: 1, reference: 'live' }
    return (await done(client.post('/api/v1/reseller/movements', json, { key, headers }))).body.movementId
  }
  const timed = products.filter(({ shape }) => shape === 'gateway_time').map(({ id }) => id)
  return {
    offers,
    productIds: products.flatMap(({ id, lifecycle }) => [id, ...lifecycle.aliases]),
    orderIds: orders.map(({ orderId }) => orderId),
    planIds: plans.map(({ planId }) => planId),
    topUpPlanIds: plans.filter(({ productId }) => !timed.includes(productId)).map(({ planId }) => planId),
    proxyIds: proxies.map(({ proxyId }) => proxyId),
    checkedIds: proxies.filter(({ ip }) => !ip.includes(':')).map(({ proxyId }) => proxyId),
    rentals,
    depositIds: deposits.map(({ deposit_id }) => deposit_id),
    webhookIds,
    subscriptionIds,
    spareWebhookIds,
    deliveryIds,
    networks,
    entryIds: entries.map(({ id }) => `${listed}|${id}`),
    budgetIds,
    spareBudgetIds,
    customerIds: customers.map(({ customerId }) => customerId),
    movementIds: reseller ? [await moved()] : [],
    batchIds,
  }
}

/** Live values by the names of the document's fields. */
export const poolsOf = (live: Live): Pools => ({
  product_id: live.productIds,
  planId: live.planIds,
  timeZone: ['UTC', 'Europe/Berlin', 'Asia/Kolkata'],
  limitBytes: [1_000_000, 5_000_000_000],
  product: live.productIds,
  order_id: live.orderIds,
  proxy_ids: live.proxyIds.map((id) => [id]),
  country: ['USA', 'DEU', 'GBR', 'jpn'],
  period_days: [7, 30, 90],
  quantity: [1, 2, 10],
  carrier_id: ['att-us', 'ee-uk'],
  service: ['shared', 'dedicated'],
  rotation_minutes: [0, 5, 30],
  label: ['acme', '', 'Grüße 客户', '👩‍👩‍👧'],
  bot_chat_id: ['123456', '-100123', '@acme_news', ''],
  customer: ['ann', 'zoe'],
  from: ['2026-11-01', '2026-11-21T02:30:00Z'],
  to: ['2126-11-21', '2126-11-21T02:30:00.5+02:00'],
  since: ['2026-11-01', '2026-11-20T02:30:00Z'],
  until: ['2026-11-21', '2026-11-21T02:30:00.5+02:00'],
  expires_before: ['2026-12-24', '2126-11-21T02:30:00Z'],
  as_of: ['2026-11-21', '2026-11-21T02:30:00Z', '1', '20', '0'],
  book: ['service'],
  depth: [1, 2, 3],
  count: [1, 3],
  stickyMinutes: [0, 30],
  city: ['los_angeles', 'Niterói'],
  cidr: [...live.networks, '9.11.1.0/24', '10.0.0.1', '2a00:1450:4001:800::/64'],
  limit: [1, 50, 100],
  offset: [0, 1],
  amount_cents: [1, 1_000, 500_000],
  method: ['wallet', 'card', 'crypto'],
  url: [closedUrl, 'https://127.0.0.1:9/', 'https://[::1]:9/x?y=z', 'https://10.0.0.1/', 'ftp://127.0.0.1'],
  events: [['ping'], ['order.fulfilled', 'plan.low_traffic'], ['order.refunded'], [], ['ping', 'ping']],
  return_url: ['https://shop.example.com/thanks?of=a', 'http://shop.example.com'],
})

const accountsOfBooks = ['assets:gateway:manual', 'revenue:orders:residential', 'revenue:orders:isp']
const parentsOfBooks = ['assets', 'revenue:orders', 'liabilities:wallet', ...accountsOfBooks]

/** Live ids by the path before `{id}`. */
/** A platform and an operation with a `|` between. */
const scraperIds = scrapers.map(({ platform, operation }) => `${platform}|${operation}`)

export const idsOf = (
  live: Live,
  { path, method }: { readonly path: string; readonly method: string },
): readonly string[] => {
  if (path.includes('{operation}')) return scraperIds
  if (path.includes('{platform}')) return platforms
  if (path.endsWith('/results/{n}')) return live.batchIds.map((id) => `${id}|1`)
  if (path.includes('/batch/')) return live.batchIds
  if (path.includes('/networks/')) return ['AS15169', '15169']
  if (path.includes('{account}')) return path.endsWith('/statement') ? accountsOfBooks : parentsOfBooks
  if (path.includes('{deliveryId}')) return live.deliveryIds
  if (path.includes('{entryId}')) return live.entryIds
  if (path.endsWith('/check')) return live.checkedIds
  if (path.includes('/webhooks/')) return method === 'DELETE' ? live.spareWebhookIds : live.webhookIds
  if (path.includes('/traffic-budgets/')) return method === 'DELETE' ? live.spareBudgetIds : live.budgetIds
  if (path.includes('/subscriptions/')) return live.subscriptionIds
  if (path.endsWith('/options') || path.endsWith('/price-list'))
    return live.offers.flatMap((offer) => (offer.fulfillment_meta === null ? [] : [offer.product_id]))
  if (path.includes('/movements/')) return live.movementIds
  if (path.includes('/products/')) return live.productIds
  if (path.includes('/orders/')) return live.orderIds
  if (path.includes('/deposits/')) return live.depositIds
  if (path.includes('/customers/')) return live.customerIds
  if (path.endsWith('/topup')) return live.topUpPlanIds
  return path.includes('/plans/') ? live.planIds : live.proxyIds
}
