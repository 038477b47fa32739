import assert from 'node:assert/strict'
import { test } from 'node:test'
import Stripe from 'stripe'
import type { ReversalReport } from '../../../src/domain/payments/payments.ts'
import { UnreadableAnswer } from '../../../src/features/payments/payment-port.ts'
import { createStripeGateway, reportOfSession } from '../../../src/features/payments/stripe.ts'
import type { DepositId } from '../../../src/kernel/ids.ts'

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

test('a payer may pay in another currency: the amount and the currency of the integration are credited', () => {
  const { payments, currency } = reportOfSession({
    ...published,
    status: 'complete',
    payment_status: 'paid',
    presentment_details: { presentment_amount: 2_020, presentment_currency: 'eur' },
  })
  assert.deepEqual([currency, payments], ['usd', [{ paymentId: published.id, amountMicros: 21_980_000 }]])
})

test('payers pay in dollars, unless the setting lets them pay in their own currency', async () => {
  const createdWith = async (adaptivePricing?: boolean) => {
    let body = ''
    const api = createStripeGateway(
      { secretKey: 'sk_test_unused', webhookSecret: secret },
      async (_url, init) => {
        body = String(init?.body)
        const session = { ...published, url: 'https://checkout.stripe.com/c/pay/cs_1' }
        return { status: 200, headers: new Headers(), text: async () => JSON.stringify(session) }
      },
      adaptivePricing === undefined ? {} : { adaptivePricing },
    )
    await api.createInvoice({
      depositId: 'dep_a' as DepositId,
      amountCents: 2_500,
      rail: 'card',
      merchantName: 'Shop',
      returnUrl: 'https://shop.example.com',
      callbackUrl: 'https://shop.example.com/callbacks/service-stripe',
    })
    return new URLSearchParams(body).get('adaptive_pricing[enabled]')
  }
  assert.deepEqual(
    [await createdWith(), await createdWith(false), await createdWith(true)],
    ['false', 'false', 'true'],
  )
})

