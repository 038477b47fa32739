import { z } from 'zod'
import type { Provider } from '../domain/payments/payments.ts'

export type SandboxStatus = 'open' | 'processing' | 'paid' | 'short' | 'expired' | 'failed'
export type SandboxPayment = {
  readonly id: string
  readonly cents: number
  readonly atMs: number
  /** Whether it arrived after the invoice was closed. */
  readonly late: boolean
  readonly disputeId: string | null
  readonly disputedAtMs: number | null
  /** The amount that the bank returned when it closed the dispute; absent while the dispute is open. */
  readonly returnedCents?: number
  /** The refunds of the merchant, in the order of time; absent without a refund. */
  readonly refunds?: readonly SandboxRefund[]
}

export type SandboxRefund = {
  /** Random lower-case hex digits. The provider's ids are derived from it. */
  readonly id: string
  readonly cents: number
  readonly atMs: number
  /** When the payer's bank returned the money to the merchant; absent unless the refund failed. */
  readonly failedAtMs?: number
  /** What the request of the merchant gave it; absent without metadata. */
  readonly metadata?: Readonly<Record<string, string>>
}

/** An invoice of the sandbox, the same for each provider. The provider's wire formats are derived from it. */
export type SandboxInvoice = {
  readonly id: string
  readonly provider: Provider
  /** The API key of the account at the provider. */
  readonly account: string
  readonly amountCents: number
  /** The reference of the merchant: the deposit id of Farebox. */
  readonly reference: string
  readonly title: string
  readonly method: string
  readonly returnUrl: string
  /** The address of its callbacks, for a provider with one address per invoice; null: the address of the account. */
  readonly callbackUrl: string | null
  readonly createdAtMs: number
  readonly expiresAtMs: number
  readonly status: SandboxStatus
  readonly payments: readonly SandboxPayment[]
  /** Absent for dollars. */
  readonly currency?: 'eur'
  /** A payment by a saved card while the payer is absent; absent for an invoice with a page. */
  readonly byCard?: {
    readonly customer: string
    readonly topupId: string
    /** Why the bank refused it; null: it was paid. */
    readonly refusal: string | null
  }
  /** The merchant set its status manually. */
  readonly marked?: true
}

/** An action on an invoice: by the payer, the bank, the merchant, or its expiry. */
export type InvoiceAction =
  | { readonly kind: 'pay'; readonly cents: number; readonly paymentId: string }
  /** The payment was detected and is not final yet. */
  | { readonly kind: 'process' }
  | { readonly kind: 'expire' }
  | { readonly kind: 'fail' }
  | { readonly kind: 'dispute'; readonly disputeId: string }
  /** The bank closes the dispute and returns this amount; 0 if the dispute is lost. */
  | { readonly kind: 'close-dispute'; readonly cents: number }
  /** The merchant refunds this amount of the first payment. */
  | {
      readonly kind: 'refund'
      readonly cents: number
      readonly refundId: string
      readonly metadata?: Readonly<Record<string, string>>
    }
  /** The last refund fails. */
  | { readonly kind: 'fail-refund' }
  /** The merchant sets the status manually. */
  | { readonly kind: 'mark-settled' | 'mark-invalid' }
  /** Changes the currency of the invoice to euros. */
  | { readonly kind: 'euros' }

export const paidCents = ({ payments }: Pick<SandboxInvoice, 'payments'>): number =>
  payments.reduce((sum, { cents }) => sum + cents, 0)

/** The refunds of the first payment. Only this payment is refunded. */
export const refundsOf = ({ payments }: Pick<SandboxInvoice, 'payments'>): readonly SandboxRefund[] =>
  payments[0]?.refunds ?? []

/** The sum of the refunds that did not fail. */
export const refundedCents = (invoice: Pick<SandboxInvoice, 'payments'>): number =>
  refundsOf(invoice).reduce((sum, { cents, failedAtMs }) => sum + (failedAtMs === undefined ? cents : 0), 0)

export const isInvoiceClosed = ({ status }: SandboxInvoice): boolean =>
  status === 'paid' || status === 'expired' || status === 'failed' || status === 'short'

/**
 * The reason why the provider refuses the action, or null. Stripe accepts one payment per session, and none after the
 * session is closed.
 */
export const actionRefusal = (invoice: SandboxInvoice, action: InvoiceAction): string | null => {
  const isClosed = isInvoiceClosed(invoice)
  const [payment] = invoice.payments
  if (action.kind === 'dispute') {
    if (invoice.provider !== 'stripe' || !payment) return 'only a card payment can be charged back'
    return payment.disputeId === null ? null : 'the payment was disputed before'
  }
  if (action.kind === 'close-dispute') {
    if (!payment?.disputeId) return 'there is no dispute'
    return payment.returnedCents === undefined ? null : 'the dispute is closed'
  }
  if (action.kind === 'refund') return invoice.payments.length > 0 ? null : 'only a payment can be given back'
  if (action.kind === 'fail-refund')
    return refundsOf(invoice).some(({ failedAtMs }) => failedAtMs === undefined) ? null : 'there is no refund'
  if (action.kind === 'mark-settled' || action.kind === 'mark-invalid')
    return invoice.provider === 'btcpay' ? null : 'only an invoice of BTCPay is marked by hand'
  if (action.kind === 'euros') return null
  if (action.kind !== 'pay') return isClosed ? `the invoice is ${invoice.status}` : null
  if (!Number.isSafeInteger(action.cents) || action.cents < 1)
    return 'amount_cents must be a whole number above 0'
  if (invoice.provider === 'stripe' && isClosed)
    return `a Checkout session takes one payment; this one is ${invoice.status}`
  return null
}

