import type pg from 'pg'
import type { Logger } from 'pino'
import { createIpData } from '../../freelist/ip-data/ip-data.ts'
import { installedFolders } from '../../freelist/ip-data/packages.ts'
import { createLiveList } from '../../freelist/list/live-list.ts'
import { proxyListRoutes } from '../../freelist/list/routes.ts'
import { createLookUp } from '../../freelist/lookup/lookup.ts'
import { ipLookupRoutes } from '../../freelist/lookup/routes.ts'
import { isSandboxAddress } from '../../freelist/record/candidate.ts'
import { readAddress, readLive } from '../../freelist/record/read.ts'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import { createRateLimiter, type Rate } from '../../platform/http/rate-limit.ts'
import type { Route, RouteLimit } from '../../platform/http/route.ts'
import { withSandboxPlaces } from './sandbox-ip-data.ts'
import type { FreeToolConfig } from './tool-settings.ts'

/** The routes of the tools that need no key. */
export const freeToolRoutes = (deps: {
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly logger: Logger
  /** Null: no limits. */
  readonly rates: FreeToolConfig | null
  readonly sandbox: boolean
}): readonly Route[] => {
  const { pool, clock, monotonicMs, logger, rates, sandbox } = deps
  const limitOf = (rate: Rate | undefined): RouteLimit | null => {
    if (rate === undefined) return null
    const limiter = createRateLimiter(rate, monotonicMs)
    return { per: 'address', take: (subject) => limiter.take(subject) }
  }
  const installed = createIpData(installedFolders())
  const data = sandbox ? withSandboxPlaces(installed) : installed
  const list = createLiveList({
    readLive: (nowMs) => readLive(pool, nowMs),
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
  return [
    ...proxyListRoutes({ list, limit: limitOf(rates?.list) }),
    ...ipLookupRoutes({ lookUp, limit: limitOf(rates?.lookup) }),
  ]
}
