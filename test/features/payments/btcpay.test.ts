import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { createBtcpayGateway, paymentsOf } from '../../../src/features/payments/btcpay.ts'
import { GatewayUnavailable } from '../../../src/features/payments/payment-port.ts'
import type { Send } from '../../../src/platform/outgoing/send.ts'

const credentials = {
  url: 'https://pay.example.com/',
  storeId: '7GRgSP35W6W9WDnNRjmjKs2ct91yxSM9pzJ8D4Wkcq1D',
  apiKey: 'key',
  webhookSecret: 'VERY_SECRET',
}
const nowMs = 1_698_766_100_000

/** Answers by method and path, and the received calls. */
const server = (answers: Readonly<Record<string, unknown>>) => {
  const calls: { what: string; body: unknown; headers: Readonly<Record<string, string>> | undefined }[] = []
  const send: Send = async (url, init = {}) => {
    const what = `${init.method} ${url.replace(credentials.url, '/')}`
    calls.push({ what, body: init.body && JSON.parse(init.body), headers: init.headers })
    const found = answers[what]
    return {
      status: found === undefined ? 404 : 200,
      headers: new Headers(),
      text: async () => (typeof found === 'string' ? found : JSON.stringify(found)),
    }
  }
  return { calls, gateway: createBtcpayGateway(credentials, send) }
}

const store = `/api/v1/stores/${credentials.storeId}/invoices`

/** `InvoiceData` of the Greenfield API with the examples that its specification gives for the fields. */
const invoice = {
  id: 'GmXbZFSP4A8hPSRtZ7Kz3A',
  storeId: credentials.storeId,
  amount: '5.00',
  currency: 'USD',
  type: 'Standard',
  checkoutLink: 'https://pay.example.com/i/GmXbZFSP4A8hPSRtZ7Kz3A',
  createdTime: 1592312018,
  expirationTime: 1592312918,
  monitoringExpiration: 1592399318,
  status: 'New',
  additionalStatus: 'None',
  metadata: { orderId: 'dep_a' },
}
/** `InvoicePaymentMethodDataModel`; the rate is the specification's example. */
const methods = (value: string, status: string) => [
  {
    paymentMethodId: 'BTC-CHAIN',
    currency: 'BTC',
    rate: '64392.23',
    totalPaid: value,
    due: '0.0',
    payments: [
      {
        id: 'c9ebb2c1-0',
        receivedDate: 1592312300,
        value,
        fee: '0.0',
        status,
        destination: 'bc1q',
      },
    ],
  },
]

const settledIn = (read: Parameters<typeof paymentsOf>[0]) => paymentsOf(read).payments

test('settled payments count at the rate of the invoice, rounded down to a micro-dollar', () => {
  assert.deepEqual(settledIn(methods('0.00007766', 'Settled')), [
    { paymentId: 'c9ebb2c1-0', amountMicros: 5_000_700 },
  ])
  assert.deepEqual(settledIn(methods('0.00007766', 'Processing')), [])
  assert.deepEqual(settledIn(methods('0.00007766', 'Invalid')), [])
  assert.deepEqual(settledIn(methods('0', 'Settled')), [])
})

test('a payment that cannot be read is named, and the others of its invoice count', () => {
  const [method] = methods('0.00007766', 'Settled')
  const [good] = method!.payments
  for (const odd of [{ value: 'a lot' }, { value: '-1' }, { value: '9'.repeat(40) }, { status: 7 }]) {
    const payments = [{ ...good!, id: 'odd', ...odd }, good!, { ...good!, id: '' }]
    const read = paymentsOf([{ ...method!, payments }])
    assert.deepEqual(
      [read.payments.map(({ paymentId }) => paymentId), read.unreadable],
      [[good!.id], ['odd', 'payment']],
    )
  }
})

test('an invoice with an impossible number of payments is an outage, for any payment method', () => {
  const [method] = methods('0.00007766', 'Settled')
  const of = (count: number, name: string) => ({
    ...method!,
    payments: Array.from({ length: count }, (_, n) => ({ ...method!.payments[0]!, id: `${name}-${n}` })),
  })
  assert.equal(settledIn([of(250, 'a'), of(250, 'b')]).length, 500)
  assert.throws(() => settledIn([of(250, 'a'), of(251, 'b')]), GatewayUnavailable)
})

