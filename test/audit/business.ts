import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { TestContext } from 'node:test'
import { createNotices } from '../../src/features/notices/notice-service.ts'
import { createMeter } from '../../src/features/plans/meter-traffic.ts'
import { createWallets } from '../../src/features/wallet/wallet-service.ts'
import { type NoticeId, newId, type PlanId } from '../../src/kernel/ids.ts'
import { customer, openReseller, openShop } from '../features/deposits/support.ts'
import { cause, shopsOf } from '../features/resellers/shop.ts'
import type { ServiceParts } from '../support/service.ts'
import { until } from '../support/until.ts'

const gb = 1_000_000_000

/**
 * A day of the whole business on the running service: deposits, a plan and its traffic, rentals, orders of a reseller's
 * customers, one of them paid on a pay page, refunds, terms, notices, receivers of webhooks.
 */
export const playBusiness = async (
  t: TestContext,
  settings: Readonly<Record<string, string>> = {},
  parts: ServiceParts = {},
) => {
  const shop = await openShop(t, { FAREBOX_DEPOSIT_LOOK_MS: '500', ...settings }, parts)
  const { core } = shop.farebox
  const shops = shopsOf(shop)
  const keyed = () => ({ 'Idempotency-Key': randomUUID() })
  const done = async (sent: ReturnType<typeof shop.client.post>) => {
    const { status, body, text } = await sent
    assert.ok(status < 300, text)
    return body
  }

  const { key } = await shop.customer({ cents: 10_000 })
  await done(shop.client.post('/api/v1/webhooks', { url: 'http://127.0.0.1:9/hook' }, { key }))
  const deposit = await shop.open(key, { amount_cents: 2_500 })
  await shop.act(deposit.deposit_id, 'pay', 2_500)
  await shop.reads(key, deposit.deposit_id, { status: 'paid' })
  await shop.open(key, { amount_cents: 1_000, method: 'crypto' })
  const order = (body: object) => done(shop.client.post('/api/v1/orders', body, { key, headers: keyed() }))
  const { planId } = await order({ product_id: 'residential-premium', quantity: 2 })
  const meter = createMeter(core)
  await meter.report({ reporter: 'test', sequence: 1, traffic: new Map([[planId as PlanId, 1.9 * gb]]) })
  const hosted = (method: string) => order({ product_id: 'residential-premium', quantity: 5, method })
  await hosted('card')
  const { orderId: canceled } = await hosted('crypto')
  const { deposits } = (await shop.client.get('/api/v1/deposits', { key })).body
  const invoice = deposits.find((one: { order_id: string | null }) => one.order_id === canceled)
  await shop.act(invoice.deposit_id, 'expire')
  await until(
    async () => (await shop.client.get(`/api/v1/orders/${canceled}`, { key })).body.status === 'canceled',
    { timeoutMs: 20_000, what: 'the order of an invoice that closed' },
  )
  const rental = await order({
    product_id: 'isp-static',
    quantity: 2,
    fulfillment_meta: { country: 'USA', period_days: 30 },
  })
  await shops.refund(rental.orderId)

  const reseller = await shops.open(50_000)
  await shops.resellers.change(reseller.accountId, { discountBp: 1_000, markupMillionths: 1_300_000 }, cause)
  await reseller.credit('ada', 20_000)
  const sold = await reseller.order('ada', { product_id: 'residential-premium', quantity: 3 })
  assert.equal(sold.status, 201, JSON.stringify(sold.body))
  const again = await reseller.order('ada', { product_id: 'residential-premium', quantity: 5 })
  assert.equal(again.status, 201, JSON.stringify(again.body))
  await shops.refund(sold.body.orderId, { kind: 'cents', cents: 100 })

  const store = await openReseller(shop, 'Acme', 'btcpay')
  await createWallets(core).credit(
    { accountId: store.accountId, amountCents: 10_000, reference: 'start' },
    cause,
  )
  const short = await shop.client.post(
    '/api/v1/orders',
    { product_id: 'residential-premium', quantity: 2, method: 'card' },
    { key: store.key, headers: customer('bob', 'bob') },
  )
  assert.equal(short.body.code, 'customer_credit_insufficient', short.text)
  await shop.act(short.body.depositId, 'pay')
  const paid = await shop.reads(store.key, short.body.depositId, { status: 'paid' })
  await until(
    async () =>
      (await shop.client.get(`/api/v1/orders/${paid.order_id}`, { key: store.key })).body.status ===
      'completed',
    { what: 'the order of a customer whose payment came' },
  )

  const notice = {
    noticeId: newId<NoticeId>('ntc'),
    title: 'A price changes',
    body: 'From tomorrow on.',
    kind: 'PRICING',
    audience: 'ALL',
    expiresAt: null,
    linkHref: null,
    linkLabel: null,
  } as const
  assert.equal((await createNotices(core).publish(notice, cause)).outcome, 'done')
  return shop
}
