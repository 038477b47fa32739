import { createHmac } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { paidCents, refundedCents, refundsOf, type SandboxInvoice } from './invoice.ts'
import { answer, invoiceKind, type ProviderSandbox, type SandboxStore } from './sandbox-store.ts'
import type { PendingCallback } from './send-callbacks.ts'

/** The fixed exchange rate of the sandbox: one bitcoin is $50,000, so a cent is 20 satoshis. */
const satoshisPerCent = 20
const rate = '50000.0'

const btc = (cents: number): string => {
  const satoshis = BigInt(cents) * BigInt(satoshisPerCent)
  return `${satoshis / 100_000_000n}.${String(satoshis % 100_000_000n).padStart(8, '0')}`
}
const dollars = (cents: number): string =>
  `${Math.floor(cents / 100)}.${String(cents % 100).padStart(2, '0')}`
const unix = (ms: number): number => Math.floor(ms / 1000)

const monitoringMs = 24 * 60 * 60 * 1000

const states: Readonly<Record<SandboxInvoice['status'], string>> = {
  open: 'New',
  processing: 'Processing',
  paid: 'Settled',
  short: 'Expired',
  expired: 'Expired',
  failed: 'Invalid',
}

const additionalStatusOf = (invoice: SandboxInvoice): string => {
  if (invoice.marked) return 'Marked'
  const paid = paidCents(invoice)
  if (invoice.payments.some(({ late }) => late)) return 'PaidLate'
  if (paid > invoice.amountCents) return 'PaidOver'
  return paid > 0 && paid < invoice.amountCents ? 'PaidPartial' : 'None'
}

/** `InvoiceData` of the Greenfield API. */
const invoiceBody = (invoice: SandboxInvoice, baseUrl: string) => ({
  id: invoice.id,
  storeId: storeOf(invoice),
  amount: dollars(invoice.amountCents),
  paidAmount: dollars(paidCents(invoice)),
  currency: (invoice.currency ?? 'usd').toUpperCase(),
  type: 'Standard',
  checkoutLink: `${baseUrl}/pay/${invoice.id}`,
  createdTime: unix(invoice.createdAtMs),
  expirationTime: unix(invoice.expiresAtMs),
  monitoringExpiration: unix(invoice.expiresAtMs + monitoringMs),
  status: states[invoice.status],
  additionalStatus: additionalStatusOf(invoice),
  availableStatusesForManualMarking: ['Settled', 'Invalid'],
  archived: false,
  metadata: { orderId: invoice.reference, itemDesc: invoice.title },
  checkout: { expirationMinutes: 60, monitoringMinutes: 1440, redirectURL: invoice.returnUrl },
})

/** The refund of the first payment, as a pull payment with one payout. */
const refundId = ({ id }: SandboxInvoice): string => `refund${id}`
const payouts = (invoice: SandboxInvoice) => [
  {
    id: 'payout',
    state: 'Completed',
    originalCurrency: 'USD',
    originalAmount: dollars(refundedCents(invoice)),
    payoutCurrency: 'BTC',
    payoutAmount: btc(refundedCents(invoice)),
  },
]

const payment = ({ id, cents, atMs }: SandboxInvoice['payments'][number]) => ({
  id,
  receivedDate: unix(atMs),
  value: btc(cents),
  fee: '0.0',
  status: 'Settled',
  destination: 'bcrt1qsandbox',
})

const paymentMethods = (invoice: SandboxInvoice) => [
  {
    paymentMethodId: 'BTC-CHAIN',
    currency: 'BTC',
    destination: 'bcrt1qsandbox',
    rate,
    paymentMethodPaid: btc(paidCents(invoice)),
    totalPaid: btc(paidCents(invoice)),
    due: btc(Math.max(invoice.amountCents - paidCents(invoice), 0)),
    amount: btc(invoice.amountCents),
    activated: true,
    payments: invoice.payments.map(payment),
  },
]

/** The store id of an invoice. The account key is `{storeId} {apiKey}`, so that a store sees only its own invoices. */
const storeOf = ({ account }: SandboxInvoice): string => account.split(' ', 1)[0] ?? ''

const Create = z.object({
  amount: z.string().regex(/^\d{1,9}(\.\d{1,2})?$/),
  currency: z.literal('USD'),
  metadata: z.object({ orderId: z.string(), itemDesc: z.string() }),
  checkout: z.object({ expirationMinutes: z.int().min(1), redirectURL: z.string() }),
})

