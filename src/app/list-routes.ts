import { Registry } from 'prom-client'
import type { Clock } from '../kernel/clock.ts'
import { crashHooks } from '../kernel/crash-points.ts'
import { closeAfter } from '../kernel/resource-scope.ts'
import { operatorTokenAccess } from '../platform/http/auth.ts'
import { createLogger } from '../platform/http/logging.ts'
import type { Access, Route } from '../platform/http/route.ts'
import type { Config } from './config.ts'
import { openFeatures } from './features.ts'
import { openCore } from './open-core.ts'
import { openServerCore } from './open-server-core.ts'
import { enabledGroups, openProjections } from './projections.ts'
import { serverRoutes } from './routes.ts'
import { version } from './version.ts'

export type ListedRoute = Pick<Route, 'method' | 'path' | 'summary'> & {
  readonly access: Access
  /** Null: the route is not in the interface description. */
  readonly operation: string | null
}

/** The routes of a server with these settings. Opens its features and starts nothing. */
export const listRoutes = (config: Config, systemClock: Clock): Promise<readonly ListedRoute[]> =>
  closeAfter(async (closing) => {
    const hooks = crashHooks(null, () => undefined)
    const opened = await openCore({
      config,
      role: 'command',
      systemClock,
      logger: createLogger('error', process.stderr),
      hooks,
    })
    closing.add(opened.close)
    const groups = enabledGroups(config)
    const { projecting } = openProjections(opened, { groups, hooks })
    closing.add(projecting.stop)
    const registry = new Registry()
    const monotonicMs = () => performance.now()
    const core = openServerCore(opened, { projecting, monotonicMs, registry, hooks, closing })
    const origin = () => config.console.url ?? `http://localhost:${config.port}`
    const publicUrl = () => config.payments.publicUrl ?? `http://${config.host}:${config.port}`
    const features = openFeatures(core, config, {
      sandbox: { url: null, smtpUrl: null, scrapersUrl: null },
      publicUrl,
      origin,
      version,
      probes: () => [],
      groups,
      settings: () => [],
    })
    const console = { assets: core.assets, clock: core.clock, origin, site: publicUrl, name: 'Farebox' }
    const health = { registry, mayRead: operatorTokenAccess(config.metricsToken) }
    return serverRoutes(features, { console, health }).map(
      ({ method, path, access, summary, operationId, hidden }) => ({
        method,
        path,
        access,
        summary,
        operation: hidden === true ? null : operationId,
      }),
    )
  })
