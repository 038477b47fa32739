import { z } from 'zod'
import type { Provider } from '../domain/payments/payments.ts'

export type SandboxStatus = 'open' | 'processing' | 'paid' | 'short' | 'expired' | 'failed'
export type SandboxPayment = {
  readonly id: string
  readonly cents: number
  readonly atMs: number
  /** After the invoice had closed. */
  readonly late: boolean
  readonly disputeId: string | null
  readonly disputedAtMs: number | null
  /** What the bank gave back of a dispute, where it was closed; absent while it is open. */
  readonly returnedCents?: number
  /** What its owner gave back in the dashboard; absent: nothing. */
  readonly refundedCents?: number
  readonly refundedAtMs?: number
}

/** An invoice of a stand-in, the same for each provider; the wire formats are made from it. */
export type SandboxInvoice = {
  readonly id: string
  readonly provider: Provider
  /** The API key of the account at the provider. */
  readonly account: string
  readonly amountCents: number
  /** The merchant's own reference, our deposit id. */
  readonly reference: string
  readonly title: string
  readonly method: string
  readonly returnUrl: string
  /** Where its callbacks go, for the provider that is told with each invoice; null: the account's address. */
  readonly callbackUrl: string | null
  readonly createdAtMs: number
  readonly expiresAtMs: number
  readonly status: SandboxStatus
  readonly payments: readonly SandboxPayment[]
  /** Absent: dollars. */
  readonly currency?: 'eur'
  /** Its owner set its status by hand. */
  readonly marked?: true
}

/** What a payer, or time, does to an invoice. */
export type InvoiceAction =
  | { readonly kind: 'pay'; readonly cents: number; readonly paymentId: string }
  /** Seen, not final yet. */
  | { readonly kind: 'process' }
  | { readonly kind: 'expire' }
  | { readonly kind: 'fail' }
  | { readonly kind: 'dispute'; readonly disputeId: string }
  /** The bank closes the dispute and gives so much back: 0 where it is lost. */
  | { readonly kind: 'close-dispute'; readonly cents: number }
  /** Its owner gives so much of the first payment back. */
  | { readonly kind: 'refund'; readonly cents: number }
  /** Its owner marks it by hand. */
  | { readonly kind: 'mark-settled' | 'mark-invalid' }
  /** It turns out to be in euros. */
  | { readonly kind: 'euros' }

export const paidCents = ({ payments }: Pick<SandboxInvoice, 'payments'>): number =>
  payments.reduce((sum, { cents }) => sum + cents, 0)

export const isInvoiceClosed = ({ status }: SandboxInvoice): boolean =>
  status === 'paid' || status === 'expired' || status === 'failed' || status === 'short'

/** Why the provider would not take it, or null. Stripe takes one payment a session and none once it has closed. */
export const actionRefusal = (invoice: SandboxInvoice, action: InvoiceAction): string | null => {
  const over = isInvoiceClosed(invoice)
  if (action.kind === 'dispute')
    return invoice.provider === 'stripe' && invoice.payments.length > 0
      ? null
      : 'only a card payment can be charged back'
  if (action.kind === 'close-dispute') return invoice.payments[0]?.disputeId ? null : 'there is no dispute'
  if (action.kind === 'refund') return invoice.payments.length > 0 ? null : 'only a payment can be given back'
  if (action.kind === 'mark-settled' || action.kind === 'mark-invalid')
    return invoice.provider === 'btcpay' ? null : 'only an invoice of BTCPay is marked by hand'
  if (action.kind === 'euros') return null
  if (action.kind !== 'pay') return over ? `the invoice is ${invoice.status}` : null
  if (!Number.isSafeInteger(action.cents) || action.cents < 1)
    return 'amount_cents must be a whole number above 0'
  if (invoice.provider === 'stripe' && over)
    return `a Checkout session takes one payment; this one is ${invoice.status}`
  return null
}

const withFirst = (invoice: SandboxInvoice, change: Partial<SandboxPayment>): SandboxInvoice => ({
  ...invoice,
  payments: invoice.payments.map((payment, n) => (n === 0 ? { ...payment, ...change } : payment)),
})

/** The invoice after the deed; ask `refusal` first. */
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
      // A session is complete with whatever was charged; a crypto invoice waits for the rest.
      const whole = invoice.provider === 'stripe' || paidCents(paid) >= invoice.amountCents
      if (late) return invoice.status === 'open' ? { ...paid, status: whole ? 'paid' : 'short' } : paid
      return whole ? { ...paid, status: 'paid' } : paid
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
      const refundedCents = (invoice.payments[0]?.refundedCents ?? 0) + action.cents
      return withFirst(invoice, { refundedCents, refundedAtMs: nowMs })
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

/** How the stand-ins misbehave: `PUT /_sandbox/switches`. Everything is off at the start. */
export const SwitchesShape = z
  .strictObject({
    /** The share of callbacks that never leave, from 0 to 1. */
    lost: z.number().min(0).max(1),
    /** How many more times each callback is sent. */
    repeats: z.int().min(0).max(20),
    /** Each waits a random part of this, so that they overtake each other. */
    reorderMs: z.int().min(0).max(60_000),
    /** Each waits this long. */
    slowMs: z.int().min(0).max(60_000),
    /** Before each goes one that is not signed and one that is signed with another secret. */
    forged: z.boolean(),
    /** After each goes one, rightly signed, that states another amount and currency. */
    lying: z.boolean(),
    /** The API answers 503. */
    down: z.boolean(),
    /** The API answers after this. */
    apiSlowMs: z.int().min(0).max(60_000),
    /** The connection of an API call breaks: before it is done, or when it was done and before it is answered. */
    apiCut: z.enum(['never', 'before', 'after']),
    /** The share of API calls that are cut, from 0 to 1. */
    apiCutShare: z.number().min(0).max(1),
    /** The faults of the API are this provider's alone; null: of all. */
    apiOf: z.enum(['stripe', 'btcpay', 'nowpayments']).nullable(),
  })
  .partial()

type Given = z.infer<typeof SwitchesShape>
export type Switches = { readonly [Name in keyof Given]-?: Exclude<Given[Name], undefined> }

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
