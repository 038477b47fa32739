import { rails } from '../../terms/methods.ts'

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
