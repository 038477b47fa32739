import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { callbackPath, callbackRoutes, createInbox, type Inbox } from './callbacks.ts'
import { createGateways, type OwnGateway, type ResellerGateways } from './gateways.ts'
import type { Gateways } from './payment-port.ts'
import { gatewayIdsOf, type PaymentConfig } from './settings.ts'

type PaymentsFeature = Feature & {
  /** The gateways of the service and of its resellers. */
  readonly gateways: Gateways & { own(): readonly OwnGateway[] }
  /** The ids of the service's own gateways. */
  readonly ownGatewayIds: readonly string[]
  readonly inbox: Inbox
  /** The callback URL of a gateway. */
  readonly callbackUrl: (gatewayId: string) => string
}

export const open = (
  core: ServerCore,
  dependencies: {
    readonly settings: PaymentConfig
    readonly resellers: ResellerGateways
    /** The base URL of the sandbox; null if it does not run. */
    readonly sandboxUrl: string | null
    /** The public URL of this service. */
    readonly publicUrl: () => string
  },
): PaymentsFeature => {
  const { pool, clock, hooks, monotonicMs } = core
  const { settings, resellers, sandboxUrl, publicUrl } = dependencies
  const callbackUrl = (gatewayId: string): string => `${publicUrl()}${callbackPath(gatewayId)}`
  const gateways = createGateways({
    config: settings,
    resellers,
    sandboxUrl,
    master: core.keys.master,
    callbackUrl,
    clock,
  })
  core.closing.add(gateways.close)
  const inbox = createInbox(pool, clock)
  return {
    gateways,
    ownGatewayIds: gatewayIdsOf(settings),
    inbox,
    callbackUrl,
    routes: callbackRoutes({ gateways, inbox, clock, hooks, monotonicMs }),
  }
}
