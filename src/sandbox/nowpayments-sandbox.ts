import { createHmac } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { SandboxInvoice } from './invoice.ts'
import { answer, invoiceKind, type ProviderSandbox, type SandboxStore } from './sandbox-store.ts'
import type { PendingCallback } from './send-callbacks.ts'

/** The fixed exchange rate of the sandbox: one dollar is five TRX. */
const trxPerDollar = 5
const payableMs = 7 * 24 * 60 * 60 * 1000

const trx = (cents: number): number => (cents * trxPerDollar) / 100

type Query = Readonly<Record<string, string | undefined>>

/** The status of a payment that was started on the pay page and has not arrived; null if there is none. */
const unpaidStatusOf = (invoice: SandboxInvoice): string | null => {
  if (invoice.payments.length > 0) return null
  const statuses = { processing: 'confirming', expired: 'expired', failed: 'failed' } as const
  return statuses[invoice.status as keyof typeof statuses] ?? null
}

/** The id of that payment: fifteen digits at most, so that JSON does not round it. */
const unpaidIdOf = (invoice: SandboxInvoice): number => Number.parseInt(invoice.id, 10) * 10 + 1

/** The payments of an invoice in the format of `GET /v1/payment/{id}` and of the notifications. */
const paymentsOf = (invoice: SandboxInvoice) => {
  const base = {
    invoice_id: Number(invoice.id) as number | null,
    payment_extra_ids: null as readonly number[] | null,
    pay_address: 'TSandboxSandboxSandboxSandboxSandb',
    payin_extra_id: null,
    price_currency: invoice.currency ?? 'usd',
    pay_currency: 'trx',
    order_id: invoice.reference as string | null,
    order_description: invoice.title,
    purchase_id: invoice.id,
    outcome_currency: 'trx',
    created_at: new Date(invoice.createdAtMs).toISOString(),
  }
  const unpaidStatus = unpaidStatusOf(invoice)
  if (unpaidStatus !== null)
    return [
      {
        ...base,
        payment_id: unpaidIdOf(invoice),
        parent_payment_id: null as number | null,
        payment_status: unpaidStatus,
        price_amount: invoice.amountCents / 100,
        pay_amount: trx(invoice.amountCents),
        actually_paid: 0,
        outcome_amount: 0,
        updated_at: base.created_at,
        fee: null as object | null,
      },
    ]
  return invoice.payments.map(({ id, cents, atMs, refunds }, n) => {
    // The first payment is for the invoice. The others are repeated deposits, each for its own amount. They name only the
    // first one, which lists them.
    const requestedCents = n === 0 ? invoice.amountCents : cents
    const [, ...repeated] = invoice.payments.map((payment) => Number(payment.id))
    return {
      ...base,
      ...(n === 0 ? { payment_extra_ids: repeated } : { invoice_id: null, order_id: null }),
      payment_id: Number(id),
      parent_payment_id: n === 0 ? null : Number(invoice.payments[0]?.id),
      payment_status: refunds ? 'refunded' : cents >= requestedCents ? 'finished' : 'partially_paid',
      price_amount: requestedCents / 100,
      pay_amount: trx(requestedCents),
      actually_paid: trx(cents),
      outcome_amount: trx(cents),
      updated_at: new Date(atMs).toISOString(),
      fee: { currency: 'trx', depositFee: 1e-7, withdrawalFee: 0, serviceFee: 0 } as object | null,
    }
  })
}

const sortKeys = (value: unknown): unknown => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const record = value as Record<string, unknown>
  return Object.fromEntries(
    Object.keys(record)
      .sort()
      .map((key) => [key, sortKeys(record[key])]),
  )
}

const Create = z.object({
  price_amount: z.number().positive(),
  price_currency: z.literal('usd'),
  order_id: z.string(),
  order_description: z.string(),
  ipn_callback_url: z.url(),
  success_url: z.url(),
  cancel_url: z.url(),
})

