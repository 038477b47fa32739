import { rails } from '../shared/rails.ts'

export type Rail = (typeof rails)[number]
export type Provider = 'stripe' | 'btcpay' | 'nowpayments'
export const providers: readonly Provider[] = ['stripe', 'btcpay', 'nowpayments']

/** A rail on a provider. Wallets are dollars: only what a provider settles in them can be credited as it arrived. */
export type RailRoute = {
  readonly provider: Provider
  readonly currency: 'usd'
  /** The provider's own name of the rail (Stripe: `allowed_payment_method_types`). */
  readonly name: string
}

const stripe = (name: string): RailRoute => ({ provider: 'stripe', currency: 'usd', name })

/**
 * Which rail runs on which provider, in which currency: the one table (docs/http-api.md, "Deposits"). A rail without a
 * route is known and never live, since its payers pay in a currency that is not the wallet's: UPI in INR, Pix and boleto
 * in BRL, OXXO in MXN, FPX in MYR, GrabPay and Maya in PHP, QRIS and Dana in IDR, MoMo in VND.
 */
const railRoutes: Readonly<Record<Rail, readonly RailRoute[]>> = {
  card: [stripe('card')],
  crypto: [
    { provider: 'btcpay', currency: 'usd', name: 'BTC' },
    { provider: 'nowpayments', currency: 'usd', name: 'any' },
  ],
  alipay: [stripe('alipay')],
  wechat: [stripe('wechat_pay')],
  upi: [],
  momo: [],
  qris: [],
  pix: [],
  dana: [],
  fpx: [],
  oxxo: [],
  boleto: [],
  paymaya: [],
  grabpay_ph: [],
}

export const railNames: readonly Rail[] = rails

/** The rails that a reseller's own gateways may serve (docs/http-api.md, "Deposits"). */
export const resellerRails = ['card', 'crypto'] as const satisfies readonly Rail[]
export type ResellerRail = (typeof resellerRails)[number]

/** Smaller amounts are raised to this, whole cents (docs/http-api.md, "Deposits"). */
export const floorCents = (rail: Rail): number => (rail === 'crypto' ? 300 : 1_000)

/** One invoice is at most $5,000. */
export const maxDepositCents = 500_000

/** How the rail runs on this provider; null when it cannot. */
export const routeOf = (rail: Rail, provider: Provider): RailRoute | null =>
  railRoutes[rail].find((route) => route.provider === provider) ?? null

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

/** What a provider can say that moves no money here, and that an operator must look at. */
export const gatewayChanges = [
  'refunded',
  'other_currency',
  'paid_without_money',
  'marked_invalid',
  'payment_changed',
  'payment_undone',
  'dispute_adjusted',
  'chargeback_not_moved',
] as const
export type GatewayChange = {
  readonly change: (typeof gatewayChanges)[number]
  /** The provider's id of what it happened to. */
  readonly reference: string
  /** As the provider says it, with its currency, e.g. `12.50 eur`; null: it says none. */
  readonly amount: string | null
}

/** A payment of an invoice that does not count: it was given back, or it turned out to be none. */
export type UndonePayment = {
  readonly paymentId: string
  readonly why: 'refunded' | 'invalid'
  readonly amount: string | null
}

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
  readonly undone?: readonly UndonePayment[]
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
  /** What moved in all, where it is neither the amount nor nothing, e.g. `-12.50 usd`. */
  readonly adjusted?: string
}

/** What happened to a payment after it arrived. */
export type ChangeReport = GatewayChange & { readonly kind: 'change'; readonly depositId: string | null }

export type GatewayReport = InvoiceReport | DisputeReport | ChangeReport
