import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { arrivedOf, createNowpaymentsGateway, statusOf } from '../../../src/features/payments/nowpayments.ts'
import type { DepositId } from '../../../src/kernel/ids.ts'
import type { Send } from '../../../src/platform/outgoing/send.ts'
import { startSandbox } from '../../../src/sandbox/sandbox-server.ts'
import { memoryRecords } from '../../support/memory-records.ts'

const ipnSecret = 'ipn-secret'
const credentials = { apiKey: 'key', ipnSecret, email: 'shop@example.com', password: 'secret' }

/**
 * The notification of the API documentation of NOWPayments ("Webhooks Examples: Payments"), with the
 * comma that the page misses before "fee".
 */
const published = `{
"payment_id":123456789,
"parent_payment_id":987654321,
"invoice_id":null,
"payment_status":"finished",
"pay_address":"address",
"payin_extra_id":null,
"price_amount":1,
"price_currency":"usd",
"pay_amount":15,
"actually_paid":15,
"actually_paid_at_fiat":0,
"pay_currency":"trx",
"order_id":null,
"order_description":null,
"purchase_id":"123456789",
"outcome_amount":14.8106,
"outcome_currency":"trx",
"payment_extra_ids":null,
"fee": {
"currency":"btc",
"depositFee":0.09853637216235617,
"withdrawalFee":0,
"serviceFee":0
}
}`

/** The page's own function, "Example of creating a signed string at Node.JS", word for word but for its types. */
// biome-ignore lint/suspicious/noExplicitAny: as published
function sortObject(obj: any): any {
  return (
    Object.keys(obj)
      .sort()
      // biome-ignore lint/suspicious/noExplicitAny: as published
      .reduce((result: any, key) => {
        result[key] = obj[key] && typeof obj[key] === 'object' ? sortObject(obj[key]) : obj[key]
        return result
      }, {})
  )
}
const signature = (text: string, secret = ipnSecret): string =>
  createHmac('sha512', secret)
    .update(JSON.stringify(sortObject(JSON.parse(text))))
    .digest('hex')

const server = (answers: Readonly<Record<string, unknown>>) => {
  const requests: string[] = []
  const send: Send = async (url, init = {}) => {
    const what = `${init.method} ${url.replace('https://api.nowpayments.io/v1', '')}`
    requests.push(what)
    const found = answers[what.split('?', 1)[0] as string]
    return {
      status: found === undefined ? 404 : 200,
      headers: new Headers(),
      text: async () => JSON.stringify(found),
    }
  }
  return { requests, gateway: createNowpaymentsGateway(credentials, send, { clock: () => 0 }) }
}
const { gateway } = server({})
const verify = (text: string, headers: object) => gateway.verify(Buffer.from(text), headers as never, 0)

test('the published notification, signed by the published function, is accepted', () => {
  const verdict = verify(published, { 'x-nowpayments-sig': signature(published) })
  assert.ok(verdict.ok)
  assert.equal(verdict.callback.reference, 'payment:123456789')
  assert.match(verdict.callback.eventId, /^123456789 finished [0-9a-f]{32}$/)
})

test('a body that arrives sorted is checked as received: rewriting 0.0000001 would change it', () => {
  const sorted = '{"fee":{"depositFee":0.0000001},"payment_id":5,"payment_status":"finished"}'
  const asSent = createHmac('sha512', ipnSecret).update(sorted).digest('hex')
  assert.equal(verify(sorted, { 'x-nowpayments-sig': asSent }).ok, true)
})

test('nested fields are signed: a changed fee, status or amount is refused, as are another secret and no signature', () => {
  const headers = { 'x-nowpayments-sig': signature(published) }
  for (const changed of [
    published.replace('0.09853637216235617', '0'),
    published.replace('"finished"', '"waiting"'),
    published.replace('"actually_paid":15', '"actually_paid":1500'),
  ])
    assert.equal(verify(changed, headers).ok, false)
  assert.equal(verify(published, { 'x-nowpayments-sig': signature(published, 'another') }).ok, false)
  assert.equal(verify(published, { 'x-nowpayments-sig': 'zz' }).ok, false)
  assert.equal(verify(published, {}).ok, false)
})

