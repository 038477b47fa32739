import { paidPageRoute } from '../features/deposits/index.ts'
import { webhookDeclarations } from '../features/webhooks/index.ts'
import { documentationRoutes } from '../platform/api-docs/routes.ts'
import type { Feature } from '../platform/feature/feature.ts'
import type { Route } from '../platform/http/route.ts'
import type { Features } from './features.ts'

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

/** Every route of the server but those of the console and of health. */
export const allRoutes = (features: Features): readonly Route[] => {
  const routes = apiRoutes(features)
  return [
    ...routes,
    ...routesOf([features.payments]),
    paidPageRoute,
    ...documentationRoutes(routes, webhookDeclarations, features.scrapers.operations),
  ]
}