/** A simulated NOWPayments: invoices, payments, the list of payments with a login, `x-nowpayments-sig`. */
export const nowpaymentsSandbox = (sandboxStore: SandboxStore): ProviderSandbox => {
  const fault = (reply: FastifyReply, status: number, code: string, message: string) =>
    answer(reply, status, { status: false, statusCode: status, code, message })
  const digits = (length: number): string =>
    String(1 + (Number.parseInt(sandboxStore.hex(12), 16) % 9)) +
    String(Number.parseInt(sandboxStore.hex(12), 16))
      .padStart(length, '0')
      .slice(-(length - 1))

  const guarded =
    (handle: (request: FastifyRequest, reply: FastifyReply, key: string) => Promise<unknown>) =>
    async (request: FastifyRequest, reply: FastifyReply) => {
      const key = request.headers['x-api-key']
      return typeof key === 'string'
        ? handle(request, reply, key)
        : fault(reply, 401, 'AUTH_REQUIRED', 'Authorization is required')
    }
  const invoicesOf = async (key: string): Promise<readonly SandboxInvoice[]> => {
    const all = await sandboxStore.records.all<SandboxInvoice>(invoiceKind)
    return all.filter(({ provider, account }) => provider === 'nowpayments' && account === key)
  }

  return {
    provider: 'nowpayments',
    paymentId: () => digits(10),
    routes: (app) => {
      const base = '/nowpayments/v1'
      app.post(`${base}/auth`, async (request, reply) => {
        const { email, password } = (request.body ?? {}) as Query
        if (!email || !password) return fault(reply, 403, 'AUTH_REQUIRED', 'Wrong e-mail or password')
        return answer(reply, 200, { token: `sandbox.${sandboxStore.hex(32)}` })
      })
      app.post(
        `${base}/invoice`,
        guarded(async (request, reply, key) => {
          const body = Create.safeParse(request.body)
          if (!body.success) return fault(reply, 400, 'INVALID_REQUEST_PARAMS', body.error.message)
          const nowMs = sandboxStore.clock()
          const { price_amount, order_id, order_description, ipn_callback_url, success_url } = body.data
          const invoice = await sandboxStore.add({
            id: digits(10),
            provider: 'nowpayments',
            account: key,
            amountCents: Math.round(price_amount * 100),
            reference: order_id,
            title: order_description,
            method: 'Crypto',
            returnUrl: success_url,
            callbackUrl: ipn_callback_url,
            createdAtMs: nowMs,
            expiresAtMs: nowMs + payableMs,
            status: 'open',
            payments: [],
          })
          const at = new Date(nowMs).toISOString()
          return answer(reply, 200, {
            id: invoice.id,
            token_id: '1',
            order_id,
            order_description,
            price_amount: String(price_amount),
            price_currency: 'usd',
            pay_currency: null,
            ipn_callback_url,
            invoice_url: `${sandboxStore.baseUrl()}/pay/${invoice.id}`,
            success_url,
            cancel_url: body.data.cancel_url,
            created_at: at,
            updated_at: at,
          })
        }),
      )
      app.get(
        `${base}/payment/`,
        guarded(async (request, reply, key) => {
          if (!request.headers.authorization?.startsWith('Bearer sandbox.'))
            return fault(reply, 401, 'AUTH_REQUIRED', 'Authorization header is empty')
          const { invoiceId, limit = '10' } = request.query as Query
          const invoices = await invoicesOf(key)
          const data = invoices
            .filter(({ id }) => invoiceId === undefined || id === invoiceId)
            .flatMap((invoice) => paymentsOf(invoice).slice(0, 1))
            .map(({ payment_extra_ids: _, ...listed }) => listed)
            .slice(0, Number(limit))
          return answer(reply, 200, {
            data,
            limit: Number(limit),
            page: 0,
            pagesCount: 1,
            total: data.length,
          })
        }),
      )
      app.get(
        `${base}/payment/:id`,
        guarded(async (request, reply, key) => {
          const { id } = request.params as { id: string }
          const payments = (await invoicesOf(key)).flatMap(paymentsOf)
          const payment = payments.find(({ payment_id }) => String(payment_id) === id)
          return payment
            ? answer(reply, 200, payment)
            : fault(reply, 404, 'PAYMENT_NOT_FOUND', 'Payment not found')
        }),
      )
    },
    callbacks: (_before, invoice, action, account) => {
      const payment = paymentsOf(invoice).at(action.kind === 'refund' ? 0 : -1)
      if (!payment) return []
      const signBody = (body: object, secret: string) => {
        const signature = createHmac('sha512', secret)
          .update(JSON.stringify(sortKeys(body)))
          .digest('hex')
        return { body: JSON.stringify(body), headers: { 'x-nowpayments-sig': signature } }
      }
      const falsified = {
        ...payment,
        price_amount: 999_999,
        actually_paid: 99_999_999,
        price_currency: 'eur',
        order_id: 'dep_x',
      }
      const url = invoice.callbackUrl ?? account.webhookUrl
      const outgoing: PendingCallback = {
        url,
        sign: () => signBody(payment, account.webhookSecret),
        forge: () => signBody(falsified, 'a forged secret'),
        lie: () => signBody(falsified, account.webhookSecret),
      }
      return [outgoing]
    },
  }
}
