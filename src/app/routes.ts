import { paidPageRoute } from '../features/deposits/feature.ts'
import { webhookDeclarations } from '../features/webhooks/index.ts'
import { documentationRoutes } from '../platform/api-docs/routes.ts'
import type { Feature } from '../platform/feature/feature.ts'
import { healthRoutes } from '../platform/http/health.ts'
import type { Route } from '../platform/http/route.ts'
import { consoleRoutes } from '../platform/ui/serve-pages.ts'
import type { Features, OpenedFeatures } from './features.ts'
import { consolePages, navigation } from './pages.ts'

const routesOf = (features: readonly Pick<Feature, 'routes'>[]): readonly Route[] =>
  features.flatMap(({ routes = [] }) => routes)

/** Every route of the API, in the order of the interface description. */
export const apiRoutes = (features: Features): readonly Route[] =>
  routesOf([
    features.accounts,
    features.wallet,
    features.catalogue,
    features.orders,
    features.plans,
    features.lines,
    features.trafficBudgets,
    features.exits,
    features.proxies,
    features.webhooks,
    features.resellers,
    { routes: features.scrapers.batchRoutes },
    features.notices,
    features.finance,
    { routes: features.scrapers.financeRoutes },
    features.audit,
    features.subscriptions,
    features.deposits,
    features.scrapers,
    features.freeList,
    features.freeTools,
  ])

/** Every route of the server: the API, callbacks of payment providers, documentation, console, health. */
export const serverRoutes = (
  { features, probes }: Pick<OpenedFeatures, 'features' | 'probes'>,
  needs: {
    readonly console: Omit<
      Parameters<typeof consoleRoutes>[1],
      keyof OpenedFeatures['features']['signIn'] | 'navigation'
    >
    readonly health: Parameters<typeof healthRoutes>[1]
  },
): readonly Route[] => {
  const routes = apiRoutes(features)
  return [
    ...routes,
    ...routesOf([features.payments]),
    paidPageRoute,
    ...consoleRoutes(consolePages(features), { ...features.signIn, ...needs.console, navigation }),
    ...documentationRoutes(routes, {
      webhooks: webhookDeclarations,
      operations: features.scrapers.operations,
      publicUrl: needs.console.site,
    }),
    ...healthRoutes(probes, needs.health),
  ]
}
