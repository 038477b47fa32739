import { z } from 'zod'
import type {
  ChangeReport,
  GatewayPayment,
  InvoiceReport,
  InvoiceStatus,
  UndonePayment,
} from '../../domain/payments/payments.ts'
import { isoTime } from '../../kernel/clock.ts'
import { trimEnd } from '../../kernel/formats.ts'
import type { Send } from '../../platform/outgoing/send.ts'
import { maxUrlLength } from '../../platform/outgoing/target.ts'
import {
  type BtcpayCredentials,
  type CallbackVerdict,
  type CreatedInvoice,
  GatewayUnavailable,
  itemText,
  type PaymentGateway,
  readEach,
  UnreadableAnswer,
} from './payment-port.ts'
import {
  coinsText,
  isHexHmac,
  jsonApi,
  jsonOf,
  parseDecimalText,
  productMicros,
  sumText,
} from './provider-http.ts'

const expirationMinutes = 60
/** BTCPay's own default: one day, in minutes. */
const monitoringMinutes = 1_440

/** A reseller's server is untrusted. Its ids and names are written to books, logs and spreadsheets. */
const printable = z.string().regex(/^[\x21-\x7e]{1,200}$/)

/**
 * Seconds since 1970, up to a day before the end of the year 9999. Postgres cannot read a later year in this form. An
 * invoice with milliseconds instead would stop the read tables of all accounts.
 */
const seconds = z.coerce
  .number()
  .int()
  .min(0)
  .max(253_402_300_799 - monitoringMinutes * 60)

/** An invoice has a few payments. The limit protects the log, which stores each payment, from a malicious server. */
const maxPayments = 500
/** An invoice has a few dozen at most: a server has one for each of its coins and payment methods. */
const maxMethods = 200
/** One deposit has one invoice, or two if the first answer was lost. The API returns 50 at once. */
const maxInvoices = 50
/** A payment has six fields, a method fifteen. */
const maxValues = 6_000

/** The used parts of `InvoiceData` and `InvoicePaymentMethodDataModel` (Greenfield API). */
const Invoice = z.object({
  id: printable,
  status: z.enum(['New', 'Processing', 'Expired', 'Invalid', 'Settled']),
  currency: z.string().regex(/^\w{1,20}$/),
  amount: z.string(),
  checkoutLink: z.string(),
  expirationTime: seconds,
  monitoringExpiration: seconds.optional(),
  metadata: z.object({ orderId: printable.optional().catch(undefined) }).nullish(),
})
/** An invoice whose other fields may be unreadable. */
const Ordered = z.object({ metadata: z.object({ orderId: z.string() }) })
const Payment = z.object({ id: printable, value: z.string(), status: z.string() })
type Payment = z.output<typeof Payment>
const PaymentMethods = z
  .array(z.object({ rate: z.string(), payments: z.array(z.unknown()).max(maxPayments) }))
  .max(maxMethods)

/** Written to the log. Without exponents, because these could make it hundreds of digits long. */
const coins = z.string().regex(/^\d{1,20}(\.\d{1,20})?$/)
/** The used parts of `PullPaymentData` and `PayoutData`. Version 2 of the server calls the amount `originalAmount`. */
const PullPayment = z.object({ name: z.string(), currency: z.string().regex(/^\w{1,20}$/) })
const Payouts = z
  .array(
    z.object({
      state: z.string(),
      amount: coins.optional(),
      originalAmount: coins.optional(),
    }),
  )
  .max(maxPayments)

const statuses: Readonly<Record<z.infer<typeof Invoice>['status'], InvoiceStatus>> = {
  New: 'open',
  Processing: 'processing',
  Settled: 'paid',
  Expired: 'expired',
  Invalid: 'failed',
}

/** A settled payment in micro-dollars, at the rate of the invoice; null: it is not settled, or of 0. */
const settledPayment = (rate: string, { id, value, status }: Payment): GatewayPayment | null => {
  if (status !== 'Settled') return null
  const [amount, price] = [parseDecimalText(value), parseDecimalText(rate)]
  if (!amount || !price) throw new UnreadableAnswer('btcpay: a payment whose figures are no numbers')
  const amountMicros = productMicros(amount, price)
  return amountMicros > 0 ? { paymentId: id, amountMicros } : null
}

