import { z } from 'zod'

const text = (min: number, max: number) =>
  z
    .string()
    .min(min)
    .max(max)
    .regex(/^[\x21-\x7e]+$/)

/** What each provider's adapter needs. Kept sealed in the vault, never in an event, a log or an answer. */
export const credentialShapes = {
  stripe: z.strictObject({
    /** A secret or restricted key of the account. */
    secretKey: z.string().regex(/^(sk|rk)_(test|live)_[A-Za-z0-9_]{8,}$/),
    /** The signing secret of the webhook endpoint. */
    webhookSecret: z.string().regex(/^whsec_[\x21-\x7e]{8,}$/),
  }),
  btcpay: z.strictObject({
    /** Where the server answers, e.g. `https://pay.example.com`. */
    url: z.url({ protocol: /^https$/ }),
    apiKey: text(8, 200),
    storeId: z.string().regex(/^[A-Za-z0-9]{4,64}$/),
    webhookSecret: text(8, 200),
  }),
  nowpayments: z.strictObject({
    apiKey: text(8, 200),
    ipnSecret: text(8, 200),
    /** Of the account: the list of an invoice's payments, which finds lost callbacks, is given to a login only. */
    email: z.email(),
    password: text(1, 200),
  }),
} as const

export type StripeCredentials = z.infer<typeof credentialShapes.stripe>
export type BtcpayCredentials = z.infer<typeof credentialShapes.btcpay>
export type NowpaymentsCredentials = z.infer<typeof credentialShapes.nowpayments>

/** Real credentials of one account at a provider, or its stand-in, where this installation runs one. */
export type GatewayCredentials =
  | ({ readonly provider: 'stripe' } & StripeCredentials)
  | ({ readonly provider: 'btcpay' } & BtcpayCredentials)
  | ({ readonly provider: 'nowpayments' } & NowpaymentsCredentials)
  | { readonly provider: 'stripe' | 'btcpay' | 'nowpayments'; readonly sandbox: true }

export const isSandbox = (
  credentials: GatewayCredentials,
): credentials is Extract<GatewayCredentials, { sandbox: true }> => 'sandbox' in credentials