const centsOf = (amount: string): number => {
  const [whole = '0', fraction = ''] = amount.split('.')
  return Number(whole) * 100 + Number(fraction.padEnd(2, '0'))
}

type Params = { readonly store: string; readonly id: string }

/** A simulated BTCPay Server: invoices of a store, their payment methods, `BTCPay-Sig` over indented JSON. */
export const btcpaySandbox = (sandboxStore: SandboxStore): ProviderSandbox => {
  const fault = (reply: FastifyReply, status: number, code: string, message: string) =>
    answer(reply, status, { code, message })

  const accountOf = (request: FastifyRequest): string | null => {
    const key = /^token (\S+)$/.exec(request.headers.authorization ?? '')?.[1]
    return key === undefined ? null : `${(request.params as Params).store} ${key}`
  }
  const guarded =
    (handle: (request: FastifyRequest, reply: FastifyReply, account: string) => Promise<unknown>) =>
    async (request: FastifyRequest, reply: FastifyReply) => {
      const account = accountOf(request)
      return account === null
        ? fault(reply, 401, 'unauthenticated', 'Authentication is required')
        : handle(request, reply, account)
    }
  const findInvoice = async (request: FastifyRequest, account: string): Promise<SandboxInvoice | null> => {
    const invoice = await sandboxStore.find((request.params as Params).id)
    return invoice?.provider === 'btcpay' && invoice.account === account ? invoice : null
  }
  const notFound = (reply: FastifyReply) =>
    fault(reply, 404, 'invoice-not-found', 'The invoice was not found')

  return {
    provider: 'btcpay',
    paymentId: () => `${sandboxStore.hex(64)}-0`,
    routes: (app) => {
      const base = '/btcpay/api/v1/stores/:store/invoices'
      app.post(
        base,
        guarded(async (request, reply, account) => {
          const body = Create.safeParse(request.body)
          if (!body.success)
            return answer(
              reply,
              422,
              body.error.issues.map(({ path, message }) => ({ path: path.join('.'), message })),
            )
          const { amount, metadata, checkout } = body.data
          const nowMs = sandboxStore.clock()
          const invoice = await sandboxStore.add({
            id: sandboxStore.hex(22),
            provider: 'btcpay',
            account,
            amountCents: centsOf(amount),
            reference: metadata.orderId,
            title: metadata.itemDesc,
            method: 'Bitcoin',
            returnUrl: checkout.redirectURL,
            callbackUrl: null,
            createdAtMs: nowMs,
            expiresAtMs: nowMs + checkout.expirationMinutes * 60_000,
            status: 'open',
            payments: [],
          })
          return answer(reply, 200, invoiceBody(invoice, sandboxStore.baseUrl()))
        }),
      )
      app.get(
        base,
        guarded(async (request, reply, account) => {
          const { orderId } = request.query as { orderId?: string }
          const invoices = await sandboxStore.records.all<SandboxInvoice>(invoiceKind)
          const found = invoices
            .filter((invoice) => invoice.provider === 'btcpay' && invoice.account === account)
            .filter(({ reference }) => orderId === undefined || reference === orderId)
          return answer(
            reply,
            200,
            found.map((invoice) => invoiceBody(invoice, sandboxStore.baseUrl())),
          )
        }),
      )
      app.get(
        `${base}/:id`,
        guarded(async (request, reply, account) => {
          const invoice = await findInvoice(request, account)
          return invoice ? answer(reply, 200, invoiceBody(invoice, sandboxStore.baseUrl())) : notFound(reply)
        }),
      )
      app.get(
        `${base}/:id/payment-methods`,
        guarded(async (request, reply, account) => {
          const invoice = await findInvoice(request, account)
          return invoice ? answer(reply, 200, paymentMethods(invoice)) : notFound(reply)
        }),
      )
      app.post(
        `${base}/:id/status`,
        guarded(async (request, reply, account) => {
          const invoice = await findInvoice(request, account)
          if (!invoice) return notFound(reply)
          const body = z.object({ status: z.literal('Invalid') }).safeParse(request.body)
          const done = body.success ? await sandboxStore.act(invoice.id, { kind: 'mark-invalid' }) : null
          if (done === null || 'refused' in done)
            return fault(reply, 400, 'invalid-status', done?.refused ?? 'Status must be Invalid')
          return answer(reply, 200, invoiceBody(done.invoice, sandboxStore.baseUrl()))
        }),
      )
      const refundedInvoice = async (request: FastifyRequest): Promise<SandboxInvoice | null> => {
        const { id } = request.params as { readonly id: string }
        const invoice = await sandboxStore.find(id.replace(/^refund/, ''))
        return invoice?.provider === 'btcpay' && refundsOf(invoice).length > 0 ? invoice : null
      }
      const noPullPayment = (reply: FastifyReply) =>
        fault(reply, 404, 'pullpayment-not-found', 'The pull payment was not found')
      app.get('/btcpay/api/v1/pull-payments/:id', async (request, reply) => {
        const invoice = await refundedInvoice(request)
        return invoice
          ? answer(reply, 200, {
              id: refundId(invoice),
              name: `Refund ${invoice.id}`,
              currency: 'USD',
              amount: dollars(paidCents(invoice)),
            })
          : noPullPayment(reply)
      })
      app.get('/btcpay/api/v1/pull-payments/:id/payouts', async (request, reply) => {
        const invoice = await refundedInvoice(request)
        return invoice ? answer(reply, 200, payouts(invoice)) : noPullPayment(reply)
      })
    },
    callbacks: (_before, invoice, action, account) => {
      const { id: invoiceId, reference: orderId, title: itemDesc } = invoice
      const last = invoice.payments.at(-1)
      const overPaid = paidCents(invoice) > invoice.amountCents
      const paid = last && {
        afterExpiration: last.late,
        paymentMethodId: 'BTC-CHAIN',
        payment: payment(last),
      }
      const whole = invoice.status === 'paid'
      const events: Readonly<Record<typeof action.kind, readonly (readonly [string, object])[]>> = {
        pay: [
          ['InvoiceReceivedPayment', { ...paid }],
          ...(whole ? [['InvoiceProcessing', { overPaid }] as const] : []),
          ['InvoicePaymentSettled', { ...paid }],
          ...(whole ? [['InvoiceSettled', { manuallyMarked: false, overPaid }] as const] : []),
        ],
        process: [
          ['InvoiceReceivedPayment', {}],
          ['InvoiceProcessing', { overPaid: false }],
        ],
        expire: [['InvoiceExpired', { partiallyPaid: invoice.payments.length > 0 }]],
        fail: [['InvoiceInvalid', { manuallyMarked: false }]],
        dispute: [],
        'close-dispute': [],
        refund: [
          [
            'PayoutUpdated',
            { payoutId: 'payout', payoutState: 'Completed', pullPaymentId: refundId(invoice) },
          ],
        ],
        'fail-refund': [],
        'mark-settled': [['InvoiceSettled', { manuallyMarked: true, overPaid }]],
        'mark-invalid': [['InvoiceInvalid', { manuallyMarked: true }]],
        euros: [],
      }
      return events[action.kind].map(([type, extra]): PendingCallback => {
        const deliveryId = sandboxStore.hex(22)
        const event = {
          deliveryId,
          webhookId: 'sandbox',
          originalDeliveryId: deliveryId,
          isRedelivery: false,
          type,
          timestamp: unix(sandboxStore.clock()),
          storeId: storeOf(invoice),
          ...(type.startsWith('Invoice') && { invoiceId, metadata: { orderId, itemDesc } }),
          ...extra,
        }
        const signBody = (body: object, secret: string) => {
          const text = JSON.stringify(body, null, 2)
          const signature = createHmac('sha256', secret).update(text).digest('hex')
          return { body: text, headers: { 'btcpay-sig': `sha256=${signature}` } }
        }
        const falsified = {
          ...event,
          deliveryId: `${deliveryId}lie`,
          metadata: { orderId: 'dep_another_account' },
          payment: {
            ...payment({
              id: 'lie',
              cents: 99_999_999,
              atMs: 0,
              late: false,
              disputeId: null,
              disputedAtMs: null,
            }),
          },
        }
        return {
          url: account.webhookUrl,
          sign: () => signBody(event, account.webhookSecret),
          forge: () => signBody({ ...falsified, deliveryId: `${deliveryId}forged` }, 'a forged secret'),
          lie: () => signBody(falsified, account.webhookSecret),
        }
      })
    },
  }
}