test('refunds are read with the balance transactions that Stripe settled, never from the sum of the charge', async () => {
  const transaction = (id: string, amount: number, fee: number) => ({
    id,
    object: 'balance_transaction',
    amount,
    fee,
    currency: 'usd',
    created: 1_680_651_737,
  })
  const refund = { object: 'refund', amount: 1_500, currency: 'jpy', charge: 'ch_1' }
  const answers: Readonly<Record<string, object>> = {
    '/v1/charges/ch_1': { id: 'ch_1', object: 'charge', payment_intent: 'pi_1', amount_refunded: 99_999 },
    '/v1/checkout/sessions': { object: 'list', data: [{ ...published, metadata: { deposit_id: 'dep_a' } }] },
    '/v1/refunds': {
      object: 'list',
      has_more: false,
      data: [
        {
          ...refund,
          id: 're_2',
          status: 'failed',
          balance_transaction: transaction('txn_2', -1_000, 0),
          failure_balance_transaction: transaction('txn_3', 990, -5),
        },
        { ...refund, id: 're_1', status: 'pending', balance_transaction: null },
      ],
    },
  }
  const queries: string[] = []
  const api = createStripeGateway({ secretKey: 'sk_test_unused', webhookSecret: secret }, async (url) => {
    const { pathname, search } = new URL(url)
    queries.push(decodeURIComponent(search))
    return { status: 200, headers: new Headers(), text: async () => JSON.stringify(answers[pathname]) }
  })
  const at = '2023-04-04T23:42:17.000Z'
  const usd = { currency: 'usd', at }
  assert.deepEqual(await api.fetch('charge:ch_1'), {
    kind: 'reversals',
    depositId: 'dep_a',
    reversals: [
      {
        reason: 'deposit_refund',
        reversalId: 're_2',
        movements: [
          { ...usd, transactionId: 'txn_2', amountMicros: -10_000_000, feeMicros: 0 },
          { ...usd, transactionId: 'txn_3', amountMicros: 9_900_000, feeMicros: -50_000 },
        ],
      },
      { reason: 'deposit_refund', reversalId: 're_1', movements: [] },
    ],
  })
  assert.match(queries.at(-1) ?? '', /charge=ch_1.*expand.*data\.balance_transaction.*data\.failure_balance/)
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

test('a payment by a saved card that was interrupted is repeated under its key; a refused one has failed', async () => {
  const method = {
    setupId: 'cs_1',
    gatewayId: 'stripe',
    customerReference: 'cus_1',
    methodReference: 'pm_1',
    brand: 'visa',
    lastFour: '4242',
  }
  const payment = { topupId: 'top_1', depositId: 'dep_a' as DepositId, amountCents: 2_500, method }
  const apiWith = (over: object) =>
    createStripeGateway({ secretKey: 'sk_test_unused', webhookSecret: secret }, async (url, init) => {
      const intent = {
        id: 'pi_1',
        object: 'payment_intent',
        amount_received: 0,
        currency: 'usd',
        created: 1_680_651_737,
        last_payment_error: null,
        metadata: { topup_id: 'top_1', deposit_id: 'dep_a' },
        ...over,
      }
      const isOne = init?.method === 'POST' || new URL(url).pathname.endsWith('/pi_1')
      const answer = isOne ? intent : { object: 'list', has_more: false, data: [intent] }
      return { status: 200, headers: new Headers(), text: async () => JSON.stringify(answer) }
    })
  const declined = { type: 'card_error', code: 'card_declined' }
  for (const [over, found, status] of [
    [{ status: 'requires_payment_method' }, null, 'open'],
    [{ status: 'requires_confirmation' }, null, 'open'],
    [
      { status: 'requires_payment_method', last_payment_error: declined },
      { failed: 'card_declined' },
      'failed',
    ],
    [{ status: 'canceled' }, { failed: 'payment_failed' }, 'failed'],
    [{ status: 'requires_action' }, { failed: 'authentication_required' }, 'failed'],
    [{ status: 'under_review' }, { paymentId: 'pi_1', startedAt: '2023-04-04T23:42:17.000Z' }, 'processing'],
    [{ status: 'processing' }, { paymentId: 'pi_1', startedAt: '2023-04-04T23:42:17.000Z' }, 'processing'],
  ] as const) {
    const { cards, readInvoice } = apiWith(over)
    assert.deepEqual(await cards!.find(payment), found, over.status)
    const report = await readInvoice({ invoiceId: 'pi_1', depositId: payment.depositId })
    assert.ok(report?.kind === 'invoice')
    assert.equal(report.status, status)
    const isUnknown = over.status === 'under_review'
    assert.deepEqual(
      report.unknownStatuses,
      isUnknown ? [{ id: 'pi_1', status: 'under_review', amount: null }] : undefined,
    )
  }
  const interrupted = apiWith({ status: 'requires_confirmation' })
  await assert.rejects(
    interrupted.cards!.pay(payment),
    /stripe: a payment with the status requires_confirmation/,
  )
})

test('an unknown status of a session or its payment is named, and closes nothing', () => {
  const named = (over: object) => {
    const { status, unknownStatuses } = reportOfSession({ ...published, ...over })
    return [status, unknownStatuses?.map((one) => `${one.id} ${one.status}`)]
  }
  assert.deepEqual(named({ status: 'paused' }), ['processing', [`${published.id} paused`]])
  assert.deepEqual(named({ status: 'complete', payment_status: 'disputed' }), [
    'processing',
    [`${published.id} disputed`],
  ])
  const payment_intent = { id: 'pi_1', status: 'requires review' }
  assert.deepEqual(named({ status: 'complete', payment_intent }), ['processing', ['pi_1 unreadable']])
  assert.deepEqual(named({ status: 'paused', payment_status: 'paid' }), ['paid', [`${published.id} paused`]])
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

const transaction = (id: string, amount: number, currency = 'usd') => ({
  id,
  object: 'balance_transaction',
  amount,
  currency,
  fee: 0,
  created: 1_680_651_737 + Number(id.slice('txn_'.length)),
})

/** What is read of a dispute with this status and these balance transactions. */
const readDispute = async (over: object) => {
  const api = createStripeGateway({ secretKey: 'sk_test_unused', webhookSecret: secret }, async (url) => {
    const found = new URL(url).pathname.startsWith('/v1/disputes/')
      ? { ...publishedDispute, payment_intent: 'pi_1', ...over }
      : { object: 'list', data: [{ ...published, metadata: { deposit_id: 'dep_a' } }] }
    return { status: 200, headers: new Headers(), text: async () => JSON.stringify(found) }
  })
  const report = await api.fetch(`dispute:${publishedDispute.id}`)
  assert.equal(report?.kind, 'reversals')
  return report?.kind === 'reversals' ? (report.reversals[0]?.movements ?? []) : []
}

test('the published dispute is an inquiry and took nothing; only its balance transactions move money', async () => {
  for (const status of ['warning_needs_response', 'prevented', 'warning_closed', 'lost', 'won'])
    assert.deepEqual(await readDispute({ status }), [])
  const amounts = async (status: string, ...moved: readonly number[]) => {
    const balance_transactions = moved.map((amount, n) => transaction(`txn_${n}`, amount))
    return (await readDispute({ status, balance_transactions })).map(({ amountMicros }) => amountMicros)
  }
  assert.deepEqual(await amounts('won', -1000), [-10_000_000], 'won, and not given back yet')
  assert.deepEqual(await amounts('needs_response', -1000, 400), [-10_000_000, 4_000_000], 'a part, not won')
})

test('movements of a dispute are in the order of time and in the settled currency, with their fees', async () => {
  const balance_transactions = [
    { ...transaction('txn_5', 1000), fee: -1500 },
    { ...transaction('txn_2', -1000), fee: 1500 },
  ]
  const found = await readDispute({ currency: 'eur', amount: 930, balance_transactions })
  assert.deepEqual(
    found.map(({ transactionId, currency, feeMicros }) => [transactionId, currency, feeMicros]),
    [
      ['txn_2', 'usd', 15_000_000],
      ['txn_5', 'usd', -15_000_000],
    ],
  )
})

test('amounts have the decimals of Stripe, also for a currency that has no code of ISO 4217', async () => {
  for (const [currency, units] of [
    ['jpy', 1_500],
    ['mga', 1_500],
    ['isk', 15],
    ['huf', 15],
    ['ugx', 15],
    ['usdc', 15],
    ['kwd', 1.5],
  ] as const) {
    const [moved] = await readDispute({ balance_transactions: [transaction('txn_1', -1500, currency)] })
    assert.equal(moved?.amountMicros, -1_000_000 * units, currency)
  }
})

test('a dispute is looked up with its charge and the session of its payment', async () => {
  const requests: string[] = []
  const api = createStripeGateway({ secretKey: 'sk_test_unused', webhookSecret: secret }, async (url) => {
    const { pathname, search } = new URL(url)
    requests.push(`${pathname}${search}`)
    const found = pathname.startsWith('/v1/disputes/')
      ? {
          ...publishedDispute,
          payment_intent: 'pi_1',
          status: 'needs_response',
          balance_transactions: [transaction('txn_1', -1000)],
        }
      : {
          object: 'list',
          has_more: false,
          url: '/v1/checkout/sessions',
          data: [{ ...published, metadata: { deposit_id: 'dep_a' } }],
        }
    return { status: 200, headers: new Headers(), text: async () => JSON.stringify(found) }
  })
  assert.deepEqual(await api.fetch(`dispute:${publishedDispute.id}`), {
    kind: 'reversals',
    depositId: 'dep_a',
    reversals: [
      {
        reason: 'chargeback',
        reversalId: publishedDispute.id,
        movements: [
          {
            transactionId: 'txn_1',
            currency: 'usd',
            amountMicros: -10_000_000,
            feeMicros: 0,
            at: '2023-04-04T23:42:18.000Z',
          },
        ],
      },
    ],
  })
  assert.match(requests[1] ?? '', /^\/v1\/checkout\/sessions\?.*payment_intent=pi_1/)
})

test('disputes and refunds are listed page by page since a time, without disputes that moved nothing', async () => {
  const queries: URLSearchParams[] = []
  const one = (id: string, status: string, amounts: readonly number[]) => ({
    ...publishedDispute,
    id,
    status,
    balance_transactions: amounts.map((amount, n) => transaction(`txn_${n}`, amount)),
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
    { eventId: 'found dp_3 txn_0', reference: 'dispute:dp_3' },
    { eventId: 'found dp_1 txn_0 txn_1', reference: 'dispute:dp_1' },
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

test('a dispute or a refund that cannot be read is listed, and the others of its charge are read', async () => {
  const odd = [
    { ...transaction('txn_2', -500), currency: null },
    { ...transaction('txn_2', -500), amount: '-500' },
    { ...transaction('txn_2', -500), created: undefined },
    transaction('txn_2', -9e12),
  ]
  for (const unreadable of odd) {
    const disputes = [
      { ...publishedDispute, id: 'dp_2', balance_transactions: [unreadable] },
      { ...publishedDispute, id: 'dp_3', balance_transactions: 'none' },
    ]
    const refunds = [
      { id: 're_2', object: 'refund', status: 'succeeded', charge: 'ch_1', balance_transaction: unreadable },
      {
        ...{ id: 're_1', object: 'refund', status: 'succeeded', charge: 'ch_1' },
        balance_transaction: transaction('txn_1', -100),
      },
    ]
    const api = createStripeGateway({ secretKey: 'sk_test_unused', webhookSecret: secret }, async (url) => {
      const { pathname } = new URL(url)
      const listed = pathname === '/v1/refunds' ? refunds : pathname === '/v1/disputes' ? disputes : null
      const body = listed
        ? { object: 'list', url: pathname, has_more: false, data: listed }
        : pathname === '/v1/charges/ch_1'
          ? { id: 'ch_1', object: 'charge', payment_intent: null }
          : disputes.find(({ id }) => pathname === `/v1/disputes/${id}`)
      return { status: 200, headers: new Headers(), text: async () => JSON.stringify(body) }
    })
    assert.deepEqual(
      (await api.changesSince(0)).map(({ reference }) => reference),
      ['dispute:dp_2', 'dispute:dp_3', 'charge:ch_1', 'charge:ch_1'],
    )
    for (const id of ['dp_2', 'dp_3']) await assert.rejects(api.fetch(`dispute:${id}`), UnreadableAnswer)
    const read = (await api.fetch('charge:ch_1')) as ReversalReport
    assert.deepEqual(
      [read.reversals.map(({ reversalId }) => reversalId), read.unreadable],
      [['re_1'], ['re_2']],
    )
  }
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

test('a thin event, which does not contain its object, is accepted and names nothing to poll', () => {
  const thin = JSON.stringify({
    id: 'evt_test_65UdrUK2h2Y',
    object: 'v2.core.event',
    type: 'v1.billing.meter.error_report_triggered',
    created: '2026-11-21T10:00:00.000Z',
    related_object: { id: 'mtr_1', type: 'billing.meter', url: '/v1/billing/meters/mtr_1' },
  })
  assert.deepEqual(verify(thin, signed(thin)), {
    ok: true,
    callback: { eventId: 'evt_test_65UdrUK2h2Y', reference: null },
  })
  const session = JSON.stringify({ ...JSON.parse(thin), type: 'checkout.session.completed', data: {} })
  const taken = verify(session, signed(session))
  assert.ok(taken.ok && taken.callback.reference === null)
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
