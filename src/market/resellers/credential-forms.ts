import { z } from 'zod'
import type { Provider, ResellerRail } from '../../money/payments/rails.ts'

const loopback = new Set(['127.0.0.1', 'localhost', '[::1]'])

/** An address of a third party: https, or http on this machine for a stand-in. */
const address = z
  .string()
  .max(2_000)
  .refine(
    (text) => {
      const url = URL.parse(text)
      if (url === null || url.username !== '' || url.password !== '') return false
      return url.protocol === 'https:' || (url.protocol === 'http:' && loopback.has(url.hostname))
    },
    { error: 'must be an https address without a user name' },
  )

export {
  type GatewayCredentials,
  gatewayCredentials,
  realCredentials,
} from '../../money/payments/credentials.ts'

export const botCredentials = z.strictObject({
  provider: z.literal('telegram'),
  token: z.string().regex(/^\d{1,20}:[A-Za-z0-9_-]{1,200}$/),
  apiUrl: address.optional(),
})
export type BotCredentials = z.infer<typeof botCredentials>

/** Which provider can serve a reseller's rail. */
export const providersOf: { readonly [Rail in ResellerRail]: readonly Provider[] } = {
  card: ['stripe'],
  crypto: ['btcpay', 'nowpayments'],
}

/** The fields of a provider's credentials, as an operator is told them. */
export const credentialFields: Readonly<Record<Provider, string>> = {
  stripe: '{"secretKey", "webhookSecret"}',
  btcpay: '{"url", "storeId", "apiKey", "webhookSecret"}',
  nowpayments: '{"apiKey", "ipnSecret", "email", "password"}',
}
