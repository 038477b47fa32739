import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import {
  createRateLimiter,
  createRouteLimit,
  type Rate,
  type RouteLimit,
} from '../../platform/http/rate-limiter.ts'
import { createResolve } from '../../platform/outgoing/target.ts'
import {
  type IpData,
  isSandboxAddress,
  type LiveList,
  type OneOffChecks,
  readAddress,
} from '../free-list/index.ts'
import { createCensusReader } from './census.ts'
import { createCheckProxies, createCheckSlots } from './check-proxies.ts'
import { freeProxyCheckRoutes } from './check-routes.ts'
import { createLookUp, ipLookupRoutes } from './ip-lookup.ts'
import { mcpRoutes } from './mcp-routes.ts'
import { networkPages } from './network-pages.ts'
import { readPage, readRanges } from './network-reads.ts'
import { networkRoutes } from './network-routes.ts'
import { createNetworks } from './rank-networks.ts'
import { ipLookupPages, proxyCheckerPages } from './tool-pages.ts'

/** Concurrent checks on request. Each has up to five connections, and a caller can run two orders of twenty. */
const maxConcurrentChecks = { total: 400, perCaller: 40 }

export const open = (
  core: ServerCore,
  needs: {
    readonly rates: { readonly lookup: Rate; readonly check: Rate; readonly list: Rate }
    readonly limited: boolean
    readonly sandbox: boolean
    readonly publicUrl: () => string
    /** Version of this program. */
    readonly version: string
    readonly data: IpData
    readonly list: LiveList
    /** Rate limit of the list for one address. */
    readonly listLimit: RouteLimit | null
    readonly checks: OneOffChecks
  },
): Feature => {
  const { pool, clock, monotonicMs, logger } = core
  const { rates, limited, sandbox, publicUrl, version, data, list, listLimit, checks } = needs
  const lookupLimit = createRouteLimit('address', rates.lookup, monotonicMs)
  const lookUp = createLookUp({
    data,
    list,
    readAddress: (ip, nowMs) => readAddress(pool, ip, nowMs),
    isSandboxAddress: (ip) => sandbox && isSandboxAddress(ip),
    clock,
  })
  const checkProxies = createCheckProxies({
    ...checks,
    resolve: createResolve(),
    data,
    slots: createCheckSlots(maxConcurrentChecks),
    limiter: limited ? { ...createRateLimiter(rates.check, monotonicMs), burst: rates.check.burst } : null,
    clock,
  })
  const limits = { list: listLimit, lookup: limited ? lookupLimit : null }
  const census = createCensusReader({
    readPage: (after, rows) => readPage(pool, after, rows),
    data,
    clock,
    monotonicMs,
    logger,
  })
  core.closing.add(census.stop)
  const networks = createNetworks({
    list,
    census,
    data,
    readRanges: (ranges, most) => readRanges(pool, ranges, most),
    monotonicMs,
  })
  return {
    pages: [
      ...networkPages({ networks, note: data.note }),
      ...proxyCheckerPages({ checkProxies }),
      ...ipLookupPages({ lookUp, lookupLimit: limits.lookup }),
    ],
    routes: [
      ...ipLookupRoutes({ lookUp, limit: lookupLimit }),
      ...freeProxyCheckRoutes({ checkProxies }),
      ...networkRoutes({
        networks,
        note: data.note,
        limit: createRouteLimit('address', rates.list, monotonicMs),
      }),
      ...mcpRoutes({ list, lookUp, checkProxies, limits, publicUrl, version, logger }),
    ],
  }
}
