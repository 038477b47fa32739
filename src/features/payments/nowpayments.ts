import { createHash } from 'node:crypto'
import { z } from 'zod'
import type {
  GatewayPayment,
  InvoiceReport,
  InvoiceStatus,
  UncreditedPayment,
  UndonePayment,
} from '../../domain/payments/payments.ts'
import { hasElapsed, isoTime } from '../../kernel/clock.ts'
import type { Send } from '../../platform/outgoing/send.ts'
import {
  type CallbackVerdict,
  GatewayUnavailable,
  itemText,
  type NowpaymentsCredentials,
  type PaymentGateway,
  readEach,
  UnreadableAnswer,
} from './payment-port.ts'
import {
  coinsText,
  isHexDigest,
  isHexHmac,
  jsonApi,
  jsonOf,
  parseDecimalText,
  shareMicros,
  statusText,
  unknownOnly,
} from './provider-http.ts'

const dayMs = 24 * 60 * 60 * 1000
/** A payment expires when nothing arrived "in the 7 days time window" (NOWPayments documentation, payment statuses). */
const payableMs = 7 * dayMs
/** Repeated deposits to an address of an invoice can arrive after its expiry. */
const watchedMs = 14 * dayMs
/** A login token is valid for five minutes. */
const tokenMs = 4 * 60 * 1000
const maxPayments = 500
/** A payment has about thirty fields. */
const maxValues = 20_000

/** A number as text: `parseExactJson` returns numbers as texts. */
const id = z.string().min(1).max(64)

/** The used parts of a payment. */
const Payment = z.object({
  payment_id: id,
  parent_payment_id: id.nullish(),
  invoice_id: id.nullish(),
  order_id: z.string().nullish(),
  payment_status: z.string(),
  price_amount: z.string(),
  price_currency: z.string(),
  pay_amount: z.string(),
  actually_paid: z.string().nullish(),
  /** Further deposits to the address of this payment. Each is a payment of its own, without an invoice. */
  payment_extra_ids: z.array(id).max(maxPayments).nullish(),
})
type Payment = z.output<typeof Payment>
type StatusOfPayment = Pick<Payment, 'payment_status' | 'actually_paid' | 'parent_payment_id'>

const arrivedStatuses = new Set(['finished', 'partially_paid'])
const processingStatuses = new Set(['confirming', 'confirmed', 'sending'])
const endedStatuses = new Set(['failed', 'expired'])
const otherStatuses = new Set(['waiting', 'refunded'])

const hasMoney = ({ actually_paid }: StatusOfPayment): boolean => /[1-9]/.test(actually_paid ?? '')

/** Whether money arrived, with a status that this version does not know. */
const isUnknown = (payment: StatusOfPayment): boolean =>
  ![arrivedStatuses, processingStatuses, endedStatuses, otherStatuses].some((statuses) =>
    statuses.has(payment.payment_status),
  ) && hasMoney(payment)

/** Whether money arrived in a payment that ended without it. */
const isEndedWithMoney = (payment: StatusOfPayment): boolean =>
  endedStatuses.has(payment.payment_status) && hasMoney(payment)

/** The ids of a payment whose other fields may be unreadable. */
const Named = z.object({
  payment_id: id.optional().catch(undefined),
  order_id: z.string().nullish().catch(undefined),
})

/** The final amount of a payment: price × paid coins / requested coins; null if it is 0 or the payment is not final. */
export const arrivedOf = (payment: z.input<typeof Payment>): GatewayPayment | null => {
  if (!arrivedStatuses.has(payment.payment_status)) return null
  const figures = [payment.price_amount, payment.actually_paid ?? '0', payment.pay_amount].map(
    parseDecimalText,
  )
  const [price, paid, payAmount] = figures
  if (!price || !paid || !payAmount)
    throw new UnreadableAnswer('nowpayments: a payment whose figures are no numbers')
  const amountMicros = shareMicros(price, paid, payAmount)
  return amountMicros > 0 ? { paymentId: payment.payment_id, amountMicros } : null
}

const refundedOf = ({ payment_id, actually_paid }: Payment): UndonePayment => ({
  paymentId: payment_id,
  why: 'refunded',
  amount: coinsText(actually_paid ?? ''),
})

const uncreditedOf = ({ payment_id, payment_status, actually_paid }: Payment): UncreditedPayment => ({
  id: payment_id,
  status: statusText(payment_status),
  amount: coinsText(actually_paid ?? ''),
})

/**
 * The status of an invoice. An invoice has one payment for each attempt of its payer. A repeated deposit is `finished`
 * whatever its amount, so its status does not show that the invoice is paid.
 */
