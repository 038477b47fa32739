import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { TestContext } from 'node:test'
import { createNotices } from '../../src/features/notices/notice-service.ts'
import { createMeter } from '../../src/features/plans/meter-traffic.ts'
import { type NoticeId, newId, type PlanId } from '../../src/kernel/ids.ts'
import { addresses, done } from '../support/app-actions.ts'
import type { Called } from '../support/http.ts'
import { operator } from '../support/operator.ts'
import { testApp } from '../support/test-app.ts'

const gb = 1_000_000_000

/**
 * A day of the whole business on the running service: deposits, a plan and its traffic, rentals, orders of a reseller's
 * customers, one of them paid on a pay page, refunds, terms, notices, receivers of webhooks.
 */
export const playBusiness = async (t: TestContext, settings: Readonly<Record<string, string>> = {}) => {
  const app = await testApp(t, {
    own: true,
    settings: { FAREBOX_DEPOSIT_LOOK_MS: '500', ...settings },
    audits: true,
  })
  const { core } = app
  const keyed = () => ({ 'Idempotency-Key': randomUUID() })
  const sent = async (request: Promise<Called>) => (await done(request)).body

  const { key } = await app.customer({ cents: 10_000 })
  await sent(app.client.post('/api/v1/webhooks', { url: 'http://127.0.0.1:9/hook' }, { key }))
  const deposit = await app.openDeposit(key, { amount_cents: 2_500 })
  await app.act(deposit.deposit_id, 'pay', 2_500)
  await app.untilDeposit(key, deposit.deposit_id, { status: 'paid' })
  await app.openDeposit(key, { amount_cents: 1_000, method: 'crypto' })
  const order = (body: object) => sent(app.client.post('/api/v1/orders', body, { key, headers: keyed() }))
  const { planId } = await order({ product_id: 'residential-premium', quantity: 2 })
  const meter = createMeter(core)
  await meter.report({ reporter: 'test', sequence: 1, traffic: new Map([[planId as PlanId, 1.9 * gb]]) })
  const hosted = (method: string) => order({ product_id: 'residential-premium', quantity: 5, method })
  await hosted('card')
  const { orderId: canceled } = await hosted('crypto')
  const { deposits } = (await app.client.get('/api/v1/deposits', { key })).body
  const invoice = deposits.find((one: { order_id: string | null }) => one.order_id === canceled)
  await app.act(invoice.deposit_id, 'expire')
  await app.untilOrder(key, canceled, 'canceled')
  const rental = await order(addresses(2))
  await app.refund(rental.orderId)

  const reseller = await app.newReseller(50_000)
  const terms = { discountBp: 1_000, markupMillionths: 1_300_000 }
  await app.resellers.change(reseller.accountId, terms, operator)
  await reseller.pay('ada', 20_000)
  const sold = await reseller.order('ada', { product_id: 'residential-premium', quantity: 3 })
  assert.equal(sold.status, 201, JSON.stringify(sold.body))
  const again = await reseller.order('ada', { product_id: 'residential-premium', quantity: 5 })
  assert.equal(again.status, 201, JSON.stringify(again.body))
  await app.refund(sold.body.orderId, { kind: 'cents', cents: 100 })

  const shop = await app.resellerWithGateways('Acme', 'btcpay')
  await app.credit(shop.accountId, 10_000)
  const short = await shop.order('bob', { product_id: 'residential-premium', quantity: 2, method: 'card' })
  assert.equal(short.body.code, 'customer_credit_insufficient', short.text)
  await app.act(short.body.depositId, 'pay')
  const paid = await app.untilDeposit(shop.key, short.body.depositId, { status: 'paid' })
  await app.untilOrder(shop.key, paid.order_id, 'completed')

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
  assert.equal((await createNotices(core).publish(notice, operator)).outcome, 'done')
  return app
}
