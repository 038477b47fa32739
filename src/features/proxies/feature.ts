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
import { createFindOwnProxy, createProxyRecords } from './find-proxy.ts'
import { addressListPages, addressPages, replaceAddressPages } from './proxy-pages.ts'
import type { GatewayPlace } from './proxy-record.ts'
import { createOwnRentals } from './rental-owners.ts'
import { createReplaceAddress } from './replace-address.ts'
import { proxyRoutes } from './routes.ts'

export const open = (
  core: ServerCore,
  dependencies: {
    /** The address that clients connect to, and the target of proxy checks. */
    readonly gateway: GatewayPlace & { readonly checkUrl: URL | null }
    readonly sandbox: boolean
    readonly publicUrl: () => string
    readonly placeOrder: PlaceOrder
    readonly catalog: { current(): Catalog }
    readonly termsOf: TermsOf
    readonly refreshTerms: RefreshTerms
    readonly customers: Customers
  },
): Feature => {
  const { pool, clock, reads, runner, monotonicMs } = core
  const { gateway, sandbox, publicUrl, catalog } = dependencies
  const { db } = core
  const credentials = createCredentials(core.keys.master)
  const ownRentals = createOwnRentals(core)
  const extending = createRentalExtension({ ...dependencies, reads, db, ownRentals, clock })
  const replace = createReplaceAddress({ runner, reads, db, ownRentals, pool, clock })
  const findOwnProxy = createFindOwnProxy({ reads, db, ownRentals, clock })
  const proxyRecords = createProxyRecords({ pool, ownRentals, credentials, publicUrl, gateway, clock })
  const checks = createProxyChecks({
    reads,
    db,
    ownRentals,
    credentials,
    gateway,
    sandbox,
    clock,
    monotonicMs,
  })
  return {
    routes: [
      ...proxyRoutes({
        log: core.log,
        extending,
        catalog,
        reads,
        db,
        ownRentals,
        pool,
        credentials,
        gateway,
        publicUrl,
        clock,
      }),
      ...proxyRotateRoutes({ pool, credentials, clock }),
      ...proxyReplaceRoutes({ replace, pool, ownRentals, credentials, gateway, publicUrl, clock }),
      ...proxyCheckRoutes({ checks }),
    ],
    pages: [
      ...addressListPages({ db, reads, catalog, proxyRecords }),
      ...addressPages({ findOwnProxy, proxyRecords, catalog, pool, proxyChecks: checks, clock }),
      ...replaceAddressPages({ findOwnProxy, proxyRecords, replaceAddress: replace }),
      ...extendPages({ db, reads, catalog, findOwnProxy, extending }),
    ],
  }
}
