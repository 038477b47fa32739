import type { Kysely } from 'kysely'
import type pg from 'pg'
import type { ReadDatabase } from '../../../projections/database.ts'
import type { Progress } from '../../../projections/engine/progress.ts'
import type { Reads } from '../../../projections/engine/reads.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Route } from '../../platform/http/route.ts'
import { createAllowance } from './allowance.ts'
import { deliveryRoutes } from './delivery-routes.ts'
import { createEndpointReads } from './endpoint-reads.ts'
import { endpointRoutes } from './endpoint-routes.ts'
import { createRedeliverSince } from './redeliver-since.ts'
import type { Webhooks } from './service.ts'
import type { WebhookValues } from './vault.ts'

/** Webhook endpoints and their deliveries. */
export const webhookRoutes = (deps: {
  readonly webhooks: Webhooks
  readonly values: WebhookValues
  /** @throws TargetRefused */
  readonly checkTarget: (url: string) => Promise<URL>
  readonly progress: Pick<Progress, 'reached'>
  readonly reads: Pick<Reads, 'settled'>
  readonly log: EventLog
  readonly clock: Clock
  readonly db: Kysely<ReadDatabase>
  readonly pool: pg.Pool
  /** Whether what is asked for by hand is limited. */
  readonly limited: boolean
}): readonly Route[] => {
  const endpoints = createEndpointReads(deps)
  const takeAllowance = createAllowance(deps)
  return [
    ...endpointRoutes({ ...deps, endpoints, takeAllowance }),
    ...deliveryRoutes({ ...deps, endpoints, takeAllowance, redeliverSince: createRedeliverSince(deps) }),
  ]
}
