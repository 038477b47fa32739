import type { Provider, ResellerRail } from '../../domain/payments/payments.ts'

/** The providers that can serve a reseller's rail. */
export const providersOf: { readonly [Rail in ResellerRail]: readonly Provider[] } = {
  card: ['stripe'],
  crypto: ['btcpay', 'nowpayments'],
}

/** The credential fields of each provider, described for operators. */
export const credentialFields: Readonly<Record<Provider, string>> = {
  stripe: '{"secretKey", "webhookSecret"}',
  btcpay: '{"url", "storeId", "apiKey", "webhookSecret"}',
  nowpayments: '{"apiKey", "ipnSecret", "email", "password"}',
}