/** The payments of an invoice: the settled ones, and those that became invalid, such as one that the chain dropped. */
export const paymentsOf = (methods: z.input<typeof PaymentMethods>) => {
  const all = methods.flatMap(({ rate, payments }) => payments.map((payment) => ({ rate, payment })))
  if (all.length > maxPayments)
    throw new GatewayUnavailable(`btcpay: an invoice with more than ${maxPayments} payments`)
  const { values, unreadable = [] } = readEach(
    all,
    ({ payment }) => Payment.pick({ id: true }).safeParse(payment).data?.id ?? 'payment',
    ({ rate, payment }) => {
      const read = Payment.safeParse(payment)
      if (!read.success) throw new UnreadableAnswer('btcpay: a payment outside its documentation')
      return { ...read.data, settled: settledPayment(rate, read.data) }
    },
  )
  const undone = values
    .filter(({ status }) => status === 'Invalid')
    .map(({ id, value }): UndonePayment => ({ paymentId: id, why: 'invalid', amount: coinsText(value) }))
  return { payments: values.flatMap(({ settled }) => settled ?? []), undone, unreadable }
}

/** Whether a payout was sent or is being sent, so that its money is gone. */
const isSent = ({ state }: { readonly state: string }): boolean =>
  state === 'InProgress' || state === 'Completed'

/** The sum of the sent payouts, a decimal text. */
const sentAmount = (payouts: z.output<typeof Payouts>): string =>
  sumText(
    payouts.filter(isSent).map(({ originalAmount, amount = originalAmount }) => {
      const sent = parseDecimalText(amount ?? '')
      if (sent === null) throw new UnreadableAnswer('btcpay: a payout whose amount is no number')
      return sent
    }),
  )

/**
 * Checks the pay page that payers are redirected to, because a reseller's server may return any address. It must be a
 * web page with the protocol of the API. Returns the parsed address: a NUL, which Postgres cannot store, becomes %00.
 * @throws GatewayUnavailable
 */
const payPage = (link: string, { protocol }: URL): string => {
  const page = link.length <= maxUrlLength ? URL.parse(link) : null
  if (page?.protocol !== protocol || page.username !== '' || page.password !== '')
    throw new GatewayUnavailable(`btcpay: a checkout link that is no ${protocol.slice(0, -1)} address`)
  return page.href
}

const created = (invoice: z.output<typeof Invoice>, server: URL): CreatedInvoice => {
  const { id, checkoutLink, expirationTime, monitoringExpiration } = invoice
  const watchUntil = monitoringExpiration ?? expirationTime + monitoringMinutes * 60
  return {
    invoiceId: id,
    payUrl: payPage(checkoutLink, server),
    expiresAt: isoTime(expirationTime * 1000),
    watchUntil: isoTime(watchUntil * 1000),
  }
}

/**
 * BTCPay Server, Greenfield API. It has no idempotency key, so an existing invoice is searched before one is created.
 */