test('an invoice is read with its payments; numbers may be JSON numbers or texts', async () => {
  const { gateway, calls } = server({
    [`GET ${store}/${invoice.id}`]: { ...invoice, status: 'Settled' },
    [`GET ${store}/${invoice.id}/payment-methods`]: methods('0.00007766', 'Settled'),
  })
  assert.deepEqual(await gateway.fetch(`invoice:${invoice.id}`), {
    kind: 'invoice',
    invoiceId: invoice.id,
    depositId: 'dep_a',
    currency: 'usd',
    status: 'paid',
    payments: [{ paymentId: 'c9ebb2c1-0', amountMicros: 5_000_700 }],
  })
  assert.equal(calls[0]?.headers?.authorization, 'token key')
  assert.equal(await gateway.fetch('invoice:unknown'), null)
})

test('an invoice is searched before it is created, because the API has no idempotency key', async () => {
  const request = {
    depositId: 'dep_a',
    amountCents: 500,
    rail: 'crypto',
    merchantName: 'Acme',
    returnUrl: 'https://acme.example/',
    callbackUrl: 'https://farebox.example/callbacks/x',
  } as never
  const stands = server({ [`GET ${store}?orderId=dep_a`]: [invoice] })
  const created = await stands.gateway.createInvoice(request)
  assert.deepEqual(created, {
    invoiceId: invoice.id,
    payUrl: invoice.checkoutLink,
    expiresAt: '2020-06-16T13:08:38.000Z',
    watchUntil: '2020-06-17T13:08:38.000Z',
  })
  assert.equal(stands.calls.length, 1)
  const none = server({ [`GET ${store}?orderId=dep_a`]: [], [`POST ${store}`]: invoice })
  await none.gateway.createInvoice(request)
  assert.deepEqual(none.calls[1]?.body, {
    amount: '5.00',
    currency: 'USD',
    metadata: { orderId: 'dep_a', itemDesc: 'Acme: account credit' },
    checkout: {
      expirationMinutes: 60,
      monitoringMinutes: 1440,
      paymentTolerance: 0,
      redirectURL: 'https://acme.example/',
    },
  })
})

test("payers are sent to https pages only, whatever a reseller's server returns", async () => {
  const create = (checkoutLink: string) =>
    server({ [`GET ${store}?orderId=dep_a`]: [{ ...invoice, checkoutLink }] }).gateway.createInvoice({
      depositId: 'dep_a',
      amountCents: 500,
    } as never)
  const elsewhere = 'https://checkout.example.org/i/1'
  assert.equal((await create(elsewhere)).payUrl, elsewhere)
  assert.equal((await create(`${elsewhere}\0x`)).payUrl, `${elsewhere}%00x`, 'no table holds a NUL')
  for (const odd of [
    'javascript:alert(1)',
    'http://pay.example.com/i/1',
    'https://user:password@pay.example.com/i/1',
    'data:text/html,pay',
    '/i/1',
    '',
    `https://pay.example.com/${'i'.repeat(2_048)}`,
  ])
    await assert.rejects(create(odd), GatewayUnavailable, odd)
})

test('an invoice that ends after the year 9999, or before 1970, is an outage: no table can store that time', async () => {
  const create = (times: object) =>
    server({ [`GET ${store}?orderId=dep_a`]: [{ ...invoice, ...times }] }).gateway.createInvoice({
      depositId: 'dep_a',
      amountCents: 500,
    } as never)
  const last = { expirationTime: 253402214399, monitoringExpiration: undefined }
  assert.equal((await create(last)).watchUntil, '9999-12-31T23:59:59.000Z', 'a day after its end')
  for (const odd of [253402300800, 1592312918000, 1e300, -1])
    for (const field of ['expirationTime', 'monitoringExpiration'])
      await assert.rejects(create({ [field]: odd }), GatewayUnavailable, `${field} ${odd}`)
})

test('an undocumented answer, or none, is an outage', async () => {
  const { gateway } = server({
    [`GET ${store}/x`]: { id: 'x', status: 'Sleeping' },
    [`GET ${store}/y`]: '<html>',
  })
  for (const id of ['x', 'y']) await assert.rejects(gateway.fetch(`invoice:${id}`), GatewayUnavailable)
})

test('an answer with more values than any invoice has is an outage before they are read, so that it delays nothing', async () => {
  const read = (list: string) =>
    server({
      [`GET ${store}/${invoice.id}`]: invoice,
      [`GET ${store}/${invoice.id}/payment-methods`]: list,
    }).gateway.fetch(`invoice:${invoice.id}`)
  const listOf = (count: number, item: string) => `[${Array(count).fill(item).join(',')}]`
  for (const [count, item] of [
    [1_000_000, '1'],
    [600_000, '{}'],
    [600_000, '""'],
    [6_000, '[]'],
  ] as const)
    await assert.rejects(read(listOf(count, item)), {
      name: 'GatewayUnavailable',
      message: /payment-methods: an answer of more than 6000 values$/,
    })
  const [method] = methods('0.00007766', 'Settled')
  const parts = Array.from({ length: 500 }, (_, n) => ({ ...method!.payments[0]!, id: `${n}` }))
  const whole = await read(JSON.stringify([{ ...method, payments: parts }]))
  assert.equal(whole?.kind === 'invoice' && whole.payments.length, 500)
})

