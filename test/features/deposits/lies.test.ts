import assert from 'node:assert/strict'
import { createHash, createHmac } from 'node:crypto'
import { describe, test } from 'node:test'
import Stripe from 'stripe'
import { depositStream } from '../../../src/kernel/streams.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import { deriveKey } from '../../../src/platform/vault/keys.ts'
import { asCustomer } from '../../support/app-actions.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const stripe = new Stripe('sk_test_unused')
const cents = 1_500

/**
 * The knowledge of a reseller with an account at the stand-in: its key, and the secret that signs its
 * callbacks.
 */
const secretOf = (app: TestApp, gatewayId: string, what: 'key' | 'webhook'): string =>
  createHmac('sha256', deriveKey(app.core.keys.master, 'sandbox gateways v1'))
    .update(JSON.stringify([gatewayId, what]))
    .digest('hex')

type Wire = { readonly body: string; readonly headers: Readonly<Record<string, string>> }
/** The claims of a callback; the invoice is the provider's id of it. */
type Stated = {
  readonly n: number
  readonly invoiceId: string
  readonly paymentId: string
  readonly depositId: string
  readonly cents: number
  readonly currency: string
}
type Provider = {
  readonly name: 'stripe' | 'btcpay' | 'nowpayments'
  readonly method: 'card' | 'crypto'
  /** A callback as the provider would send it, rightly signed for the gateway. */
  sign(app: TestApp, gatewayId: string, stated: Stated): Wire
  /** Makes an invoice with the account of the gateway, past the service; its id. */
  make(app: TestApp, gatewayId: string, depositId: string): Promise<string>
}

const json = async (url: string, headers: Record<string, string>, body: string) => {
  const response = await fetch(url, { method: 'POST', headers, body })
  const answer = (await response.json()) as { id: string }
  assert.equal(response.status, 200, JSON.stringify(answer))
  return answer.id
}

const sortedKeys = (value: unknown): unknown =>
  typeof value === 'object' && value !== null
    ? Object.fromEntries(
        Object.entries(value)
          .sort(([a], [b]) => (a < b ? -1 : 1))
          .map(([key, item]) => [key, sortedKeys(item)]),
      )
    : value

const providers: readonly Provider[] = [
  {
    name: 'stripe',
    method: 'card',
    sign: (app, gatewayId, stated) => {
      const payload = JSON.stringify({
        id: `evt_lie_${stated.n}`,
        object: 'event',
        type: 'checkout.session.completed',
        data: {
          object: {
            id: stated.invoiceId,
            object: 'checkout.session',
            payment_status: 'paid',
            status: 'complete',
            amount_total: stated.cents,
            currency: stated.currency,
            client_reference_id: stated.depositId,
            metadata: { deposit_id: stated.depositId },
          },
        },
      })
      const secret = `whsec_${secretOf(app, gatewayId, 'webhook')}`
      return {
        body: payload,
        headers: { 'stripe-signature': stripe.webhooks.generateTestHeaderString({ payload, secret }) },
      }
    },
    make: (app, gatewayId, depositId) =>
      json(
        `${app.sandbox}/v1/checkout/sessions`,
        {
          authorization: `Bearer sk_test_sandbox_${secretOf(app, gatewayId, 'key')}`,
          'content-type': 'application/x-www-form-urlencoded',
        },
        new URLSearchParams({
          mode: 'payment',
          'line_items[0][price_data][currency]': 'usd',
          'line_items[0][price_data][unit_amount]': String(cents),
          'line_items[0][price_data][product_data][name]': 'x',
          client_reference_id: depositId,
          success_url: 'https://a.example',
        }).toString(),
      ),
  },
  {
    name: 'btcpay',
    method: 'crypto',
    sign: (app, gatewayId, stated) => {
      const body = JSON.stringify(
        {
          deliveryId: `lie-${stated.n}`,
          type: 'InvoiceSettled',
          timestamp: Math.floor(Date.now() / 1000),
          invoiceId: stated.invoiceId,
          storeId: 'x',
          metadata: { orderId: stated.depositId },
          payment: {
            id: stated.paymentId,
            value: String(stated.cents),
            currency: stated.currency,
            status: 'Settled',
          },
        },
        null,
        2,
      )
      const hex = createHmac('sha256', secretOf(app, gatewayId, 'webhook'))
        .update(body)
        .digest('hex')
      return { body, headers: { 'btcpay-sig': `sha256=${hex}` } }
    },
    make: (app, gatewayId, depositId) => {
      const store = createHash('sha256').update(gatewayId).digest('hex').slice(0, 24)
      return json(
        `${app.sandbox}/btcpay/api/v1/stores/${store}/invoices`,
        { authorization: `token ${secretOf(app, gatewayId, 'key')}`, 'content-type': 'application/json' },
        JSON.stringify({
          amount: '15.00',
          currency: 'USD',
          metadata: { orderId: depositId, itemDesc: 'x' },
          checkout: { expirationMinutes: 60, redirectURL: 'https://a.example' },
        }),
      )
    },
  },
  {
    name: 'nowpayments',
    method: 'crypto',
    sign: (app, gatewayId, stated) => {
      const body = {
        payment_id: Number(stated.paymentId),
        invoice_id: Number(stated.invoiceId),
        payment_status: 'finished',
        price_amount: stated.cents / 100,
        price_currency: stated.currency,
        pay_amount: stated.cents,
        actually_paid: stated.cents,
        order_id: stated.depositId,
        n: stated.n,
      }
      const hex = createHmac('sha512', secretOf(app, gatewayId, 'webhook'))
        .update(JSON.stringify(sortedKeys(body)))
        .digest('hex')
      return { body: JSON.stringify(body), headers: { 'x-nowpayments-sig': hex } }
    },
    make: (app, gatewayId, depositId) =>
      json(
        `${app.sandbox}/nowpayments/v1/invoice`,
        { 'x-api-key': secretOf(app, gatewayId, 'key'), 'content-type': 'application/json' },
        JSON.stringify({
          price_amount: cents / 100,
          price_currency: 'usd',
          order_id: depositId,
          order_description: 'x',
          ipn_callback_url: `${app.baseUrl}/callbacks/${gatewayId}`,
          success_url: 'https://a.example',
          cancel_url: 'https://a.example',
        }),
      ),
  },
]

