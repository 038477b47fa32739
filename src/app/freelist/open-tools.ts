import type pg from 'pg'
import type { Logger } from 'pino'
import { type CheckProxies, createCheckProxies } from '../../freelist/check/check-proxies.ts'
import { freeProxyCheckRoutes } from '../../freelist/check/routes.ts'
import { createSeats } from '../../freelist/check/seats.ts'
import { createIpData } from '../../freelist/ip-data/ip-data.ts'
import { installedFolders } from '../../freelist/ip-data/packages.ts'
import { createLiveList, type LiveList } from '../../freelist/list/live-list.ts'
import { proxyListRoutes } from '../../freelist/list/routes.ts'
import { createLookUp, type LookUp } from '../../freelist/lookup/lookup.ts'
import { ipLookupRoutes } from '../../freelist/lookup/routes.ts'
import { mcpRoutes } from '../../freelist/mcp/routes.ts'
import { createCensusTaker } from '../../freelist/networks/census.ts'
import { createNetworks, type Networks } from '../../freelist/networks/networks.ts'
import { readPage, readRanges } from '../../freelist/networks/read.ts'
import { networkRoutes } from '../../freelist/networks/routes.ts'
import { isSandboxAddress } from '../../freelist/record/candidate.ts'
import { readAddress, readLiveMarks, readPlaces } from '../../freelist/record/read.ts'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import { createRateLimiter, type Rate } from '../../platform/http/rate-limit.ts'
import type { Route, RouteLimit } from '../../platform/http/route.ts'
import { createResolve } from '../../platform/outgoing/target.ts'
import { version } from '../version.ts'
import type { OneOffChecks } from './open-checking.ts'
import { withSandboxPlaces } from './sandbox-ip-data.ts'
import type { FreeToolConfig } from './tool-settings.ts'

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
  const data = sandbox ? withSandboxPlaces(installed) : installed
  const list = createLiveList({
    reader: {
      marks: () => readLiveMarks(pool),
      places: (places, nowMs) => readPlaces(pool, places, nowMs),
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
    seats: createSeats(checksAtOnce),
    limiter:
      rates === null ? null : { ...createRateLimiter(rates.check, monotonicMs), burst: rates.check.burst },
    clock,
  })
  const limits = { list: limitOf(rates?.list), lookup: limitOf(rates?.lookup) }
  const census = createCensusTaker({
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