test('a payment with an id other than at most 200 printable characters cannot be read', async () => {
  const read = (id: string) => {
    const [method] = methods('0.00007766', 'Settled')
    const payments = [{ ...method?.payments[0], id }]
    const { gateway } = server({
      [`GET ${store}/${invoice.id}`]: { ...invoice, status: 'Settled' },
      [`GET ${store}/${invoice.id}/payment-methods`]: [{ ...method, payments }],
    })
    return gateway.readInvoice({ invoiceId: invoice.id, depositId: 'dep_a' as never })
  }
  const longest = `${'f'.repeat(64)}-${'1'.repeat(135)}`
  assert.deepEqual((await read(longest))?.payments, [{ paymentId: longest, amountMicros: 5_000_700 }])
  for (const id of [
    '',
    `${longest}1`,
    'two words',
    'tab\t',
    'line\n',
    'nul\u0000',
    '=1+1\r',
    'ünï',
    '\u202e',
  ])
    assert.deepEqual((await read(id))?.unreadable, [`${invoice.id} payment`], JSON.stringify(id))
})

test('fields of an invoice are bounded: a long currency is an outage, an unknown reference is not ours', async () => {
  const read = (over: object) =>
    server({
      [`GET ${store}/${invoice.id}`]: { ...invoice, ...over },
      [`GET ${store}/${invoice.id}/payment-methods`]: [],
    }).gateway.readInvoice({ invoiceId: invoice.id, depositId: 'dep_a' as never })
  await assert.rejects(read({ currency: 'a text about Jane Payer' }), GatewayUnavailable)
  assert.equal((await read({ metadata: { orderId: 'dep_a\u0000' } }))?.depositId, null)
  assert.equal((await read({}))?.depositId, 'dep_a')
})

test('paid-out amounts of a refund are summed; pull payments with other names belong to no deposit', async () => {
  const refund = (name: string, payouts: unknown) =>
    server({
      [`GET ${store}/${invoice.id}`]: invoice,
      'GET /api/v1/pull-payments/pull': { id: 'pull', name, currency: 'USD', amount: '5.00' },
      'GET /api/v1/pull-payments/pull/payouts': payouts,
    }).gateway.fetch('refund:pull')
  const payouts = [
    { id: 'a', state: 'Completed', originalAmount: '3.5' },
    { id: 'b', state: 'InProgress', amount: 1 },
    { id: 'c', state: 'AwaitingApproval', amount: '0.5' },
    { id: 'd', state: 'Cancelled', amount: '0.5' },
  ]
  assert.deepEqual(await refund(`Refund ${invoice.id}`, payouts), {
    kind: 'change',
    change: 'refunded',
    reference: 'pull',
    depositId: 'dep_a',
    amount: '4.5 usd',
  })
  assert.equal((await refund(`Refund ${invoice.id}`, []))?.kind, 'change')
  assert.equal(await refund('Wages of November', payouts), null)
  assert.equal(await refund('Refund another', payouts), null)
  for (const amount of ['-1', '1e300', 'a lot', undefined])
    await assert.rejects(
      refund(`Refund ${invoice.id}`, [{ id: 'a', state: 'Completed', amount }]),
      GatewayUnavailable,
    )
})

/** `WebhookInvoiceSettledEvent` as the server sends it: indented, with every field of the specification. */
const body = JSON.stringify(
  {
    deliveryId: 'XAyiFTTuJDUgcrkhHTWAUX',
    webhookId: '9h2NbDdLZDRmWzUFgcPZJS',
    originalDeliveryId: 'XAyiFTTuJDUgcrkhHTWAUX',
    isRedelivery: false,
    type: 'InvoiceSettled',
    timestamp: 1_698_766_000,
    storeId: credentials.storeId,
    invoiceId: invoice.id,
    manuallyMarked: false,
    overPaid: false,
  },
  null,
  2,
)

/** "BTCPay-Sig: sha256=HMAC256(UTF8(webhook's secret), body)" (Greenfield specification, Webhooks). */
const signed = (text: string, secret = credentials.webhookSecret) => ({
  'btcpay-sig': `sha256=${createHmac('sha256', Buffer.from(secret, 'utf8')).update(text).digest('hex')}`,
})

