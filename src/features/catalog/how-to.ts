import { lineInStock, orderableCountries, type StockCount } from '../../domain/catalog/availability.ts'
import { chooseRate, countriesOf, metaOf, periodsOf } from '../../domain/catalog/catalog.ts'
import {
  type GatewayGbProduct,
  type GatewayTimeProduct,
  isDedicated,
  type Product,
} from '../../domain/catalog/product.ts'
import { type Interval, intervalDays } from '../../domain/shared/billing-interval.ts'
import type { Target } from '../../domain/shared/order-terms.ts'

/** A complete call. Earlier answers replace `{orderId}`, `{planId}`, `{proxyId}` and `{subscriptionId}`. */
export type HowToStep = {
  readonly step: number
  readonly title: string
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Readonly<Record<string, unknown>> | null
}

type Call = Omit<HowToStep, 'step'>

const get = (title: string, path: string): Call => ({ title, method: 'GET', path, headers: {}, body: null })

const post = (title: string, path: string, key: string, body: Readonly<Record<string, unknown>>): Call => ({
  title,
  method: 'POST',
  path,
  headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key },
  body,
})

const remove = (title: string, path: string): Call => ({
  title,
  method: 'DELETE',
  path,
  headers: {},
  body: null,
})

const preferred = <Value>(values: readonly Value[], first: Value): Value | undefined =>
  values.includes(first) ? first : values[0]

/** The target of an example order: in stock if possible, and of the wanted period if the product has it. */
const exampleTarget = (product: Product, stock: readonly StockCount[], wantedDays: number): Target | null => {
  if (!isDedicated(product)) return null
  const stocked = orderableCountries(product, stock)
  const priced = countriesOf(product)
  const inStock = priced.filter((country) => stocked.has(country))
  const country = preferred(inStock.length > 0 ? inStock : priced, 'USA')
  const periodDays = preferred(periodsOf(product, country), wantedDays)
  if (country === undefined || periodDays === undefined) return null
  const rateRequest = { country, periodDays, carrierId: null, service: null, rotationMinutes: null }
  const rate = chooseRate(product, rateRequest, product.minQuantity, lineInStock(stock, product.minQuantity))
  return rate.ok ? rate.value.target : null
}

const queryOf = (values: Readonly<Record<string, string | number | null>>): string =>
  new URLSearchParams(
    Object.entries(values).map(([name, value]) => [name, String(value)] as [string, string]),
  ).toString()

const gatewayCalls = (product: GatewayGbProduct | GatewayTimeProduct, at: string): readonly Call[] => [
  get('Quote the price', `${at}/price?${queryOf({ quantity: product.minQuantity })}`),
  post('Order; the wallet pays', '/api/v1/orders', `first-${product.id}`, {
    product_id: product.id,
    quantity: product.minQuantity,
  }),
  get('Read the plan that the order names', '/api/v1/plans/{planId}'),
  get('See where its lines can go out', '/api/v1/geo/countries'),
  {
    title: 'Generate lines; each keeps its exit for ten minutes from its first use',
    method: 'POST',
    path: '/api/v1/plans/{planId}/generate',
    headers: { 'Content-Type': 'application/json' },
    body: { count: Math.min(2, product.generate.maxCount), stickyMinutes: 10 },
  },
]

const dedicatedCalls = (product: Product, at: string, target: Target): readonly Call[] => {
  const { country, periodDays } = target
  const meta = metaOf(target)
  const mobile = target.carrierId !== null
  const selection = product.family === 'ipv6' ? { order_id: '{orderId}' } : { proxy_ids: ['{proxyId}'] }
  return [
    ...(mobile ? [] : [get('See countries and periods that are in stock', `${at}/options`)]),
    get(
      mobile ? 'Compare carriers, services and rotations' : 'Compare periods',
      `${at}/price-list?${queryOf({ country, ...(mobile && { period_days: periodDays }) })}`,
    ),
    get('Quote the price', `${at}/price?${queryOf({ quantity: product.minQuantity, ...meta })}`),
    post('Order; the wallet pays', '/api/v1/orders', `first-${product.id}`, {
      product_id: product.id,
      quantity: product.minQuantity,
      fulfillment_meta: meta,
    }),
    get('Read the addresses', '/api/v1/proxies?order_id={orderId}'),
    post('Keep them for another period', '/api/v1/proxies/extend', `extend-${product.id}`, {
      ...selection,
      period_days: periodDays,
    }),
  ]
}

/** The target of a subscription with this interval; null if the product has no period as long as the interval. */
const subscribable = (
  product: Product,
  stock: readonly StockCount[],
  interval: Interval,
): { readonly meta: Readonly<Record<string, unknown>> | null } | null => {
  if (product.shape === 'gateway_gb') return { meta: null }
  const days = intervalDays[interval]
  if (product.shape === 'gateway_time') return product.periodDays === days ? { meta: null } : null
  const target = exampleTarget(product, stock, days)
  return target?.periodDays === days ? { meta: metaOf(target) } : null
}

/** The calls that subscribe, with the first interval that fits; empty if the product cannot be subscribed to. */
const subscriptionCalls = (product: Product, stock: readonly StockCount[]): readonly Call[] => {
  if (!product.billing.subscription) return []
  for (const interval of product.billing.intervals) {
    const found = subscribable(product, stock, interval)
    if (!found) continue
    const at = '/api/v1/subscriptions/{subscriptionId}'
    const body = {
      product_id: product.id,
      quantity: product.minQuantity,
      interval,
      ...(found.meta && { fulfillment_meta: found.meta }),
    }
    return [
      post(
        `Or subscribe: now and every ${interval} again; the wallet pays`,
        '/api/v1/subscriptions',
        `subscribe-${product.id}`,
        body,
      ),
      get('Read the subscription', at),
      remove('Cancel it; what is paid lasts to the end of its period', at),
    ]
  }
  return []
}

/**
 * The exact calls that buy the smallest quantity of a product, by its shape (research: proxies, 2.6). Empty while it
 * cannot be ordered. Each call can be sent as it is once its placeholders are replaced.
 */
export const howTo = (product: Product, stock: readonly StockCount[]): readonly HowToStep[] => {
  if (product.state !== 'active') return []
  const at = `/api/v1/products/${product.id}`
  const target = exampleTarget(product, stock, 30)
  const dedicated = target === null ? [] : dedicatedCalls(product, at, target)
  const calls = isDedicated(product) ? dedicated : gatewayCalls(product, at)
  return [...calls, ...subscriptionCalls(product, stock)].map((call, index) => ({ step: index + 1, ...call }))
}
