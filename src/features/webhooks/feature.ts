import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { checkTarget, createResolve, type TargetRules } from '../../platform/outgoing/target.ts'
import { createVault } from '../../platform/vault/seal.ts'
import { createWebhooks } from './endpoint-service.ts'
import { webhookRoutes } from './routes.ts'
import { startWebhooks } from './start-webhooks.ts'
import { webhookPages } from './webhook-pages.ts'
import { createWebhookService } from './webhook-service.ts'
import { createWebhookValues } from './webhook-vault.ts'

// For the list of workers (src/app/worker-list.ts).
export { webhookDelivery } from './deliver.ts'
export { webhookEnqueue } from './enqueue.ts'
export { webhookEnqueueRetry, webhookRetention } from './start-webhooks.ts'

export const open = (
  core: ServerCore,
  needs: {
    /** Whether webhooks may be sent to this machine and over plain http: for development. */
    readonly allowLoopback: boolean
    /** Whether manual deliveries are rate limited. */
    readonly limited: boolean
  },
): Feature => {
  const { pool, db, runner, log, clock, reads } = core
  const { progress } = core.projecting
  const rules: TargetRules = { allowLoopback: needs.allowLoopback }
  const resolve = createResolve()
  const values = createWebhookValues({ pool, vault: createVault(core.keys.master) })
  const webhookService = createWebhookService({
    webhooks: createWebhooks({ runner, values }),
    values,
    checkTarget: (url) => checkTarget(url, { resolve, rules }),
    progress,
    reads,
    log,
    clock,
    db,
    pool,
    limited: needs.limited,
  })
  return {
    routes: webhookRoutes({ webhookService, db }),
    pages: webhookPages({ webhookService, db, pool, log }),
    workers: [({ workers }) => startWebhooks(core, { rules, workers })],
  }
}