test('a callback is checked over its received bytes, and is accepted at any age', () => {
  const { gateway } = server({})
  const verify = (text: string, headers: object) => gateway.verify(Buffer.from(text), headers as never, nowMs)
  assert.deepEqual(verify(body, signed(body)), {
    ok: true,
    callback: { eventId: 'XAyiFTTuJDUgcrkhHTWAUX', reference: `invoice:${invoice.id}` },
  })
  // The published example of the header has this form; it belongs to no published body.
  const example = 'sha256=b438519edde5c8144a4f9bcec51a9d346eca6506887c2ceeae1c0092884a97b9'
  for (const [headers, sent] of [
    [{ 'btcpay-sig': example }, body],
    [signed(body, 'another'), body],
    [signed(body), JSON.stringify(JSON.parse(body))],
    [signed(body), `${body}\n`],
    [{ 'btcpay-sig': signed(body)['btcpay-sig'].replace('sha256=', '') }, body],
    [{ 'btcpay-sig': 'sha256=' }, body],
    [{}, body],
    [signed('[]'), '[]'],
  ] as const)
    assert.equal(verify(sent, headers).ok, false)
  const old = body.replace('1698766000', '1598766000')
  assert.equal(verify(old, signed(old)).ok, true)
  const payout = body.replace('InvoiceSettled', 'PayoutUpdated').replace('"invoiceId"', '"pullPaymentId"')
  const refund = verify(payout, signed(payout))
  assert.ok(refund.ok && refund.callback.reference === `refund:${invoice.id}`)
  const other = body.replace('InvoiceSettled', 'PaymentRequestUpdated')
  const taken = verify(other, signed(other))
  assert.ok(taken.ok && taken.callback.reference === null)
})

/**
 * Deliveries with their signatures as others published them: the project's own Zapier app (btcpayserver/zapier,
 * `test/searches/FindStore.test.js`, its secret in `test/triggers/`), and a client's test (negasus/btcpayserver-go,
 * `webhook_test.go`). The specification itself gives a signature without a body.
 */
const published = [
  {
    secret: '5TjrCfkTgfjY4rJj85bTJj',
    signature: 'sha256=4ec27a6ca16dbc7b8c7ddfb5654b1f8dbf8c69a439e970fd2bfac6e19713f211',
    deliveryId: 'PENf2czGBzTepjzSJdt6Nz',
    body: `{
  "deliveryId": "PENf2czGBzTepjzSJdt6Nz",
  "webhookId": "6KQ4EmzqKowRgyBL65TwJg",
  "originalDeliveryId": "PENf2czGBzTepjzSJdt6Nz",
  "isRedelivery": false,
  "type": "InvoiceCreated",
  "timestamp": 1623954207,
  "storeId": "Hf9GvFK2dHJehm9J8A6kYfbc1ruc5jEZBKEr9r7jsrLo",
  "invoiceId": "CQZj4Qbm475EJQ5HsWeAbd"
}`,
  },
  {
    secret: '123',
    signature: 'sha256=36edeacd744b12d9e8619361b9b7674d7df1cd7e566749d3994d8e0a7341c038',
    deliveryId: 'MexLY6gqtTsH2Tj67Hs8tE',
    body: `{
  "deliveryId": "MexLY6gqtTsH2Tj67Hs8tE",
  "webhookId": "2d6jyK97Mb2Kh95Mwfao2K",
  "originalDeliveryId": "MexLY6gqtTsH2Tj67Hs8tE",
  "isRedelivery": false,
  "type": "InvoiceCreated",
  "timestamp": 1689171308,
  "storeId": "9DMyti5DsvJRkmQnkeqdQ15mUPZDdmBtUb6j45MAGJo2",
  "invoiceId": "53e1v3oyB18WmQDrH29mUj",
  "metadata": {}
}`,
  },
] as const

test('published deliveries with their published signatures are accepted, and refused with one changed byte', () => {
  for (const { secret, signature, deliveryId, body: sent } of published) {
    const gateway = createBtcpayGateway({ ...credentials, webhookSecret: secret }, () =>
      assert.fail('nothing is sent'),
    )
    const verify = (text: string) => gateway.verify(Buffer.from(text), { 'btcpay-sig': signature }, nowMs)
    // A new invoice is not looked up: only its creator waits for it.
    assert.deepEqual(verify(sent), { ok: true, callback: { eventId: deliveryId, reference: null } })
    assert.deepEqual(verify(sent.replace('InvoiceCreated', 'InvoiceSettled')), {
      ok: false,
      why: 'signature',
    })
    assert.deepEqual(verify(sent.replaceAll('\n', '\r\n')), { ok: false, why: 'signature' })
  }
})