const withFirst = (invoice: SandboxInvoice, change: Partial<SandboxPayment>): SandboxInvoice => ({
  ...invoice,
  payments: invoice.payments.map((payment, n) => (n === 0 ? { ...payment, ...change } : payment)),
})

/** The invoice after the action. Call `actionRefusal` first. */
export const applyAction = (
  invoice: SandboxInvoice,
  action: InvoiceAction,
  nowMs: number,
): SandboxInvoice => {
  switch (action.kind) {
    case 'pay': {
      const late = isInvoiceClosed(invoice) || nowMs >= invoice.expiresAtMs
      const payment = {
        id: action.paymentId,
        cents: action.cents,
        atMs: nowMs,
        late,
        disputeId: null,
        disputedAtMs: null,
      }
      const paid = { ...invoice, payments: [...invoice.payments, payment] }
      // A Stripe session is complete after any charge. A crypto invoice stays open until it is fully paid.
      const isFullyPaid = invoice.provider === 'stripe' || paidCents(paid) >= invoice.amountCents
      if (late) return invoice.status === 'open' ? { ...paid, status: isFullyPaid ? 'paid' : 'short' } : paid
      return isFullyPaid ? { ...paid, status: 'paid' } : paid
    }
    case 'process':
      return { ...invoice, status: 'processing' }
    case 'expire':
      return { ...invoice, status: invoice.payments.length > 0 ? 'short' : 'expired', expiresAtMs: nowMs }
    case 'fail':
      return { ...invoice, status: 'failed' }
    case 'dispute':
      return withFirst(invoice, { disputeId: action.disputeId, disputedAtMs: nowMs })
    case 'close-dispute':
      return withFirst(invoice, { returnedCents: action.cents })
    case 'refund': {
      const { refundId: id, cents, metadata } = action
      // The same request of the merchant twice at once is one refund.
      if (refundsOf(invoice).some((refund) => refund.id === id)) return invoice
      const refund = { id, cents, atMs: nowMs, ...(metadata && { metadata }) }
      return withFirst(invoice, { refunds: [...refundsOf(invoice), refund] })
    }
    case 'fail-refund': {
      const refunds = refundsOf(invoice)
      const last = refunds.findLastIndex(({ failedAtMs }) => failedAtMs === undefined)
      return withFirst(invoice, { refunds: refunds.with(last, { ...refunds[last]!, failedAtMs: nowMs }) })
    }
    case 'mark-settled':
      return { ...invoice, status: 'paid', marked: true }
    case 'mark-invalid':
      return { ...invoice, status: 'failed', marked: true }
    case 'euros':
      return { ...invoice, currency: 'eur' }
    default:
      return action satisfies never
  }
}

/** The fault switches of the sandbox: `PUT /_sandbox/switches`. All are off at the start. */
export const SwitchesShape = z
  .strictObject({
    /** The share of callbacks that are not sent, from 0 to 1. */
    lost: z.number().min(0).max(1),
    /** The number of repeats of each callback. */
    repeats: z.int().min(0).max(20),
    /** The maximum of a random delay of each callback, milliseconds, so that callbacks arrive in another order. */
    reorderMs: z.int().min(0).max(60_000),
    /** The delay of each callback, milliseconds. */
    slowMs: z.int().min(0).max(60_000),
    /** Sends two callbacks before each real one: one without a signature, and one signed with another secret. */
    forged: z.boolean(),
    /** Sends a callback after each real one, with a valid signature and another amount and currency. */
    lying: z.boolean(),
    /** The API answers 503. */
    down: z.boolean(),
    /** The delay of each API answer, milliseconds. */
    apiSlowMs: z.int().min(0).max(60_000),
    /** Breaks the connection of an API call: before the call is executed, or after it and before the answer. */
    apiCut: z.enum(['never', 'before', 'after']),
    /** The share of API calls whose connection breaks, from 0 to 1. */
    apiCutShare: z.number().min(0).max(1),
    /** Limits the API faults to this provider; null: all providers. */
    apiOf: z.enum(['stripe', 'btcpay', 'nowpayments']).nullable(),
  })
  .partial()

type PartialSwitches = z.infer<typeof SwitchesShape>
export type Switches = {
  readonly [Name in keyof PartialSwitches]-?: Exclude<PartialSwitches[Name], undefined>
}

export const noFaults: Switches = {
  lost: 0,
  repeats: 0,
  reorderMs: 0,
  slowMs: 0,
  forged: false,
  lying: false,
  down: false,
  apiSlowMs: 0,
  apiCut: 'never',
  apiCutShare: 1,
  apiOf: null,
}
