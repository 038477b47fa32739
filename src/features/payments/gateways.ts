import { createHash, createHmac } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import {
  type Provider,
  type Rail,
  railNames,
  resellerRails,
  routeOf,
} from '../../domain/payments/payments.ts'
import type { Clock } from '../../kernel/clock.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { publicOutgoing, type Send, sandboxOutgoing } from '../../platform/outgoing/send.ts'
import { faultKind } from '../../platform/outgoing/target.ts'
import { deriveKey, type MasterKey } from '../../platform/vault/keys.ts'
import { createBtcpayGateway } from './btcpay.ts'
import { createNowpaymentsGateway } from './nowpayments.ts'
import {
  type GatewayCredentials,
  type Gateways,
  GatewayUnavailable,
  isSandbox,
  type LiveGateway,
  type PaymentGateway,
  type RealCredentials,
} from './payment-port.ts'
import { type PaymentConfig, sandboxGatewayId, sandboxProviders, serviceGatewayId } from './settings.ts'

/** The configuration of a gateway. A new provider account gets a new id, so that old invoices keep their gateway. */
export type StoredGateway = {
  readonly gatewayId: string
  readonly owner: AccountId | null
  readonly merchantName: string
  readonly credentials: GatewayCredentials
}

/** The gateways of resellers. */
export type ResellerGateways = {
  /** The gateway for new invoices of the rail, or null. */
  forRail(owner: AccountId, rail: Rail): Promise<StoredGateway | null>
  /** Also finds a gateway that takes no new invoices. */
  byId(gatewayId: string): Promise<StoredGateway | null>
}

/** One of the service's own gateways, without secrets. */
export type OwnGateway = {
  readonly gatewayId: string
  readonly provider: Provider
  /** The sandbox, a provider in test mode, or one with credentials that may take real money. */
  readonly mode: 'sandbox' | 'test' | 'live'
  /** The rails of its new invoices; empty while a preferred gateway takes them. */
  readonly rails: readonly { readonly rail: Rail; readonly currency: 'usd' }[]
}

const modeOf = (credentials: GatewayCredentials): OwnGateway['mode'] => {
  if (isSandbox(credentials)) return 'sandbox'
  return credentials.provider === 'stripe' && /^[a-z]+_test_/.test(credentials.secretKey) ? 'test' : 'live'
}

const serviceGateways = (config: PaymentConfig, sandboxUrl: string | null): readonly StoredGateway[] => {
  const { merchantName } = config
  if (config.gateways.length > 0)
    return config.gateways.map((credentials) => ({
      gatewayId: serviceGatewayId(credentials.provider),
      owner: null,
      merchantName,
      credentials,
    }))
  if (sandboxUrl === null) return []
  return sandboxProviders.map((provider) => ({
    gatewayId: sandboxGatewayId(provider),
    owner: null,
    merchantName,
    credentials: { provider, sandbox: true },
  }))
}

const maxAdapters = 10_000

