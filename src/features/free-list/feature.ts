import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { createRouteLimit, type Rate, type RouteLimit } from '../../platform/http/rate-limiter.ts'
import { readEndpoints, readLiveMarks } from './endpoint-reads.ts'
import { freeProxyPages } from './free-proxy-pages.ts'
import { createIpData, type IpData } from './ip-data.ts'
import { installedFolders } from './ip-tables.ts'
import { proxyListRoutes } from './list-routes.ts'
import { createLiveList, type LiveList } from './live-list.ts'
import { type OneOffChecks, openOneOffChecks } from './open-checking.ts'
import { type CheckingConfig, isSandboxed } from './settings.ts'

type FreeListFeature = Feature & {
  readonly list: LiveList
  readonly data: IpData
  /** Whether only sandbox proxies are checked. */
  readonly sandbox: boolean
  /** Checks of proxies on request. */
  readonly checks: OneOffChecks
  /** Rate limit of the list for one address; null: limits are off. */
  readonly limit: RouteLimit | null
}

export const open = (
  core: ServerCore,
  needs: {
    readonly settings: CheckingConfig
    readonly rate: Rate
    readonly limited: boolean
    /** Adds the addresses of the sandbox, which are in no IP database. */
    readonly withSandbox: (data: IpData) => IpData
  },
): FreeListFeature => {
  const { pool, clock, monotonicMs, logger } = core
  const sandbox = isSandboxed(needs.settings)
  const installed = createIpData(installedFolders())
  const data = sandbox ? needs.withSandbox(installed) : installed
  const checks = openOneOffChecks({ ...core, config: needs.settings }, core.closing)
  const limit = createRouteLimit('address', needs.rate, monotonicMs)
  const list = createLiveList({
    reader: {
      versions: () => readLiveMarks(pool),
      endpoints: (socketAddresses, nowMs) => readEndpoints(pool, socketAddresses, nowMs),
    },
    data,
    clock,
    monotonicMs,
    logger,
  })
  const routes = proxyListRoutes({ list, limit })
  const pages = freeProxyPages({ liveList: list, note: data.note })
  return { list, data, sandbox, checks, limit: needs.limited ? limit : null, routes, pages }
}
