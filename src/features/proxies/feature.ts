import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { RefreshTerms, TermsOf } from '../../domain/catalog/pricing.ts'
import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { createCredentials } from '../../platform/vault/credentials.ts'
import type { Customers } from '../accounts/index.ts'
import type { PlaceOrder } from '../orders/index.ts'
import { proxyCheckRoutes, proxyReplaceRoutes, proxyRotateRoutes } from './action-routes.ts'
import { createProxyChecks } from './check-proxy.ts'
import { extendPages } from './extend-pages.ts'
import { createRentalExtension } from './extend-rentals.ts'
import { createFindProxy, createProxyRecords, createRentalVerifier } from './own-rentals.ts'
import { addressPages } from './proxy-pages.ts'
import type { GatewayAddress } from './proxy-record.ts'
import { createReplaceAddress } from './replace-address.ts'
import { proxyRoutes } from './routes.ts'

export const open = (
  core: ServerCore,
  dependencies: {
    /** The address that clients connect to, and the target of proxy checks. */
    readonly gateway: GatewayAddress & { readonly checkUrl: URL | null }
    readonly sandbox: boolean
    readonly publicUrl: () => string
    readonly placeOrder: PlaceOrder
    readonly catalog: { current(): Catalog }
    readonly termsOf: TermsOf
    readonly refreshTerms: RefreshTerms
    readonly customers: Customers
  },
): Feature => {
  const { pool, db, clock, reads, runner, monotonicMs } = core
  const { gateway, sandbox, publicUrl, catalog } = dependencies
  const credentials = createCredentials(core.keys.master)
  const verifyRentals = createRentalVerifier(core)
  const services = { db, reads, verifyRentals, pool, credentials, gateway, publicUrl, catalog, clock }
  const extending = createRentalExtension({ ...dependencies, ...services })
  const replace = createReplaceAddress({ ...services, runner })
  const findOwnProxy = createFindProxy(services)
  const proxyRecords = createProxyRecords(services)
  const checks = createProxyChecks({ ...services, sandbox, monotonicMs })
  return {
    routes: [
      ...proxyRoutes({ ...services, log: core.log, extending }),
      ...proxyRotateRoutes(services),
      ...proxyReplaceRoutes({ ...services, replace }),
      ...proxyCheckRoutes({ checks }),
    ],
    pages: [
      ...addressPages({
        db,
        reads,
        catalog,
        pool,
        clock,
        findOwnProxy,
        proxyRecords,
        proxyChecks: checks,
        replaceAddress: replace,
      }),
      ...extendPages({ db, reads, catalog, findOwnProxy, extending }),
    ],
  }
}
