/** Money that arrived for good. */
export type GatewayPayment = {
  /** The provider's id of the payment: it is credited once. */
  readonly paymentId: string
  /** Micro-dollars above 0, rounded down. */
  readonly amountMicros: number
}

/**
 * `open` can be paid, `processing` was seen and is not final, `paid` is paid whole and final, `expired` closed unpaid or
 * short, `failed` will never be paid.
 */
export type InvoiceStatus = 'open' | 'processing' | 'paid' | 'expired' | 'failed'

/** What the provider says of an invoice when it is asked. Nothing else moves money. */
export type InvoiceReport = {
  readonly kind: 'invoice'
  readonly invoiceId: string
  /** The reference that the invoice was made with; null when it carries none of ours. */
  readonly depositId: string | null
  /** Lower case ISO 4217. */
  readonly currency: string
  readonly status: InvoiceStatus
  /** Those that arrived for good. One that was reported before may be missing. */
  readonly payments: readonly GatewayPayment[]
}

/** A payment that was taken back by the payer's bank. */
export type DisputeReport = {
  readonly kind: 'dispute'
  readonly disputeId: string
  readonly invoiceId: string | null
  readonly depositId: string | null
  readonly currency: string
  readonly amountMicros: number
  /** `inquiry` moved nothing; `withdrawn` took the money; `reinstated` took it and gave it back. */
  readonly state: 'inquiry' | 'withdrawn' | 'reinstated'
}

export type GatewayReport = InvoiceReport | DisputeReport
