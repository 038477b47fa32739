import { randomUUID } from 'node:crypto'
import { Pool } from 'undici'
import { createFinanceTokenService } from '../../src/features/finance/token-service.ts'
import { createNotices } from '../../src/features/notices/notice-service.ts'
import { addAddresses } from '../../src/features/stock/add-stock.ts'
import { cause, withBenchService } from '../accounts.ts'

export type Caller = { readonly key: string; readonly reseller: boolean }

/** A request as an account sends it. */
export type Get = { readonly key: string; readonly path: string }

export type World = { readonly callers: readonly Caller[]; readonly financeToken: string }

/** An operation, named by its path in the interface description, and the requests that ask for it in turn. */
export type ReadOf = {
  readonly name: string
  readonly template: string
  readonly gets: readonly Get[]
}

/** The first account has this share of all orders in addition to its own: one in five, so thousands where the others have hundreds. */
const largestHasOneIn = 5

const accounts = 64
const customersEach = 20
const notices = 10

/** Every fourth account is a reseller. */
const isReseller = (n: number): boolean => n % 4 === 3

const stocked = (block: number) =>
  Array.from({ length: 20_000 }, (_, n) => ({
    ip: `10.${block + (n >> 16)}.${(n >> 8) & 255}.${n & 255}`,
    city: 'Dallas',
    asn: 64_500,
    asnOrg: 'Example Network 64500',
    carrierId: null,
    service: null,
  }))

/** 64 accounts with money, 16 of them resellers with 20 customers each, addresses in stock, notices, and a finance token. */
export const makeAccounts = (env: NodeJS.ProcessEnv): Promise<World> =>
  withBenchService(env, async ({ core, account, credit }) => {
    const make = async (n: number): Promise<Caller> => {
      const reseller = isReseller(n)
      const { accountId, key } = await account(`reads-${n}@example.com`, reseller)
      for (let c = 0; reseller && c < customersEach; c += 1)
        await credit(accountId, `customer-${c}`, 5_000_000)
      return { key, reseller }
    }
    const callers = await Promise.all(Array.from({ length: accounts }, (_, n) => make(n)))
    for (const [block, productId] of ['isp-static', 'ipv4-datacenter'].entries())
      await addAddresses(core.runner, { productId, country: 'USA', addresses: stocked(block) }, cause)
    const service = createNotices(core)
    for (let n = 0; n < notices; n += 1) {
      const draft = {
        noticeId: `ntc_bench${n}`,
        title: `Notice ${n}`,
        body: 'A price of a product changes on 1 December; the price list of today holds until then.',
        kind: 'INFO',
        audience: 'ALL',
        expiresAt: null,
        linkHref: '/docs',
        linkLabel: 'What changes',
      } as const
      await service.publish(draft as unknown as Parameters<typeof service.publish>[0], cause)
    }
    const token = await createFinanceTokenService(core).issue({ name: 'bench', expiresAtMs: null }, cause)
    if (token.outcome !== 'done') throw new Error(`no finance token: ${JSON.stringify(token)}`)
    return { callers, financeToken: token.key }
  })

const rental = { country: 'USA', period_days: 30 }
const products = [
  { product_id: 'residential-premium', quantity: 1 },
  { product_id: 'isp-static', quantity: 1, fulfillment_meta: rental },
  { product_id: 'residential-basic', quantity: 2 },
  { product_id: 'ipv4-datacenter', quantity: 2, fulfillment_meta: rental },
  { product_id: 'residential-unlimited', quantity: 1 },
  { product_id: 'mobile-gateway', quantity: 1 },
  { product_id: 'residential-unlimited-day', quantity: 1 },
] as const

type Sent = {
  readonly path: string
  readonly key: string
  readonly body: unknown
  readonly customer?: string
}

function* writes(callers: readonly Caller[], orders: number): Generator<Sent> {
  for (let n = 0; n < orders; n += 1) {
    const { key, reseller } = callers[n % largestHasOneIn === 0 ? 0 : n % callers.length]!
    const customer = reseller && n % 3 > 0 ? { customer: `customer-${n % customersEach}` } : {}
    yield { path: '/api/v1/orders', key, body: products[n % products.length], ...customer }
  }
  for (const { key } of callers)
    for (let n = 0; n < 5; n += 1) {
      yield { path: '/api/v1/deposits', key, body: { amount_cents: 1000 + n, method: 'card' } }
      yield {
        path: '/api/v1/subscriptions',
        key,
        body: { product_id: 'residential-premium', quantity: 1, interval: 'month' },
      }
      yield {
        path: '/api/v1/webhooks',
        key,
        body: { url: `http://127.0.0.1:9/hooks/${n}`, events: ['subscription.expired'] },
      }
    }
}