/** A valid notification with one more field, which keys in no order make a body that is not sent sorted. */
const notification = (more: unknown): string =>
  JSON.stringify({ payment_status: 'finished', payment_id: 5, more })
const nested = (levels: number): unknown => (levels === 0 ? 0 : [nested(levels - 1)])

test('a body is sorted up to 16 KiB and 16 levels; one that arrives sorted may be larger', () => {
  const taken = (text: string): boolean => verify(text, { 'x-nowpayments-sig': signature(text) }).ok
  const raw = (text: string): string => createHmac('sha512', ipnSecret).update(text).digest('hex')
  const sized = (bytes: number): string =>
    notification('x'.repeat(bytes - Buffer.byteLength(notification(''))))
  assert.deepEqual([taken(sized(16_384)), taken(sized(16_385))], [true, false])
  assert.equal(verify(sized(200_000), { 'x-nowpayments-sig': raw(sized(200_000)) }).ok, true)
  const deep = (levels: number): boolean => {
    const text = notification(nested(levels - 1))
    // The page's own function turns lists into objects, so the signature is computed here.
    const body = JSON.stringify({ more: nested(levels - 1), payment_id: 5, payment_status: 'finished' })
    return verify(text, { 'x-nowpayments-sig': raw(body) }).ok
  }
  assert.deepEqual([deep(16), deep(17)], [true, false])
})

test('a payment that cannot be read is named, and the others of its invoice count', async () => {
  const good = {
    ...{ payment_id: 1, invoice_id: 7, order_id: 'dep_a', payment_status: 'finished', price_amount: 10 },
    ...{ price_currency: 'usd', pay_amount: 2, actually_paid: 2 },
  }
  const data = [
    { ...good, payment_id: 2, pay_amount: null },
    { ...good, payment_id: 3, actually_paid: 'a lot' },
    { ...good, payment_id: 4, order_id: 'dep_b', pay_amount: null },
    { ...good, payment_id: null },
    good,
  ]
  const { gateway } = server({ 'POST /auth': { token: 't' }, 'GET /payment/': { data } })
  const read = await gateway.readInvoice({ invoiceId: '7', depositId: 'dep_a' as never })
  assert.deepEqual(read?.payments, [{ paymentId: '1', amountMicros: 10_000_000 }])
  assert.deepEqual(read?.unreadable, ['7 2', '7 payment', '7 3'])
})

test('a body of only brackets is refused like any other, and nothing is thrown', () => {
  const refused = { ok: false, why: 'signature' }
  for (const text of ['['.repeat(5_000), `${'['.repeat(5_000)}${']'.repeat(5_000)}`, '{"a":'.repeat(2_000)])
    for (const sig of ['zz', 'a'.repeat(128)])
      assert.deepEqual(verify(text, { 'x-nowpayments-sig': sig }), refused)
})

test('a body is not read when its signature has the wrong form', () => {
  let reads = 0
  const body = Buffer.from(published)
  body.toString = () => {
    reads += 1
    return published
  }
  const sent = (sig: string) => gateway.verify(body, { 'x-nowpayments-sig': sig }, 0)
  const right = signature(published)
  for (const sig of ['zz', '', right.slice(1), `${right}0`, `${right}\n`, 'g'.repeat(128)])
    assert.deepEqual(sent(sig), { ok: false, why: 'signature' })
  assert.equal(reads, 0)
  assert.equal(sent(right.toUpperCase()).ok, true)
  assert.ok(reads > 0)
})

test('the published notification of a withdrawal reports no deposit', () => {
  const withdrawal =
    '{"id":"123456789","batch_withdrawal_id":"987654321","status":"CREATING","currency":"usdttrc20","amount":"50"}'
  const verdict = verify(withdrawal, { 'x-nowpayments-sig': signature(withdrawal) })
  assert.ok(verdict.ok && verdict.callback.reference === null)
})

