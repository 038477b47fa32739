import assert from 'node:assert/strict'
import { test } from 'node:test'
import Stripe from 'stripe'
import {
  createStripeGateway,
  disputeStateOf,
  reportOfSession,
} from '../../../src/features/payments/stripe.ts'

/** The sample of https://docs.stripe.com/api/checkout/sessions/object, the fields before `url`. */
const published = JSON.parse(`{
  "id": "cs_test_a11YYufWQzNY63zpQ6QSNRQhkUpVph4WRmzW0zWJO2znZKdVujZ0N0S22u",
  "object": "checkout.session",
  "after_expiration": null,
  "allow_promotion_codes": null,
  "amount_subtotal": 2198,
  "amount_total": 2198,
  "automatic_tax": { "enabled": false, "liability": null, "status": null },
  "billing_address_collection": null,
  "cancel_url": null,
  "client_reference_id": null,
  "consent": null,
  "consent_collection": null,
  "created": 1679600215,
  "currency": "usd",
  "custom_fields": [],
  "custom_text": { "shipping_address": null, "submit": null },
  "customer": null,
  "customer_creation": "if_required",
  "customer_details": null,
  "customer_email": null,
  "expires_at": 1679686615,
  "invoice": null,
  "livemode": false,
  "locale": null,
  "metadata": {},
  "mode": "payment",
  "payment_intent": null,
  "payment_link": null,
  "payment_method_collection": "always",
  "payment_method_options": {},
  "payment_method_types": ["card"],
  "payment_status": "unpaid",
  "recovered_from": null,
  "setup_intent": null,
  "status": "open"
}`)

const secret = 'whsec_test_secret'
const nowMs = 1_679_600_300_000
const sdk = new Stripe('sk_test_unused')
const gateway = createStripeGateway({ secretKey: 'sk_test_unused', webhookSecret: secret }, () =>
  assert.fail('nothing is sent'),
)

const event = (type: string, object: object, id = 'evt_1NG8Du2eZvKYlo2CUI79vXWy') =>
  JSON.stringify(
    { id, object: 'event', api_version: '2026-10-28.endive', type, data: { object }, livemode: false },
    null,
    2,
  )

/** Signed by the package's own helper. */
const signed = (payload: string, over: { secret?: string; atMs?: number } = {}) => ({
  'stripe-signature': sdk.webhooks.generateTestHeaderString({
    payload,
    secret: over.secret ?? secret,
    timestamp: Math.floor((over.atMs ?? nowMs) / 1000),
  }),
})
const verify = (payload: string, headers: object) =>
  gateway.verify(Buffer.from(payload), headers as Record<string, string>, nowMs)

test('the published session: open and unpaid, credits nothing', () => {
  assert.deepEqual(reportOfSession(published), {
    kind: 'invoice',
    invoiceId: published.id,
    depositId: null,
    currency: 'usd',
    status: 'open',
    payments: [],
  })
})

test('a paid session credits amount_total once, under the id of the session', () => {
  const paid = { ...published, status: 'complete', payment_status: 'paid', metadata: { deposit_id: 'dep_a' } }
  assert.deepEqual(reportOfSession(paid), {
    kind: 'invoice',
    invoiceId: published.id,
    depositId: 'dep_a',
    currency: 'usd',
    status: 'paid',
    payments: [{ paymentId: published.id, amountMicros: 21_980_000 }],
  })
})

test('a complete and unpaid session is a delayed payment: pending, or failed if its intent failed', () => {
  const complete = { ...published, status: 'complete' }
  assert.equal(reportOfSession(complete).status, 'processing')
  const intent = (status: string) =>
    reportOfSession({ ...complete, payment_intent: { id: 'pi_1', status } }).status
  assert.equal(intent('processing'), 'processing')
  assert.equal(intent('requires_payment_method'), 'failed')
  assert.equal(reportOfSession({ ...published, status: 'expired' }).status, 'expired')
})

/** The sample of https://docs.stripe.com/api/disputes/object, without its evidence. */
const publishedDispute = JSON.parse(`{
  "id": "du_1MtJUT2eZvKYlo2CNaw2HvEv",
  "object": "dispute",
  "amount": 1000,
  "balance_transactions": [],
  "charge": "ch_1AZtxr2eZvKYlo2CJDX8whov",
  "created": 1680651737,
  "currency": "usd",
  "is_charge_refundable": true,
  "livemode": false,
  "metadata": {},
  "payment_intent": null,
  "reason": "general",
  "status": "warning_needs_response"
}`)

test('the published dispute is an inquiry and took nothing; its balance transactions show what moved', () => {
  assert.deepEqual(disputeStateOf(publishedDispute), { state: 'inquiry' })
  const state = (status: Stripe.Dispute.Status, ...amounts: readonly number[]) => {
    const balance_transactions = amounts.map(
      (amount) => ({ amount, currency: 'usd' }) as Stripe.BalanceTransaction,
    )
    return disputeStateOf({ ...publishedDispute, status, balance_transactions }).state
  }
  assert.equal(state('needs_response', -1000), 'withdrawn')
  assert.equal(state('won', -1000), 'withdrawn', 'won, and not given back yet')
  assert.equal(state('won', -1000, 1000), 'reinstated')
  assert.equal(state('lost'), 'withdrawn')
  assert.equal(state('prevented'), 'inquiry')
  assert.equal(state('warning_closed'), 'inquiry')
  assert.equal(state('warning_closed', 0), 'inquiry', 'a fee alone')
})