export const statusOf = (payments: readonly StatusOfPayment[]): InvoiceStatus => {
  const attempts = payments.filter(({ parent_payment_id }) => parent_payment_id == null)
  const hasStatus = (wanted: string): boolean =>
    attempts.some(({ payment_status }) => payment_status === wanted)
  const allHave = (wanted: string): boolean =>
    attempts.length > 0 && attempts.every(({ payment_status }) => payment_status === wanted)
  if (payments.some((payment) => processingStatuses.has(payment.payment_status) || isUnknown(payment)))
    return 'processing'
  if (hasStatus('finished')) return 'paid'
  if (hasStatus('partially_paid') || allHave('expired')) return 'expired'
  return allHave('failed') ? 'failed' : 'open'
}

const sorted = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([key, item]) => [key, sorted(item)]))
}

/** The limit of a body that is sorted before its sender is known. A notification has about 1 kB and two levels. */
const maxSortedBytes = 16_384
const maxSortedDepth = 16

const isWithin = (depth: number, value: unknown): boolean =>
  typeof value !== 'object' ||
  value === null ||
  (depth > 0 && Object.values(value).every((item) => isWithin(depth - 1, item)))

/** The JSON with its keys sorted at every depth; null if it is invalid, or too large or deep for a notification. */
const sortedText = (raw: Buffer): string | null => {
  if (raw.length > maxSortedBytes) return null
  const body = jsonOf(raw)
  return isWithin(maxSortedDepth, body) ? JSON.stringify(sorted(body)) : null
}

/**
 * Checks the signature of a notification. NOWPayments signs the JSON with its keys sorted at every depth (NOWPayments
 * documentation, "Instant Payments Notifications"). A body that is already sorted is checked as received, because
 * serialising a number again can change it. The endpoint is public: a body is parsed only if the signature is
 * well-formed.
 */
const isSigned = (secret: string, raw: Buffer, hex: string): boolean => {
  if (!isHexDigest('sha512', hex)) return false
  if (isHexHmac('sha512', secret, raw, hex)) return true
  const text = sortedText(raw)
  return text !== null && isHexHmac('sha512', secret, text, hex)
}

const Ipn = z.object({ payment_id: z.union([z.int(), id]), payment_status: z.string().max(40) })

