import type { CheckProxies } from '../../freelist/check/check-proxies.ts'
import type { LiveList } from '../../freelist/list/live-list.ts'
import type { LookUp } from '../../freelist/lookup/lookup.ts'
import type { Networks } from '../../freelist/networks/networks.ts'
import type { LiveStock } from '../../market/catalog/availability.ts'
import type { Catalog } from '../../market/catalog/catalog.ts'
import type { RouteLimit } from '../../platform/http/route.ts'
import type { ConsolePage } from '../pages/page.ts'
import { freeProxyPages } from './free-proxies.ts'
import { type HomeDeps, homePages } from './home.ts'
import { ipLookupPages } from './ip-lookup.ts'
import { networkPages } from './networks.ts'
import { pricePages } from './prices.ts'
import { proxyCheckerPages } from './proxy-checker.ts'
import { type StatusDeps, statusPages } from './status.ts'

/** What the pages for everybody read from: the free tools and the catalogue, as the API has them. */
export type OpenPagesDeps = HomeDeps & {
  readonly status: StatusDeps
  readonly catalog: { current(): Catalog }
  readonly stock: LiveStock
  readonly list: LiveList
  readonly networks: Networks
  /** What answers of the tools lack for want of data; null: nothing. */
  readonly note: string | null
  readonly lookUp: LookUp
  readonly lookupLimit: RouteLimit | null
  readonly checkProxies: CheckProxies
  readonly checksScript: string
}

/** The pages that everybody may see, signed in or not, and that search engines may list. */
export const openPages = (deps: OpenPagesDeps): readonly ConsolePage[] => [
  ...homePages(deps),
  ...pricePages(deps),
  ...freeProxyPages(deps),
  ...networkPages(deps),
  ...proxyCheckerPages(deps),
  ...ipLookupPages({ lookUp: deps.lookUp, limit: deps.lookupLimit }),
  ...statusPages(deps.status),
]
