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
import { publicOutgoing, sandboxOutgoing } from '../../platform/outgoing/send.ts'
import type { MasterKey } from '../../platform/vault/keys.ts'
import { createAdapter } from './adapters.ts'
import {
  type GatewayCredentials,
  type Gateways,
  isSandbox,
  type LiveGateway,
  type PaymentGateway,
} from './payment-port.ts'
import type { PaymentConfig } from './settings.ts'

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

/** Cards first, then the crypto gateways by preference. */
const sandboxProviders: readonly Provider[] = ['stripe', 'btcpay']

const serviceGateways = (config: PaymentConfig, sandboxUrl: string | null): readonly StoredGateway[] => {
  const { merchantName } = config
  if (config.gateways.length > 0)
    return config.gateways.map((credentials) => ({
      gatewayId: `service-${credentials.provider}`,
      owner: null,
      merchantName,
      credentials,
    }))
  if (sandboxUrl === null) return []
  return sandboxProviders.map((provider) => ({
    gatewayId: `sandbox-${provider}`,
    owner: null,
    merchantName,
    credentials: { provider, sandbox: true },
  }))
}

const maxAdapters = 10_000

/** Loads the gateways of the service (settings) and of its resellers (their terms), with their adapters. */
export const createGateways = (deps: {
  readonly config: PaymentConfig
  readonly resellers: ResellerGateways
  /** The base URL of the sandbox; null if it does not run. */
  readonly sandboxUrl: string | null
  readonly master: MasterKey
  readonly callbackUrl: (gatewayId: string) => string
  readonly clock: Clock
}): Gateways & { own(): readonly OwnGateway[]; close(): Promise<void> } => {
  const { config, resellers, sandboxUrl, master, callbackUrl, clock } = deps
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