const gatewayOf = async ({ farebox }: TestApp, depositId: string): Promise<string> => {
  for await (const stored of farebox.core.log.readStream(depositStream(depositId))) {
    const { type, data } = decode(stored)
    if (type === 'DepositOpened') return (data as { gatewayId: string }).gatewayId
  }
  assert.fail(`${depositId} was never opened`)
}

const shownOf = async (app: TestApp, id: string) =>
  (await (await fetch(`${app.sandbox}/_sandbox/invoices/${id}`)).json()) as {
    readonly id: string
    readonly payments: readonly { readonly id: string }[]
  }

describe("a correctly signed callback credits only what the provider's API confirms, to the invoice's account", () => {
  for (const provider of providers)
    test(`${provider.name}: for any claimed amount, currency, invoice or reseller`, async (t) => {
      const app = await testApp(t)
      const crypto = provider.name === 'stripe' ? 'btcpay' : provider.name
      const thief = await app.resellerWithGateways('Thief', crypto)
      const victim = await app.resellerWithGateways('Victim', crypto)
      const open = (reseller: typeof thief, name: string) =>
        app.openDeposit(reseller.key, { amount_cents: cents, method: provider.method }, asCustomer(name))
      const [own, theirs] = [await open(thief, 'ann'), await open(victim, 'ann')]
      const [gateway, foreign] = [
        await gatewayOf(app, own.deposit_id),
        await gatewayOf(app, theirs.deposit_id),
      ]
      assert.notEqual(gateway, foreign)
      const credits = async () => [
        await app.customerCredit(thief.accountId, 'ann'),
        await app.customerCredit(victim.accountId, 'ann'),
      ]
      const done = () =>
        until(async () => {
          const { rows } = await app.core.pool.query(
            'select 1 from work.gateway_inbox where finished_at is null',
          )
          return rows.length === 0
        })
      let n = 0
      /** The thief signs for its own gateway. */
      const state = async (over: Partial<Stated>) => {
        n += 1
        const stated = {
          n,
          depositId: own.deposit_id,
          cents: 99_999_900,
          currency: 'jpy',
          paymentId: '1',
          ...over,
        }
        const { body, headers } = provider.sign(app, gateway, { invoiceId: '1', ...stated })
        const url = `${app.baseUrl}/callbacks/${gateway}`
        const response = await fetch(url, {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...headers },
          body,
        })
        assert.equal(response.status, 200, await response.text())
        await done()
      }
      const ownInvoice = (await shownOf(app, own.deposit_id)).id
      const theirInvoice = (await shownOf(app, theirs.deposit_id)).id

      // Nothing was paid: nothing of it is true.
      await state({ invoiceId: ownInvoice })
      await state({ invoiceId: theirInvoice, depositId: theirs.deposit_id })
      await state({ invoiceId: theirInvoice })
      await state({ invoiceId: ownInvoice, depositId: theirs.deposit_id })
      assert.deepEqual(await credits(), [0, 0])

      // The victim's was paid, and only the thief got the callback, and claims that it is for its own
      // customer.
      await app.switches({ lost: 1 })
      await app.act(theirs.deposit_id, 'pay', cents)
      const [theirPayment] = (await shownOf(app, theirs.deposit_id)).payments
      for (const depositId of [own.deposit_id, theirs.deposit_id])
        await state({ invoiceId: theirInvoice, paymentId: theirPayment?.id ?? '', depositId })
      assert.deepEqual(await credits(), [0, 0])

      // Its own was paid: that amount, in dollars, for its own customer, for any claims and repetitions.
      await app.act(own.deposit_id, 'pay', cents)
      const [payment] = (await shownOf(app, own.deposit_id)).payments
      for (const over of [{ cents: 1 }, { depositId: theirs.deposit_id }, { currency: 'eur', cents: 7 }])
        await state({ invoiceId: ownInvoice, paymentId: payment?.id ?? '', ...over })
      assert.deepEqual(await credits(), [cents, 0])

      // An invoice that the thief makes itself, in the name of the victim's deposit, and pays.
      const forged = await provider.make(app, gateway, theirs.deposit_id)
      await app.switches({ lost: 0 })
      const paid = await app.act(forged, 'pay', cents)
      assert.equal(paid.status, 200)
      await until(async () => {
        const { rows } = await app.core.pool.query(
          "select 1 from work.gateway_inbox where result = 'not a deposit of this gateway'",
        )
        return rows.length > 0
      })
      await done()
      assert.deepEqual(await credits(), [cents, 0])
      assert.equal((await app.readDeposit(victim.key, theirs.deposit_id)).credited_cents, 0)
      // The victim's own payment is found by its own gateway, and is its customer's.
      const { body, headers } = provider.sign(app, foreign, {
        n: 0,
        invoiceId: theirInvoice,
        paymentId: theirPayment?.id ?? '',
        depositId: own.deposit_id,
        cents: 1,
        currency: 'jpy',
      })
      const url = `${app.baseUrl}/callbacks/${foreign}`
      await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body })
      await app.untilDeposit(victim.key, theirs.deposit_id, { status: 'paid', credited_cents: cents })
      assert.deepEqual(await credits(), [cents, cents])
    })
})
