import type pg from 'pg'
import type { Route } from '../../platform/http/route.ts'
import { deliveryRoutes } from './delivery-routes.ts'
import type { WebhookDesk } from './desk.ts'
import { endpointRoutes } from './endpoint-routes.ts'

/** Webhook endpoints and their deliveries. */
export const webhookRoutes = (deps: {
  readonly desk: WebhookDesk
  readonly pool: pg.Pool
}): readonly Route[] => [...endpointRoutes(deps), ...deliveryRoutes(deps)]
