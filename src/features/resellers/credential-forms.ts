import type { Provider, ResellerRail } from '../../domain/payments/payments.ts'

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
