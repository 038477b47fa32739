import assert from 'node:assert/strict'
import { Writable } from 'node:stream'
import { test } from 'node:test'
import { createBtcpayGateway } from '../../../src/features/payments/btcpay.ts'
import { createNowpaymentsGateway } from '../../../src/features/payments/nowpayments.ts'
import { GatewayUnavailable, type PaymentGateway } from '../../../src/features/payments/payment-port.ts'
import { createStripeGateway } from '../../../src/features/payments/stripe.ts'
import { createLogger } from '../../../src/platform/http/logging.ts'
import type { Send } from '../../../src/platform/outgoing/send.ts'

/** Text that a provider may write about a payer, in every field. */
const payer = 'Jane Payer jane@payer.example'

const answering =
  (status: number, text: string): Send =>
  async () => ({ status, headers: new Headers({ 'x-said': payer }), text: async () => text })

const failing: Send = async () => {
  const cause = Object.assign(new Error(`certificate of ${payer}`), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
  throw new TypeError(`fetch failed for ${payer}`, { cause })
}

const declined = JSON.stringify({
  error: { type: 'card_error', code: 'card_declined', message: payer, param: payer, charge: payer },
})
const oddCode = JSON.stringify({ error: { type: payer, code: payer, message: payer } })
const sends: Readonly<Record<string, Send>> = {
  'a refusal with a text': answering(402, declined),
  'a refusal with a text for a code': answering(400, oddCode),
  'a page': answering(200, `<html>${payer}</html>`),
  'a page of an error': answering(500, `<html>${payer}</html>`),
  'JSON of another form': answering(
    200,
    JSON.stringify({ id: 5, status: payer, data: payer, [payer]: payer }),
  ),
  'a body that breaks off': async () => ({
    status: 200,
    headers: new Headers(),
    text: () => Promise.reject(new TypeError(`terminated: ${payer}`)),
  }),
  'no answer': failing,
}

const gateways = (send: Send): readonly PaymentGateway[] => [
  createStripeGateway({ secretKey: 'sk_test_unused', webhookSecret: 'whsec_unused' }, send),
  createBtcpayGateway(
    { url: 'https://pay.example.com', storeId: 's', apiKey: 'k', webhookSecret: 'w' },
    send,
  ),
  createNowpaymentsGateway({ apiKey: 'k', ipnSecret: 'i', email: 'shop@example.com', password: 'p' }, send, {
    clock: () => 0,
  }),
]

/** The line that a caller of a gateway logs for an exception. */
const lineOf = (error: unknown): string => {
  let line = ''
  const sink = new Writable({
    write: (chunk, _encoding, written) => {
      line += String(chunk)
      written()
    },
  })
  createLogger('trace', sink).warn({ err: error }, 'a payment gateway did not answer')
  return line
}

const failureOf = async (gateway: PaymentGateway): Promise<unknown> => {
  const invoice = { invoiceId: 'inv_1', depositId: 'dep_a' as never }
  return gateway.readInvoice(invoice).then(
    () => null,
    (error) => error,
  )
}

test("a failure's log line contains the kind of failure and nothing that a provider wrote", async () => {
  const kinds = new Map<string, string>()
  for (const [what, send] of Object.entries(sends))
    for (const gateway of gateways(send)) {
      const error = await failureOf(gateway)
      // Stripe's package reads fields as they come: an answer of another form is a session without them.
      if (error === null && gateway.provider === 'stripe') continue
      assert.ok(error instanceof GatewayUnavailable, `${gateway.provider}, ${what}: ${error}`)
      const line = lineOf(error)
      assert.match(line, /"type":"(GatewayUnavailable|UnreadableAnswer)"/)
      assert.doesNotMatch(line, /jane|payer\.example/i, `${gateway.provider}, ${what}`)
      kinds.set(`${gateway.provider}, ${what}`, error.message)
    }
  assert.equal(kinds.get('stripe, a refusal with a text'), 'stripe: StripeCardError card_declined 402')
  assert.equal(kinds.get('stripe, a refusal with a text for a code'), 'stripe: StripeInvalidRequestError 400')
  assert.equal(kinds.get('stripe, no answer'), 'stripe: StripeConnectionError ERR_TLS_CERT_ALTNAME_INVALID')
  assert.equal(
    kinds.get('btcpay, no answer'),
    'btcpay /api/v1/stores/s/invoices/inv_1: ERR_TLS_CERT_ALTNAME_INVALID',
  )
  assert.equal(
    kinds.get('btcpay, JSON of another form'),
    'btcpay /api/v1/stores/s/invoices/inv_1: an answer that its documentation does not have, at status',
  )
  assert.equal(kinds.get('nowpayments, a page of an error'), 'nowpayments /auth: status 500')
})
