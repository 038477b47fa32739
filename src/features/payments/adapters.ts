import { createHash, createHmac } from 'node:crypto'
import type { Provider } from '../../domain/payments/payments.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Send } from '../../platform/outgoing/send.ts'
import { deriveKey, type MasterKey } from '../../platform/vault/keys.ts'
import { createBtcpayGateway } from './btcpay.ts'
import { createNowpaymentsGateway } from './nowpayments.ts'
import {
  type GatewayCredentials,
  isSandbox,
  type PaymentGateway,
  type RealCredentials,
} from './payment-port.ts'

/** Its `code` is what a log says of it. */
class TooManyAtOnce extends Error {
  override readonly name = 'TooManyAtOnce'
  readonly code = 'too_many_at_once'
}

/**
 * Sends at most so many requests at once; one more is refused before anything is sent. Who answers slowly, or never,
 * holds up no more of the service than that.
 * @throws TooManyAtOnce
 */
export const atMost = (limit: number, send: Send): Send => {
  let underWay = 0
  const counted = async <Value>(work: () => Promise<Value>): Promise<Value> => {
    underWay += 1
    try {
      return await work()
    } finally {
      underWay -= 1
    }
  }
  return async (url, init) => {
    if (underWay >= limit) throw new TooManyAtOnce(`${limit} requests are under way`)
    const { status, headers, text } = await counted(() => send(url, init))
    return { status, headers, text: () => counted(text) }
  }
}

/** How an adapter reaches its provider. */
type Reach = {
  /** To real providers. */
  readonly send: Send
  /** The stand-ins of this installation; null where none run. */
  readonly sandbox: { readonly baseUrl: string; readonly send: Send } | null
  readonly master: MasterKey
  readonly callbackUrl: (gatewayId: string) => string
  readonly clock: Clock
}

/** Secrets of a stand-in's account, the same for each process of the installation. */
const sandboxSecret = (master: MasterKey, gatewayId: string, what: string): string =>
  createHmac('sha256', deriveKey(master, 'sandbox gateways v1'))
    .update(JSON.stringify([gatewayId, what]))
    .digest('hex')

const sandboxCredentials = (
  provider: Provider,
  gatewayId: string,
  { master, sandbox }: Reach,
): RealCredentials => {
  const secret = (what: string): string => sandboxSecret(master, gatewayId, what)
  switch (provider) {
    case 'stripe':
      return {
        provider,
        secretKey: `sk_test_sandbox_${secret('key')}`,
        webhookSecret: `whsec_${secret('webhook')}`,
      }
    case 'btcpay':
      return {
        provider,
        url: `${sandbox?.baseUrl}/btcpay`,
        apiKey: secret('key'),
        storeId: createHash('sha256').update(gatewayId).digest('hex').slice(0, 24),
        webhookSecret: secret('webhook'),
      }
    case 'nowpayments':
      return {
        provider,
        apiKey: secret('key'),
        ipnSecret: secret('webhook'),
        email: 'sandbox@farebox.example',
        password: secret('key'),
      }
    default:
      return provider satisfies never
  }
}

const realAdapter = async (
  credentials: RealCredentials,
  send: Send,
  clock: Clock,
  sandboxUrl: string | null,
): Promise<PaymentGateway> => {
  switch (credentials.provider) {
    case 'stripe': {
      // Its package has some two hundred files: they are read by who takes cards, once the first payment is asked for.
      const { createStripeGateway } = await import('./stripe.ts')
      if (sandboxUrl === null) return createStripeGateway(credentials, send)
      const { hostname: host, port } = new URL(sandboxUrl)
      return createStripeGateway(credentials, send, { host, port: Number(port), protocol: 'http' })
    }
    case 'btcpay':
      return createBtcpayGateway(credentials, send)
    case 'nowpayments': {
      const base = sandboxUrl === null ? {} : { baseUrl: `${sandboxUrl}/nowpayments/v1` }
      return createNowpaymentsGateway(credentials, send, { ...base, clock })
    }
    default:
      return credentials satisfies never
  }
}

/** How the stand-in names the account. */
const apiKeyOf = (credentials: RealCredentials): string =>
  credentials.provider === 'stripe'
    ? credentials.secretKey
    : credentials.provider === 'btcpay'
      ? `${credentials.storeId} ${credentials.apiKey}`
      : credentials.apiKey

const webhookSecretOf = (credentials: RealCredentials): string =>
  credentials.provider === 'nowpayments' ? credentials.ipnSecret : credentials.webhookSecret

/** Tells the stand-in where the account's callbacks go before its first invoice, as one does at a real provider's site. */
const registered = (
  gateway: PaymentGateway,
  account: { provider: Provider; key: string; webhookUrl: string; webhookSecret: string },
  sandbox: NonNullable<Reach['sandbox']>,
): PaymentGateway => {
  const register = async (): Promise<void> => {
    const { status } = await sandbox.send(`${sandbox.baseUrl}/_sandbox/accounts`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(account),
    })
    if (status !== 200) throw new Error(`the sandbox answered ${status}`)
  }
  return {
    ...gateway,
    createInvoice: async (request) => {
      await register()
      return gateway.createInvoice(request)
    },
  }
}

/**
 * Requests to one gateway at once. Requests of clients wait for them, and all clients share 2,000 places: a reseller's
 * server that hangs must not take them from everybody.
 */
const maxAtOnce = 128

/** The adapter of these credentials; null for a stand-in where none run. */
export const createAdapter = async (
  gatewayId: string,
  credentials: GatewayCredentials,
  reach: Reach,
): Promise<PaymentGateway | null> => {
  if (!isSandbox(credentials))
    return realAdapter(credentials, atMost(maxAtOnce, reach.send), reach.clock, null)
  const { sandbox, callbackUrl } = reach
  if (sandbox === null) return null
  const made = sandboxCredentials(credentials.provider, gatewayId, reach)
  const account = {
    provider: credentials.provider,
    key: apiKeyOf(made),
    webhookUrl: callbackUrl(gatewayId),
    webhookSecret: webhookSecretOf(made),
  }
  const send = atMost(maxAtOnce, sandbox.send)
  return registered(await realAdapter(made, send, reach.clock, sandbox.baseUrl), account, sandbox)
}