/** Loads the gateways of the service (settings) and of its resellers (their terms), with their adapters. */
export const createGateways = (dependencies: {
  readonly config: PaymentConfig
  readonly resellers: ResellerGateways
  /** The base URL of the sandbox; null if it does not run. */
  readonly sandboxUrl: string | null
  readonly master: MasterKey
  readonly callbackUrl: (gatewayId: string) => string
  readonly clock: Clock
}): Gateways & { own(): readonly OwnGateway[]; close(): Promise<void> } => {
  const { config, resellers, sandboxUrl, master, callbackUrl, clock } = dependencies
  const outgoing = publicOutgoing()
  const local = sandboxUrl === null ? null : sandboxOutgoing(sandboxUrl)
  const sandbox = sandboxUrl === null || local === null ? null : { baseUrl: sandboxUrl, send: local.send }
  const own = serviceGateways(config, sandboxUrl)
  // Promises, so that a gateway has one adapter even while it is created: the adapter counts the gateway's open
  // requests.
  const adapters = new LRUCache<string, Promise<PaymentGateway | null>>(growingCacheOptions(maxAdapters))

  const adapterOf = ({ gatewayId, credentials }: StoredGateway): Promise<PaymentGateway | null> => {
    const cached = adapters.get(gatewayId)
    if (cached) return cached
    const pendingAdapter = createAdapter(gatewayId, credentials, {
      send: outgoing.send,
      sandbox,
      master,
      callbackUrl,
      clock,
      adaptivePricing: config.adaptivePricing,
    })
    adapters.set(gatewayId, pendingAdapter)
    pendingAdapter.catch(() => adapters.delete(gatewayId))
    return pendingAdapter
  }
  const toLiveGateway = async (stored: StoredGateway | null | undefined): Promise<LiveGateway | null> => {
    if (!stored) return null
    const { gatewayId, owner, merchantName, credentials } = stored
    const gateway = await adapterOf(stored)
    return gateway && { gatewayId, owner, merchantName, provider: credentials.provider, gateway }
  }

  /** The first gateway that takes the rail. */
  const ownForRail = (rail: Rail): StoredGateway | undefined =>
    own.find(({ credentials }) => routeOf(rail, credentials.provider) !== null)

  const forRail: Gateways['forRail'] = async (owner, rail) => {
    const stored = owner === null ? ownForRail(rail) : await resellers.forRail(owner, rail)
    if (!stored || routeOf(rail, stored.credentials.provider) === null) return null
    return toLiveGateway(stored)
  }

  return {
    forRail,
    liveRails: async (owner) => {
      const possibleRails = owner === null ? railNames : resellerRails
      const gatewaysByRail = await Promise.all(possibleRails.map((rail) => forRail(owner, rail)))
      return possibleRails.filter((_, at) => gatewaysByRail[at] !== null)
    },
    byId: async (gatewayId) =>
      toLiveGateway(
        own.find((stored) => stored.gatewayId === gatewayId) ?? (await resellers.byId(gatewayId)),
      ),
    own: () =>
      own.map((stored) => ({
        gatewayId: stored.gatewayId,
        provider: stored.credentials.provider,
        mode: modeOf(stored.credentials),
        rails: railNames.flatMap((rail) => {
          const route = ownForRail(rail) === stored ? routeOf(rail, stored.credentials.provider) : null
          return route === null ? [] : [{ rail, currency: route.currency }]
        }),
      })),
    close: async () => {
      await outgoing.close()
      await local?.close()
    },
  }
}

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
  readonly adaptivePricing: boolean
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
  { clock, adaptivePricing }: Pick<AdapterContext, 'clock' | 'adaptivePricing'>,
  sandboxUrl: string | null,
): Promise<PaymentGateway> => {
  switch (credentials.provider) {
    case 'stripe': {
      // Imported lazily, at the first card payment: the Stripe package has some two hundred files.
      const { createStripeGateway } = await import('./stripe.ts')
      if (sandboxUrl === null) return createStripeGateway(credentials, send, { adaptivePricing })
      const { hostname: host, port } = new URL(sandboxUrl)
      const endpoint = { host, port: Number(port), protocol: 'http' } as const
      return createStripeGateway(credentials, send, { adaptivePricing, endpoint })
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
    const answer = await sandbox
      .send(`${sandbox.baseUrl}/_sandbox/accounts`, {
        method: 'PUT',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(account),
      })
      .then(({ status }) => status, faultKind)
    if (answer !== 200) throw new GatewayUnavailable(`the sandbox: ${answer}`)
  }
  const { cards } = gateway
  return {
    ...gateway,
    createInvoice: async (request) => {
      await register()
      return gateway.createInvoice(request)
    },
    ...(cards && {
      cards: {
        ...cards,
        createPage: async (page) => {
          await register()
          return cards.createPage(page)
        },
      },
    }),
  }
}

/**
 * Concurrent requests to one gateway. Clients' requests wait for them, and all clients share 2,000 slots: a hanging
 * server of one reseller must not use all of them.
 */
const maxAtOnce = 128

/** Creates the adapter of these credentials; null for sandbox credentials if the sandbox does not run. */
const createAdapter = async (
  gatewayId: string,
  credentials: GatewayCredentials,
  reach: AdapterContext,
): Promise<PaymentGateway | null> => {
  if (!isSandbox(credentials)) return realAdapter(credentials, atMost(maxAtOnce, reach.send), reach, null)
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
  return registered(await realAdapter(generated, send, reach, sandbox.baseUrl), account, sandbox)
}
