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
}

/** What a payer, or time, does to an invoice. */
export type InvoiceAction =
  | { readonly kind: 'pay'; readonly cents: number; readonly paymentId: string }
  /** Seen, not final yet. */
  | { readonly kind: 'process' }
  | { readonly kind: 'expire' }
  | { readonly kind: 'fail' }
  | { readonly kind: 'dispute'; readonly disputeId: string }

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
  if (action.kind !== 'pay') return over ? `the invoice is ${invoice.status}` : null
  if (!Number.isSafeInteger(action.cents) || action.cents < 1)
    return 'amount_cents must be a whole number above 0'
  if (invoice.provider === 'stripe' && over)
    return `a Checkout session takes one payment; this one is ${invoice.status}`
  return null
}

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
      return {
        ...invoice,
        payments: invoice.payments.map((payment, n) =>
          n === 0 ? { ...payment, disputeId: action.disputeId, disputedAtMs: nowMs } : payment,
        ),
      }
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