/** The answer of `GET /v1/payment/5524759814` on the page: 180 TRX arrived and 165.652609 were due for $5. */
const overpaid = {
  payment_id: 5524759814,
  payment_status: 'finished',
  pay_address: 'TNDFkiSmBQorNFacb3735q8MnT29sn8BLn',
  price_amount: 5,
  price_currency: 'usd',
  pay_amount: 165.652609,
  actually_paid: 180,
  pay_currency: 'trx',
  order_id: 'RGDBP-21314',
  order_description: 'Apple Macbook Pro 2019 x 1',
  purchase_id: '4944856743',
  created_at: '2020-12-16T14:30:43.306Z',
  updated_at: '2020-12-16T14:40:46.523Z',
  outcome_amount: 178.9005,
  outcome_currency: 'trx',
}

test('the received amount is the price times the paid share of the requested amount, rounded down', () => {
  const texts = {
    payment_id: '5524759814',
    price_currency: 'usd',
    price_amount: '5',
    pay_amount: '165.652609',
    actually_paid: '180',
  }
  // 5 × 180 / 165.652609 = 5.43305…
  assert.deepEqual(arrivedOf({ ...texts, payment_status: 'finished' }), {
    paymentId: '5524759814',
    amountMicros: 5_433_056,
  })
  assert.equal(arrivedOf({ ...texts, payment_status: 'confirmed' }), null)
  assert.equal(arrivedOf({ ...texts, payment_status: 'partially_paid', actually_paid: '0' }), null)
  assert.equal(arrivedOf({ ...texts, payment_status: 'expired', actually_paid: null }), null)
})

test('the status of an invoice covers all its payments', () => {
  const of = (...statuses: string[]) => statusOf(statuses.map((payment_status) => ({ payment_status })))
  assert.equal(of(), 'open')
  assert.equal(of('waiting'), 'open')
  assert.equal(of('expired', 'waiting'), 'open')
  assert.equal(of('confirming', 'expired'), 'processing')
  assert.equal(of('finished', 'expired'), 'paid')
  assert.equal(of('partially_paid'), 'expired')
  assert.equal(of('expired', 'expired'), 'expired')
  assert.equal(of('failed'), 'failed')
})

test('a repeated deposit makes an invoice neither paid nor closed, and an unconfirmed one is awaited', () => {
  const of = (status: string, repeatedStatus: string) =>
    statusOf([
      { payment_status: status, parent_payment_id: null },
      { payment_status: repeatedStatus, parent_payment_id: '1' },
    ])
  assert.equal(of('partially_paid', 'finished'), 'expired')
  assert.equal(of('expired', 'finished'), 'expired')
  assert.equal(of('finished', 'partially_paid'), 'paid')
  assert.equal(of('partially_paid', 'confirming'), 'processing')
})

test('a notification is verified with the API: the payment, then all payments of its invoice with the same reference', async () => {
  const invoiceId = 4522625843
  const { gateway: live, requests } = server({
    'GET /payment/5524759814': { ...overpaid, invoice_id: invoiceId },
    'POST /auth': { token: 'jwt' },
    'GET /payment/': {
      data: [
        { ...overpaid, payment_id: 1, actually_paid: 165.652609 },
        { ...overpaid, payment_id: 2, order_id: 'another' },
        { ...overpaid, invoice_id: invoiceId },
      ],
    },
  })
  assert.deepEqual(await live.fetch('payment:5524759814'), {
    kind: 'invoice',
    invoiceId: '4522625843',
    depositId: 'RGDBP-21314',
    currency: 'usd',
    status: 'paid',
    payments: [
      { paymentId: '1', amountMicros: 5_000_000 },
      { paymentId: '5524759814', amountMicros: 5_433_056 },
    ],
  })
  assert.equal(requests.filter((what) => what === 'POST /auth').length, 1)
  assert.ok(requests.some((what) => what.includes('invoiceId=4522625843')))
})

test('a repeated deposit whose notification was lost is found by its parent', async () => {
  const { gateway: live } = server({
    'POST /auth': { token: 'jwt' },
    'GET /payment/': { data: [{ ...overpaid, invoice_id: 9 }] },
    'GET /payment/5524759814': { ...overpaid, invoice_id: 9, payment_extra_ids: [7, 8] },
    'GET /payment/7': { ...overpaid, payment_id: 7, order_id: null, parent_payment_id: 5524759814 },
    'GET /payment/8': { ...overpaid, payment_id: 8, order_id: null, parent_payment_id: 1 },
  })
  const report = await live.readInvoice({ invoiceId: '9', depositId: overpaid.order_id as DepositId })
  assert.deepEqual(
    report?.payments.map(({ paymentId }) => paymentId),
    ['5524759814', '7'],
  )
})

