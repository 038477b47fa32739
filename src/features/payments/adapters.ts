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

/** Logs name it by its `code`. */
class TooManyAtOnce extends Error {
  override readonly name = 'TooManyAtOnce'
  readonly code = 'too_many_at_once'
}

/**
 * Limits concurrent requests. A request above the limit is refused before anything is sent, so that a slow or hanging
 * provider blocks only this number of requests.
 * @throws TooManyAtOnce
 */
export const atMost = (limit: number, send: Send): Send => {
  let activeCount = 0
  const countWhileRunning = async <Value>(work: () => Promise<Value>): Promise<Value> => {
    activeCount += 1
    try {
      return await work()
    } finally {
      activeCount -= 1
    }
  }
  return async (url, init) => {
    if (activeCount >= limit) throw new TooManyAtOnce(`${limit} requests are under way`)
    const { status, headers, text } = await countWhileRunning(() => send(url, init))
    return { status, headers, text: () => countWhileRunning(text) }
  }
}

/** The transports and keys of adapters. */
type AdapterContext = {
  /** For real providers. */
  readonly send: Send
  /** The sandbox of this installation, which simulates providers; null if it does not run. */
  readonly sandbox: { readonly baseUrl: string; readonly send: Send } | null
  readonly master: MasterKey
  readonly callbackUrl: (gatewayId: string) => string
  readonly clock: Clock
}

/** Secrets of a sandbox account, the same in each process of the installation. */
const sandboxSecret = (master: MasterKey, gatewayId: string, purpose: string): string =>
  createHmac('sha256', deriveKey(master, 'sandbox gateways v1'))
    .update(JSON.stringify([gatewayId, purpose]))
    .digest('hex')

const sandboxCredentials = (
  provider: Provider,
  gatewayId: string,
  { master, sandbox }: AdapterContext,
): RealCredentials => {
  const secret = (purpose: string): string => sandboxSecret(master, gatewayId, purpose)
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
      // Imported lazily, at the first card payment: the Stripe package has some two hundred files.
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

/** The account's key in the sandbox. */
const apiKeyOf = (credentials: RealCredentials): string =>
  credentials.provider === 'stripe'
    ? credentials.secretKey
    : credentials.provider === 'btcpay'
      ? `${credentials.storeId} ${credentials.apiKey}`
      : credentials.apiKey

const webhookSecretOf = (credentials: RealCredentials): string =>
  credentials.provider === 'nowpayments' ? credentials.ipnSecret : credentials.webhookSecret

/**
 * Registers the account's webhook at the sandbox before each invoice. At a real provider its owner does this by hand.
 */
const registered = (
  gateway: PaymentGateway,
  account: { provider: Provider; key: string; webhookUrl: string; webhookSecret: string },
  sandbox: NonNullable<AdapterContext['sandbox']>,
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
 * Concurrent requests to one gateway. Clients' requests wait for them, and all clients share 2,000 slots: a hanging
 * server of one reseller must not use all of them.
 */
const maxAtOnce = 128

/** Creates the adapter of these credentials; null for sandbox credentials if the sandbox does not run. */
export const createAdapter = async (
  gatewayId: string,
  credentials: GatewayCredentials,
  reach: AdapterContext,
): Promise<PaymentGateway | null> => {
  if (!isSandbox(credentials))
    return realAdapter(credentials, atMost(maxAtOnce, reach.send), reach.clock, null)
  const { sandbox, callbackUrl } = reach
  if (sandbox === null) return null
  const generated = sandboxCredentials(credentials.provider, gatewayId, reach)
  const account = {
    provider: credentials.provider,
    key: apiKeyOf(generated),
    webhookUrl: callbackUrl(gatewayId),
    webhookSecret: webhookSecretOf(generated),
  }
  const send = atMost(maxAtOnce, sandbox.send)
  return registered(await realAdapter(generated, send, reach.clock, sandbox.baseUrl), account, sandbox)
}
