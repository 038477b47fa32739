import { z } from 'zod'

const text = z.string().regex(/^[\x21-\x7e]{1,500}$/)

/** What each provider's adapter needs. Kept sealed in the vault, never in an event, a log or an answer. */
export const credentialShapes = {
  stripe: z.strictObject({
    /** A secret or restricted key of the account. */
    secretKey: z.string().regex(/^(sk|rk)_(test|live)_[A-Za-z0-9_]{1,300}$/),
    /** The signing secret of the webhook endpoint. */
    webhookSecret: z.string().regex(/^whsec_[\x21-\x7e]{1,300}$/),
  }),
  btcpay: z.strictObject({
    /** Where the server answers, e.g. `https://pay.example.com`. */
    url: z
      .string()
      .max(2_000)
      .refine((value) => {
        const url = URL.parse(value)
        return url?.protocol === 'https:' && url.username === '' && url.password === '' && url.search === ''
      }),
    storeId: z.string().regex(/^[A-Za-z0-9]{1,100}$/),
    apiKey: text,
    webhookSecret: text,
  }),
  nowpayments: z.strictObject({
    apiKey: text,
    ipnSecret: text,
    /** Of the account: the list of an invoice's payments, which finds lost callbacks, is given to a login only. */
    email: z.email(),
    password: z.string().min(1).max(500),
  }),
} as const

export type StripeCredentials = z.infer<typeof credentialShapes.stripe>
export type BtcpayCredentials = z.infer<typeof credentialShapes.btcpay>
export type NowpaymentsCredentials = z.infer<typeof credentialShapes.nowpayments>

/** What signs in to a real provider. */
export const realCredentials = z.discriminatedUnion('provider', [
  credentialShapes.stripe.extend({ provider: z.literal('stripe') }),
  credentialShapes.btcpay.extend({ provider: z.literal('btcpay') }),
  credentialShapes.nowpayments.extend({ provider: z.literal('nowpayments') }),
])
export type RealCredentials = z.infer<typeof realCredentials>

/** A provider's stand-in, where this installation runs one. */
export const sandboxCredentials = z.strictObject({
  provider: z.enum(['stripe', 'btcpay', 'nowpayments']),
  sandbox: z.literal(true),
})

export const gatewayCredentials = z.union([realCredentials, sandboxCredentials])
export type GatewayCredentials = z.infer<typeof gatewayCredentials>

export const isSandbox = (
  credentials: GatewayCredentials,
): credentials is z.infer<typeof sandboxCredentials> => 'sandbox' in credentials
