import { rails } from '../shared/rails.ts'

export type Rail = (typeof rails)[number]
export type Provider = 'stripe' | 'btcpay' | 'nowpayments'
export const providers: readonly Provider[] = ['stripe', 'btcpay', 'nowpayments']

/**
 * A rail on a provider. Wallets are in dollars, and only payments that a provider settles in dollars can be credited
 * unconverted.
 */
export type RailRoute = {
  readonly provider: Provider
  readonly currency: 'usd'
  /** The provider's own name of the rail (Stripe: `allowed_payment_method_types`). */
  readonly name: string
}

const stripe = (name: string): RailRoute => ({ provider: 'stripe', currency: 'usd', name })

/**
 * The only table of the rails, with their providers and currencies (docs/reference/api.md, "Deposits"). A rail without
 * a route is known and never live, because its payers pay in a currency other than the wallet's: UPI in INR, Pix and
 * boleto in BRL, OXXO in MXN, FPX in MYR, GrabPay and Maya in PHP, QRIS and Dana in IDR, MoMo in VND.
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

/** The rails that a reseller's own gateways may serve (docs/reference/api.md, "Deposits"). */
export const resellerRails = ['card', 'crypto'] as const satisfies readonly Rail[]
export type ResellerRail = (typeof resellerRails)[number]

/** The smallest deposit, whole cents. Smaller amounts are raised to it (docs/reference/api.md, "Deposits"). */
export const floorCents = (rail: Rail): number => (rail === 'crypto' ? 300 : 1_000)

/** One invoice is at most $5,000. */
export const maxDepositCents = 500_000

/** The route of the rail on this provider; null if there is none. */
export const routeOf = (rail: Rail, provider: Provider): RailRoute | null =>
  railRoutes[rail].find((route) => route.provider === provider) ?? null

/** A final payment. */
export type GatewayPayment = {
  /** The provider's payment id. Each payment is credited once. */
  readonly paymentId: string
  /** Micro-dollars above 0, rounded down. */
  readonly amountMicros: number
}

/**
 * `open` can be paid, `processing` was seen and is not final, `paid` is paid in full and final, `expired` closed unpaid
 * or underpaid, `failed` will never be paid.
 */
export type InvoiceStatus = 'open' | 'processing' | 'paid' | 'expired' | 'failed'

/**
 * Reports of a provider that move no money here and that an operator must review. `dispute_adjusted` is no longer
 * reported: since disputes are booked net, only earlier events have it.
 */
export const gatewayChanges = [
  'refunded',
  'other_currency',
  'paid_without_money',
  'marked_invalid',
  'payment_changed',
  'payment_undone',
  'unknown_status',
  'ended_with_money',
  'dispute_adjusted',
  'chargeback_not_moved',
  'above_credit',
  'refund_refused',
] as const
export type GatewayChange = {
  readonly change: (typeof gatewayChanges)[number]
  /** The provider's id of the changed object. */
  readonly reference: string
  /** The amount with its currency as the provider reports it, e.g. `12.50 eur`; null if it reports none. */
  readonly amount: string | null
}

/** A payment of an invoice that does not count, because it was refunded or turned out to be invalid. */
export type UndonePayment = {
  readonly paymentId: string
  readonly why: 'refunded' | 'invalid'
  readonly amount: string | null
}

/** A payment that is not credited because of its status. */
export type UncreditedPayment = {
  /** The provider's id of the payment or the invoice. */
  readonly id: string
  readonly status: string
  readonly amount: string | null
}

/** A refund at the provider that was requested here. */
export type MadeRefund = {
  readonly providerRefundId: string
  /** The argument of a gateway's `fetch`, which reads the movements of the refund. */
  readonly reference: string
}

/** An invoice as read from the provider. No other report moves money. */
export type InvoiceReport = {
  readonly kind: 'invoice'
  readonly invoiceId: string
  /** The reference that the invoice was created with; null if it is not one of ours. */
  readonly depositId: string | null
  /** Lower case ISO 4217. */
  readonly currency: string
  readonly status: InvoiceStatus
  /** The final payments. One that was reported before may be missing. */
  readonly payments: readonly GatewayPayment[]
  readonly undone?: readonly UndonePayment[]
  /** Payments whose status this version does not know. */
  readonly unknownStatuses?: readonly UncreditedPayment[]
  /** Payments for which money arrived, and which the provider ended without it, as failed or expired. */
  readonly endedWithMoney?: readonly UncreditedPayment[]
  /** The ids of payments that cannot be read. */
  readonly unreadable?: readonly string[]
}

/** Why a provider moves a received payment again. */
export const reversalReasons = ['chargeback', 'deposit_refund'] as const
export type ReversalReason = (typeof reversalReasons)[number]

/**
 * The name of a movement in the books: the provider, the id of the refund or dispute, and that of the balance
 * transaction. The last one is unique at the provider and never depends on the other movements.
 */
export const movementReference = (provider: Provider, reversalId: string, transactionId: string): string =>
  `${provider} ${reversalId} ${transactionId}`

/** The provider's id of the refund or dispute of a movement. The reference of an operator is its own id. */
export const reversalIdOf = (reference: string): string => {
  const [provider, reversalId, transactionId, ...rest] = reference.split(' ')
  const isMovement = (providers as readonly (string | undefined)[]).includes(provider) && rest.length === 0
  return isMovement && reversalId && transactionId ? reversalId : reference
}

/** A movement of the provider's balance, as the provider settled it. */
export type BalanceMovement = {
  /** The provider's id of the movement. Its fee is booked once under this id. */
  readonly transactionId: string
  /** Lower case ISO 4217: the currency of the balance, which may differ from the payer's currency. */
  readonly currency: string
  /** Micro-units of the currency. Negative: the money left the balance. */
  readonly amountMicros: number
  /** Micro-units of the currency, in addition to the amount. Negative: a returned fee. */
  readonly feeMicros: number
  /** ISO 8601 UTC. */
  readonly at: string
}

/**
 * A refund or a dispute, with all movements so far. Only these move money here, whatever the status is: a refund that
 * failed and a dispute that was won have one that returned the money.
 */
export type Reversal = {
  readonly reason: ReversalReason
  /** The provider's id of the refund or the dispute. */
  readonly reversalId: string
  /** The request of this refund from here, which holds its amount. Absent: it was made at the provider alone. */
  readonly request?: {
    readonly refundId: string
    /** It failed or was canceled. */
    readonly isOver: boolean
  }
  /** In the order of time. */
  readonly movements: readonly BalanceMovement[]
}

/** The refunds of a payment, or a dispute about it. */
export type ReversalReport = {
  readonly kind: 'reversals'
  readonly depositId: string | null
  readonly reversals: readonly Reversal[]
  /** The ids of refunds that cannot be read. */
  readonly unreadable?: readonly string[]
}

/** A change of a payment after it arrived. */
export type ChangeReport = GatewayChange & { readonly kind: 'change'; readonly depositId: string | null }

export type GatewayReport = InvoiceReport | ReversalReport | ChangeReport