export const createBtcpayGateway = (credentials: BtcpayCredentials, send: Send): PaymentGateway => {
  const { url, apiKey, storeId, webhookSecret } = credentials
  const authorization = `token ${apiKey}`
  const api = jsonApi('btcpay', send, trimEnd(url, '/'), { authorization }, maxValues)
  const store = `/api/v1/stores/${encodeURIComponent(storeId)}/invoices`
  const server = new URL(url)

  const readInvoice = async (invoiceId: string): Promise<InvoiceReport | null> => {
    const path = `${store}/${encodeURIComponent(invoiceId)}`
    const invoice = await api('GET', path, Invoice)
    const methods = invoice && (await api('GET', `${path}/payment-methods`, PaymentMethods))
    if (!invoice || !methods) return null
    const { payments, undone, unreadable } = paymentsOf(methods)
    return {
      kind: 'invoice',
      invoiceId: invoice.id,
      depositId: invoice.metadata?.orderId ?? null,
      currency: invoice.currency.toLowerCase(),
      status: statuses[invoice.status],
      payments,
      ...(undone.length > 0 && { undone }),
      ...(unreadable.length > 0 && { unreadable: unreadable.map((id) => `${invoice.id} ${id}`) }),
    }
  }

  /**
   * The sum that a refund of an invoice has paid out. BTCPay refunds by a pull payment whose name has the invoice, both
   * in the dashboard and in the API. Other pull payments belong to no deposit.
   */
  const readRefund = async (pullPaymentId: string): Promise<ChangeReport | null> => {
    const path = `/api/v1/pull-payments/${encodeURIComponent(pullPaymentId)}`
    const pullPayment = await api('GET', path, PullPayment)
    const invoiceId = /^Refund ([\x21-\x7e]{1,200})$/.exec(pullPayment?.name ?? '')?.[1]
    if (!pullPayment || invoiceId === undefined) return null
    const invoice = await api('GET', `${store}/${encodeURIComponent(invoiceId)}`, Invoice)
    const payouts = invoice && (await api('GET', `${path}/payouts`, Payouts))
    return payouts
      ? {
          kind: 'change',
          change: 'refunded',
          reference: pullPaymentId,
          depositId: invoice.metadata?.orderId ?? null,
          amount: `${sentAmount(payouts)} ${pullPayment.currency.toLowerCase()}`,
        }
      : null
  }

  return {
    provider: 'btcpay',
    readInvoice: ({ invoiceId }) => readInvoice(invoiceId),
    // BTCPay cannot let an invoice expire. An invalid one takes no payment, and late payments are still reported.
    closeInvoice: async (invoiceId) => {
      const path = `${store}/${encodeURIComponent(invoiceId)}/status`
      await api('POST', path, z.object({ id: printable }), { body: { status: 'Invalid' } })
    },
    fetch: (reference) => {
      const [kind, id = ''] = reference.split(':', 2)
      return kind === 'refund' ? readRefund(id) : readInvoice(id)
    },
    createInvoice: async (request) => {
      const { depositId, amountCents, returnUrl } = request
      const orderQuery = `?orderId=${encodeURIComponent(depositId)}`
      const existing = await api('GET', `${store}${orderQuery}`, z.array(z.unknown()).max(maxInvoices))
      const own = existing?.find((one) => Ordered.safeParse(one).data?.metadata.orderId === depositId)
      if (own !== undefined) {
        const read = Invoice.safeParse(own)
        if (!read.success) throw new UnreadableAnswer('btcpay: an invoice outside its documentation')
        return created(read.data, server)
      }
      const invoice = await api('POST', store, Invoice, {
        body: {
          amount: `${Math.floor(amountCents / 100)}.${String(amountCents % 100).padStart(2, '0')}`,
          currency: 'USD',
          metadata: { orderId: depositId, itemDesc: itemText(request) },
          checkout: {
            expirationMinutes,
            monitoringMinutes,
            paymentTolerance: 0,
            redirectURL: returnUrl,
          },
        },
      })
      if (!invoice) throw new GatewayUnavailable('btcpay: the store is not known')
      return created(invoice, server)
    },
    // No bank reverses coin payments. A store lists its payouts without a start time, so each call would list all of
    // them.
    changesSince: async () => [],
    // At any age, because the button "Redeliver" of BTCPay sends an old delivery with its time. A callback only causes a
    // poll, so a repeated one moves nothing.
    verify: (raw, headers): CallbackVerdict => {
      const signature = headers['btcpay-sig']
      const hex =
        typeof signature === 'string' ? /^sha256=([0-9a-fA-F]{64})$/.exec(signature)?.[1] : undefined
      if (hex === undefined) return { ok: false, why: 'no BTCPay-Sig' }
      if (!isHexHmac('sha256', webhookSecret, raw, hex)) return { ok: false, why: 'signature' }
      const event = Event.safeParse(jsonOf(raw))
      if (!event.success) return { ok: false, why: 'no event' }
      const { deliveryId, type, invoiceId, pullPaymentId } = event.data
      const reference =
        type.startsWith('Payout') && pullPaymentId != null
          ? `refund:${pullPaymentId}`
          : type.startsWith('Invoice') && type !== 'InvoiceCreated' && invoiceId !== undefined
            ? `invoice:${invoiceId}`
            : null
      return { ok: true, callback: { eventId: deliveryId, reference } }
    },
  }
}

const Event = z.object({
  deliveryId: printable,
  type: z.string(),
  invoiceId: printable.optional(),
  /** The pull payment of a payout; null if it has none. */
  pullPaymentId: printable.nullish(),
})
