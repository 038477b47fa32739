import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type pg from 'pg'
import type { Logger } from 'pino'
import { isSandboxAddress } from '../features/free-list/endpoint-candidates.ts'
import { readAddress, readEndpoints, readLiveMarks } from '../features/free-list/endpoint-reads.ts'
import { createIpData, type IpData } from '../features/free-list/ip-data.ts'
import { installedFolders } from '../features/free-list/ip-tables.ts'
import { proxyListRoutes } from '../features/free-list/list-routes.ts'
import { createLiveList, type LiveList } from '../features/free-list/live-list.ts'
import type { OneOffChecks } from '../features/free-list/open-checking.ts'
import type { FreeToolConfig } from '../features/free-list/settings.ts'
import { createCensusReader } from '../features/free-tools/census.ts'
import {
  type CheckProxies,
  createCheckProxies,
  createCheckSlots,
} from '../features/free-tools/check-proxies.ts'
import { freeProxyCheckRoutes } from '../features/free-tools/check-routes.ts'
import { createLookUp, ipLookupRoutes, type LookUp } from '../features/free-tools/ip-lookup.ts'
import { mcpRoutes } from '../features/free-tools/mcp-routes.ts'
import { readPage, readRanges } from '../features/free-tools/network-reads.ts'
import { networkRoutes } from '../features/free-tools/network-routes.ts'
import { createNetworks, type Networks } from '../features/free-tools/rank-networks.ts'
import type { Clock, MonotonicClock } from '../kernel/clock.ts'
import { createRateLimiter, type Rate } from '../platform/http/rate-limit.ts'
import type { Route, RouteLimit } from '../platform/http/route.ts'
import { createResolve } from '../platform/outgoing/target.ts'
import { sandboxLocationOf, sandboxRangesOf } from '../sandbox/exit-locations.ts'

/** The version of this program. */
export const version: string = JSON.parse(
  readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8'),
).version

/** The data about addresses, with those of the sandbox in it: no package knows a loopback address. */
export const withSandboxLocations = (data: IpData): IpData => {
  const orgOf = (ip: string): string | null => sandboxLocationOf(ip)?.org ?? null
  return {
    note: data.note,
    of: async (address) => {
      const place = sandboxLocationOf(address)
      if (place === null) return data.of(address)
      const { country, state, city, asn, org } = place
      return {
        countryCode: country,
        state,
        city,
        latitude: null,
        longitude: null,
        timeZone: null,
        asn,
        asnOrg: org,
      }
    },
    networkOf: async (address) => {
      const place = sandboxLocationOf(address)
      return place === null ? data.networkOf(address) : { asn: place.asn, org: place.org }
    },
    announced: async (asn) => {
      const ranges = sandboxRangesOf(asn)
      const real = await data.announced(asn)
      const [some] = ranges
      if (some === undefined) return real
      return {
        asn,
        org: orgOf(some.first) ?? real?.org ?? `AS${asn}`,
        ranges: [...ranges, ...(real?.ranges ?? [])],
      }
    },
  }
}

/** Checks for people at once: each has up to five connections, and a caller has room for two orders of twenty. */
const checksAtOnce = { total: 400, perCaller: 40 }

/** The tools themselves, for pages. */
export type FreeTools = {
  readonly list: LiveList
  readonly networks: Networks
  /** What answers lack for want of data; null: nothing. */
  readonly note: string | null
  readonly lookUp: LookUp
  readonly lookupLimit: RouteLimit | null
  readonly checkProxies: CheckProxies
}

/** Opens the tools that need no key. */
export const openFreeTools = (deps: {
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly logger: Logger
  /** Null: no limits. */
  readonly rates: FreeToolConfig | null
  readonly sandbox: boolean
  readonly checks: OneOffChecks
  readonly publicUrl: () => string
}): { readonly routes: readonly Route[]; readonly tools: FreeTools; stop(): Promise<void> } => {
  const { pool, clock, monotonicMs, logger, rates, sandbox, checks, publicUrl } = deps
  const limitOf = (rate: Rate | undefined): RouteLimit | null => {
    if (rate === undefined) return null
    const limiter = createRateLimiter(rate, monotonicMs)
    return { per: 'address', take: (subject) => limiter.take(subject) }
  }
  const installed = createIpData(installedFolders())
  const data = sandbox ? withSandboxLocations(installed) : installed
  const list = createLiveList({
    reader: {
      versions: () => readLiveMarks(pool),
      endpoints: (places, nowMs) => readEndpoints(pool, places, nowMs),
    },
    data,
    clock,
    monotonicMs,
    logger,
  })
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
    slots: createCheckSlots(checksAtOnce),
    limiter:
      rates === null ? null : { ...createRateLimiter(rates.check, monotonicMs), burst: rates.check.burst },
    clock,
  })
  const limits = { list: limitOf(rates?.list), lookup: limitOf(rates?.lookup) }
  const census = createCensusReader({
    readPage: (after, rows) => readPage(pool, after, rows),
    data,
    clock,
    monotonicMs,
    logger,
  })
  const networks = createNetworks({
    list,
    census,
    data,
    readRanges: (ranges, most) => readRanges(pool, ranges, most),
    monotonicMs,
  })
  return {
    routes: [
      ...proxyListRoutes({ list, limit: limits.list }),
      ...ipLookupRoutes({ lookUp, limit: limits.lookup }),
      ...freeProxyCheckRoutes({ checkProxies }),
      ...networkRoutes({ networks, note: data.note, limit: limitOf(rates?.list) }),
      ...mcpRoutes({ list, lookUp, checkProxies, limits, publicUrl, version, logger }),
    ],
    tools: { list, networks, note: data.note, lookUp, lookupLimit: limits.lookup, checkProxies },
    stop: census.stop,
  }
}