test('amounts that a dispute moved besides the disputed amount are listed, and decide the owner of the money', () => {
  const of = (currency: string, ...amounts: readonly number[]) => {
    const balance_transactions = amounts.map((amount) => ({ amount, currency }) as Stripe.BalanceTransaction)
    return disputeStateOf({ ...publishedDispute, status: 'lost', balance_transactions })
  }
  assert.deepEqual(of('usd', -1000, 400), { state: 'withdrawn', adjusted: '-6.00 usd' })
  assert.deepEqual(of('usd', -1000, 1000, -1000), { state: 'withdrawn', adjusted: '-10.00 usd' })
  assert.deepEqual(of('usd', -900), { state: 'withdrawn', adjusted: '-9.00 usd' })
  assert.deepEqual(of('usd', -1000, 1100), { state: 'reinstated', adjusted: '1.00 usd' })
  assert.deepEqual(of('usd', -1000, 1000), { state: 'reinstated' })
  assert.deepEqual(of('usd', -1000), { state: 'withdrawn' })
  assert.deepEqual(of('eur', -930), { state: 'withdrawn' }, 'it cannot be compared')
  assert.deepEqual(of('eur', -930, 925), { state: 'withdrawn', adjusted: '-0.05 eur' })
  assert.deepEqual(of('jpy', -1500, 500), { state: 'withdrawn', adjusted: '-1000 jpy' })
})

test('a dispute is looked up with its charge and the session of its payment', async () => {
  const requests: string[] = []
  const api = createStripeGateway({ secretKey: 'sk_test_unused', webhookSecret: secret }, async (url) => {
    const { pathname, search } = new URL(url)
    requests.push(`${pathname}${search}`)
    const found = pathname.startsWith('/v1/disputes/')
      ? { ...publishedDispute, payment_intent: 'pi_1', status: 'needs_response' }
      : {
          object: 'list',
          has_more: false,
          url: '/v1/checkout/sessions',
          data: [{ ...published, metadata: { deposit_id: 'dep_a' } }],
        }
    return { status: 200, headers: new Headers(), text: async () => JSON.stringify(found) }
  })
  assert.deepEqual(await api.fetch(`dispute:${publishedDispute.id}`), {
    kind: 'dispute',
    disputeId: publishedDispute.id,
    invoiceId: published.id,
    depositId: 'dep_a',
    currency: 'usd',
    amountMicros: 10_000_000,
    state: 'withdrawn',
  })
  assert.match(requests[1] ?? '', /^\/v1\/checkout\/sessions\?.*payment_intent=pi_1/)
})

test('disputes and refunds are listed page by page since a time, without disputes that moved nothing', async () => {
  const queries: URLSearchParams[] = []
  const one = (id: string, status: string, amounts: readonly number[]) => ({
    ...publishedDispute,
    id,
    status,
    balance_transactions: amounts.map((amount) => ({ amount, currency: 'usd' })),
  })
  const refunds = [{ id: 're_1', object: 'refund', status: 'succeeded', charge: 'ch_1' }]
  const listOf = (data: unknown, has_more: boolean) => {
    const list = { object: 'list', url: '/v1/disputes', has_more, data }
    return { status: 200, headers: new Headers(), text: async () => JSON.stringify(list) }
  }
  const pages = [
    [one('dp_3', 'needs_response', [-1000]), one('dp_2', 'warning_needs_response', [])],
    [one('dp_1', 'won', [-1000, 1000])],
  ]
  const api = createStripeGateway({ secretKey: 'sk_test_unused', webhookSecret: secret }, async (url) => {
    const { pathname, searchParams } = new URL(url)
    if (pathname === '/v1/refunds') return listOf(refunds, false)
    assert.equal(pathname, '/v1/disputes')
    const data = pages[queries.push(searchParams) - 1]
    return listOf(data, queries.length < pages.length)
  })
  assert.deepEqual(await api.changesSince(1_680_000_000_999), [
    { eventId: 'found dp_3 withdrawn', reference: 'dispute:dp_3' },
    { eventId: 'found dp_1 reinstated', reference: 'dispute:dp_1' },
    { eventId: 'found re_1 succeeded', reference: 'charge:ch_1' },
  ])
  assert.deepEqual(
    queries.map((query) => [query.get('created[gte]'), query.get('starting_after')]),
    [
      ['1680000000', null],
      ['1680000000', 'dp_2'],
    ],
  )
})

test('a callback signed as the package signs is accepted, and used only as a hint to poll', () => {
  const body = event('checkout.session.completed', published)
  assert.deepEqual(verify(body, signed(body)), {
    ok: true,
    callback: { eventId: 'evt_1NG8Du2eZvKYlo2CUI79vXWy', reference: `session:${published.id}` },
  })
  const dispute = event('charge.dispute.created', { id: 'dp_1', object: 'dispute' })
  const taken = verify(dispute, signed(dispute))
  assert.ok(taken.ok && taken.callback.reference === 'dispute:dp_1')
  const other = event('customer.created', { id: 'cus_1', object: 'customer' })
  const ignored = verify(other, signed(other))
  assert.ok(ignored.ok && ignored.callback.reference === null)
})

test('another secret, other bytes, another time or no signature are refused', () => {
  const body = event('checkout.session.completed', published)
  const minutes = 60_000
  for (const [headers, sent] of [
    [signed(body, { secret: 'whsec_of_another_account' }), body],
    [signed(body), body.replace('2198', '9998')],
    [signed(body), JSON.stringify(JSON.parse(body))],
    [signed(body, { atMs: nowMs - 6 * minutes }), body],
    [signed(body, { atMs: nowMs + 6 * minutes }), body],
    [{ 'stripe-signature': 't=1,v1=00' }, body],
    [{ 'stripe-signature': '' }, body],
    [{}, body],
    [signed('not json'), 'not json'],
  ] as const)
    assert.equal(verify(sent, headers).ok, false)
  assert.equal(verify(body, signed(body, { atMs: nowMs - 4 * minutes })).ok, true)
})