test('the stand-in has repeated deposits beside its lists, and a poll finds them', async (t) => {
  const sandbox = await startSandbox({ records: memoryRecords(), clock: Date.now, port: 0 })
  t.after(sandbox.close)
  const gateway = createNowpaymentsGateway(credentials, fetch as never, {
    baseUrl: `${sandbox.baseUrl}/nowpayments/v1`,
    clock: Date.now,
  })
  const depositId = `dep_${'1'.repeat(32)}` as DepositId
  const { invoiceId } = await gateway.createInvoice({
    depositId,
    amountCents: 2_500,
    rail: 'crypto',
    merchantName: 'Shop',
    returnUrl: 'https://shop.example.com',
    callbackUrl: 'https://shop.example.com/callbacks/gw',
  })
  for (const cents of [2_500, 700])
    await fetch(`${sandbox.baseUrl}/_sandbox/invoices/${depositId}/pay`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ amount_cents: cents }),
    })
  const report = await gateway.readInvoice({ invoiceId, depositId })
  assert.deepEqual(
    report?.payments.map(({ amountMicros }) => amountMicros),
    [25_000_000, 7_000_000],
  )
})

test('a payment with an unknown status is named if money arrived, and the invoice stays open', async () => {
  const wrongAsset = { ...overpaid, invoice_id: 9, payment_status: 'wrong_asset_confirmed' }
  const { gateway: live } = server({
    'POST /auth': { token: 'jwt' },
    'GET /payment/': {
      data: [wrongAsset, { ...wrongAsset, payment_id: 2, payment_status: 'cancelled', actually_paid: 0 }],
    },
  })
  const report = await live.readInvoice({ invoiceId: '9', depositId: overpaid.order_id as DepositId })
  assert.deepEqual(
    [report?.status, report?.payments, report?.unknownStatuses],
    [
      'processing',
      [],
      [{ id: '5524759814', status: 'wrong_asset_confirmed', amount: `${overpaid.actually_paid} coins` }],
    ],
  )
})

test('a payment that failed or expired is named if money arrived', async () => {
  const over = (payment_id: number, more: object) => ({ ...overpaid, invoice_id: 9, payment_id, ...more })
  const { gateway: live } = server({
    'POST /auth': { token: 'jwt' },
    'GET /payment/': {
      data: [
        over(1, { payment_status: 'failed', actually_paid: 0.5 }),
        over(2, { payment_status: 'expired', actually_paid: 0 }),
        over(3, { payment_status: 'expired', actually_paid: 0.25 }),
        over(4, { payment_status: 'failed', actually_paid: null }),
      ],
    },
  })
  const report = await live.readInvoice({ invoiceId: '9', depositId: overpaid.order_id as DepositId })
  assert.deepEqual(
    [report?.payments, report?.unknownStatuses, report?.endedWithMoney],
    [
      [],
      undefined,
      [
        { id: '1', status: 'failed', amount: '0.5 coins' },
        { id: '3', status: 'expired', amount: '0.25 coins' },
      ],
    ],
  )
})

test('a repeated deposit, which names neither order nor invoice, belongs to the order of its parent', async () => {
  const { gateway: live } = server({
    'GET /payment/7': {
      ...overpaid,
      payment_id: 7,
      order_id: null,
      invoice_id: null,
      parent_payment_id: 5524759814,
    },
    'GET /payment/5524759814': { ...overpaid, invoice_id: 9 },
    'POST /auth': { token: 'jwt' },
    'GET /payment/': { data: [] },
  })
  const report = await live.fetch('payment:7')
  assert.ok(report?.kind === 'invoice')
  assert.deepEqual(
    [report.invoiceId, report.depositId, report.payments[0]?.paymentId],
    ['9', 'RGDBP-21314', '7'],
  )
})