/** NOWPayments: invoices with a hosted page, and signed notifications (IPN). */
export const createNowpaymentsGateway = (
  credentials: NowpaymentsCredentials,
  send: Send,
  options: { readonly baseUrl?: string; readonly clock: () => number },
): PaymentGateway => {
  const { apiKey, ipnSecret, email, password } = credentials
  const { baseUrl = 'https://api.nowpayments.io/v1', clock } = options
  const api = jsonApi('nowpayments', send, baseUrl, { 'x-api-key': apiKey }, maxValues)
  let login: { readonly token: string; readonly sinceMs: number } | null = null

  const token = async (): Promise<string> => {
    if (login && !hasElapsed(login.sinceMs, clock(), tokenMs)) return login.token
    const answer = await api('POST', '/auth', z.object({ token: z.string() }), { body: { email, password } })
    if (!answer) throw new GatewayUnavailable('nowpayments: no login')
    login = { token: answer.token, sinceMs: clock() }
    return answer.token
  }

  const readPayment = (paymentId: string): Promise<Payment | null> =>
    api('GET', `/payment/${encodeURIComponent(paymentId)}`, Payment)

  /** The repeated deposits to the address of a payment. Lists of an invoice do not have them. */
  const repeatedOf = async ({ payment_id, payment_extra_ids }: Payment): Promise<readonly Payment[]> => {
    const repeated: Payment[] = []
    for (const extraId of payment_extra_ids ?? []) {
      const payment = await readPayment(extraId)
      if (payment?.parent_payment_id === payment_id) repeated.push(payment)
    }
    return repeated
  }

  /**
   * The invoice's payments with our own reference, because the provider's filter is not trusted, and the ids of those
   * that cannot be read.
   */
  const paymentsOf = async (invoiceId: string, depositId: string) => {
    const list = await api(
      'GET',
      `/payment/?limit=${maxPayments}&page=0&sortBy=created_at&orderBy=asc&invoiceId=${encodeURIComponent(invoiceId)}`,
      z.object({ data: z.array(z.unknown()).max(maxPayments) }),
      { headers: { authorization: `Bearer ${await token()}` } },
    )
    const { values: listed, unreadable = [] } = readEach(
      (list?.data ?? []).filter((payment) => Named.safeParse(payment).data?.order_id === depositId),
      (payment) => `${invoiceId} ${Named.safeParse(payment).data?.payment_id ?? 'payment'}`,
      (payment) => {
        const read = Payment.safeParse(payment)
        if (!read.success) throw new UnreadableAnswer('nowpayments: a payment outside its documentation')
        return read.data
      },
    )
    const payments = new Map(listed.map((payment) => [payment.payment_id, payment]))
    // No repeated deposit is to an address at which nothing arrived.
    for (const payment of listed.filter(({ payment_status }) => payment_status !== 'waiting')) {
      // Only the answer about a single payment is documented to have the repeated ones.
      const whole = payment.payment_extra_ids === undefined ? await readPayment(payment.payment_id) : payment
      for (const repeated of whole === null ? [] : await repeatedOf(whole))
        payments.set(repeated.payment_id, repeated)
    }
    return { payments: [...payments.values()], unreadable }
  }

  const report = (
    invoiceId: string,
    depositId: string,
    {
      payments,
      unreadable,
    }: { readonly payments: readonly Payment[]; readonly unreadable: readonly string[] },
  ): InvoiceReport => {
    const arrived = readEach(payments, ({ payment_id }) => `${invoiceId} ${payment_id}`, arrivedOf)
    const allUnreadable = [...unreadable, ...(arrived.unreadable ?? [])]
    const endedWithMoney = payments.filter(isEndedWithMoney).map(uncreditedOf)
    const undone = payments.filter(({ payment_status }) => payment_status === 'refunded').map(refundedOf)
    return {
      kind: 'invoice',
      invoiceId,
      depositId,
      currency: payments.find(({ price_currency }) => price_currency.toLowerCase() !== 'usd')
        ? 'mixed'
        : 'usd',
      status: statusOf(payments),
      payments: arrived.values.filter((payment) => payment !== null),
      ...(undone.length > 0 && { undone }),
      ...unknownOnly(payments.filter(isUnknown).map(uncreditedOf)),
      ...(endedWithMoney.length > 0 && { endedWithMoney }),
      ...(allUnreadable.length > 0 && { unreadable: allUnreadable }),
    }
  }

  return {
    provider: 'nowpayments',
    readInvoice: async ({ invoiceId, depositId }) =>
      report(invoiceId, depositId, await paymentsOf(invoiceId, depositId)),
    fetch: async (reference) => {
      const payment = await readPayment(reference.slice('payment:'.length))
      if (!payment) return null
      // A repeated deposit to an address refers to the payment that the address was created for.
      const parent = payment.parent_payment_id ? await readPayment(payment.parent_payment_id) : null
      const depositId = payment.order_id ?? parent?.order_id ?? null
      const invoiceId = payment.invoice_id ?? parent?.invoice_id ?? null
      if (depositId === null || invoiceId === null) return null
      const { payments, unreadable } = await paymentsOf(invoiceId, depositId)
      const otherPayments = payments.filter(({ payment_id }) => payment_id !== payment.payment_id)
      return report(invoiceId, depositId, { payments: [...otherPayments, payment], unreadable })
    },
    createInvoice: async (request) => {
      const { depositId, amountCents, returnUrl, callbackUrl } = request
      const Created = z.object({ id, invoice_url: z.string() })
      const invoice = await api('POST', '/invoice', Created, {
        body: {
          price_amount: amountCents / 100,
          price_currency: 'usd',
          order_id: depositId,
          order_description: itemText(request),
          ipn_callback_url: callbackUrl,
          success_url: returnUrl,
          cancel_url: returnUrl,
        },
      })
      if (!invoice) throw new GatewayUnavailable('nowpayments: no invoice')
      const nowMs = clock()
      return {
        invoiceId: invoice.id,
        payUrl: invoice.invoice_url,
        expiresAt: isoTime(nowMs + payableMs),
        watchUntil: isoTime(nowMs + watchedMs),
      }
    },
    // No bank reverses coin payments.
    changesSince: async () => [],
    verify: (raw, headers): CallbackVerdict => {
      const signature = headers['x-nowpayments-sig']
      if (typeof signature !== 'string') return { ok: false, why: 'no x-nowpayments-sig' }
      if (!isSigned(ipnSecret, raw, signature)) return { ok: false, why: 'signature' }
      const ipn = Ipn.safeParse(jsonOf(raw))
      const digest = createHash('sha256').update(raw).digest('hex')
      // Notifications of payouts are signed in the same way and concern no deposit.
      if (!ipn.success) return { ok: true, callback: { eventId: digest, reference: null } }
      const { payment_id, payment_status } = ipn.data
      return {
        ok: true,
        callback: {
          eventId: `${payment_id} ${payment_status} ${digest.slice(0, 32)}`,
          reference: `payment:${payment_id}`,
        },
      }
    },
  }
}
