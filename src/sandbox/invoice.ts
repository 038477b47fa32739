import type { Provider } from '../money/payments/rails.ts'

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
export type Deed =
  | { readonly kind: 'pay'; readonly cents: number; readonly paymentId: string }
  /** Seen, not final yet. */
  | { readonly kind: 'process' }
  | { readonly kind: 'expire' }
  | { readonly kind: 'fail' }
  | { readonly kind: 'dispute'; readonly disputeId: string }

export const paidCents = ({ payments }: Pick<SandboxInvoice, 'payments'>): number =>
  payments.reduce((sum, { cents }) => sum + cents, 0)

export const isOver = ({ status }: SandboxInvoice): boolean =>
  status === 'paid' || status === 'expired' || status === 'failed' || status === 'short'

/** Why the provider would not take it, or null. Stripe takes one payment a session and none once it has closed. */
export const refusal = (invoice: SandboxInvoice, deed: Deed): string | null => {
  const over = isOver(invoice)
  if (deed.kind === 'dispute')
    return invoice.provider === 'stripe' && invoice.payments.length > 0
      ? null
      : 'only a card payment can be charged back'
  if (deed.kind !== 'pay') return over ? `the invoice is ${invoice.status}` : null
  if (!Number.isSafeInteger(deed.cents) || deed.cents < 1)
    return 'amount_cents must be a whole number above 0'
  if (invoice.provider === 'stripe' && over)
    return `a Checkout session takes one payment; this one is ${invoice.status}`
  return null
}

/** The invoice after the deed; ask `refusal` first. */
export const after = (invoice: SandboxInvoice, deed: Deed, nowMs: number): SandboxInvoice => {
  switch (deed.kind) {
    case 'pay': {
      const late = isOver(invoice) || nowMs >= invoice.expiresAtMs
      const payment = {
        id: deed.paymentId,
        cents: deed.cents,
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
          n === 0 ? { ...payment, disputeId: deed.disputeId, disputedAtMs: nowMs } : payment,
        ),
      }
    default:
      return deed satisfies never
  }
}