/** Fills the accounts over HTTP, 32 requests at a time. */
export const fill = async (base: URL, callers: readonly Caller[], orders: number): Promise<void> => {
  const pool = new Pool(base.origin, { connections: 32 })
  const todo = writes(callers, orders)
  const worker = async (): Promise<void> => {
    for (const { path, key, body, customer } of todo) {
      const { statusCode, body: answer } = await pool.request({
        method: 'POST',
        path,
        headers: {
          'x-api-key': key,
          'content-type': 'application/json',
          'idempotency-key': randomUUID(),
          ...(customer && { 'x-reseller-customer-id': customer }),
        },
        body: JSON.stringify(body),
      })
      const text = await answer.text()
      if (statusCode >= 300) throw new Error(`POST ${path} was answered ${statusCode}: ${text}`)
    }
  }
  await Promise.all(Array.from({ length: 32 }, worker))
  await pool.close()
}

type Listed = Readonly<Record<string, readonly Readonly<Record<string, string>>[]>>

/** Every GET of the interface, over all accounts in turn. */
export const readsOf = async (base: URL, { callers, financeToken }: World): Promise<readonly ReadOf[]> => {
  const pool = new Pool(base.origin, { connections: 8 })
  const list = async (path: string, key: string): Promise<Listed> => {
    const { body } = await pool.request({ method: 'GET', path, headers: { 'x-api-key': key } })
    return (await body.json()) as Listed
  }
  const templateOf = (path: string): string =>
    (path.split('?')[0] ?? '').replace(/\/(isp-static|mobile-dedicated)/, '/{id}')
  const all = (path: string, of = callers): ReadOf => ({
    name: path.slice('/api/v1'.length),
    template: templateOf(path),
    gets: of.map(({ key }) => ({ key, path })),
  })
  /** Up to 20 of what each account lists, one by one; neighbours are of different accounts, as they are in life. */
  const each = async (
    [listing, field, id]: readonly [string, string, string],
    of = callers,
    tail = '',
  ): Promise<ReadOf> => {
    const found = await Promise.all(
      of.map(async ({ key }) =>
        ((await list(`/api/v1${listing}?limit=20`, key))[field] ?? []).map((entry) => ({
          key,
          path: `/api/v1${listing}/${entry[id]}${tail}`,
        })),
      ),
    )
    const name = `${listing}/{id}${tail}`
    const gets = Array.from({ length: 20 }, (_, n) => found.flatMap((of) => of[n] ?? [])).flat()
    return { name, template: `/api/v1${name}`, gets }
  }
  const resellers = callers.filter(({ reseller }) => reseller)
  const book = encodeURIComponent('revenue:orders:residential')
  const finance = (name: string, path = name): ReadOf => ({
    name: `/finance${name}`,
    template: `/finance/v1${name}`,
    gets: [{ key: financeToken, path: `/finance/v1${path}` }],
  })
  const orders = await each(['/orders', 'orders', 'orderId'])
  const reads = [
    all('/api/v1/me'),
    all('/api/v1/wallet'),
    all('/api/v1/wallet/transactions'),
    all('/api/v1/orders'),
    all('/api/v1/orders?limit=10'),
    orders,
    all('/api/v1/plans'),
    all('/api/v1/plans?limit=10'),
    await each(['/plans', 'plans', 'planId']),
    all('/api/v1/proxies'),
    all('/api/v1/proxies?limit=10'),
    all('/api/v1/products'),
    all('/api/v1/products/isp-static'),
    all('/api/v1/products/isp-static/price?quantity=5&country=USA&period_days=30'),
    all('/api/v1/products/isp-static/price-list?country=USA'),
    all('/api/v1/products/mobile-dedicated/price-list?country=USA'),
    all('/api/v1/products/isp-static/options'),
    all('/api/v1/subscriptions'),
    await each(['/subscriptions', 'subscriptions', 'subscriptionId']),
    all('/api/v1/announcements'),
    all('/api/v1/webhooks'),
    await each(['/webhooks', 'webhooks', 'id'], callers, '/deliveries'),
    all('/api/v1/deposits'),
    await each(['/deposits', 'deposits', 'deposit_id']),
    all('/api/v1/reseller/margins', resellers),
    all('/api/v1/reseller/statement?limit=50', resellers),
    all('/api/v1/reseller/customers', resellers),
    await each(['/reseller/customers', 'customers', 'customerId'], resellers),
    finance('/trial-balance'),
    finance('/accounts/{account}', `/accounts/${book}?book=service`),
    finance('/accounts/{account}/statement', `/accounts/${book}/statement?book=service`),
    {
      ...finance('/orders/{id}/entries'),
      gets: orders.gets.map(({ path }) => ({
        key: financeToken,
        path: `${path.replace('/api', '/finance')}/entries`,
      })),
    },
    finance('/seals'),
    finance('/verifications'),
  ]
  await pool.close()
  return reads
}
