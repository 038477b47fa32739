import type { Registry } from 'prom-client'
import type { LogFeed } from '../../projections/engine/feed.ts'
import { hot } from '../../projections/groups.ts'
import type { MonotonicClock } from '../clock.ts'
import type { Core } from '../core.ts'
import type { AccountId } from '../ids.ts'
import { createResolve, type TargetRules } from '../outgoing/target.ts'
import { type Poller, startPoller } from '../poller.ts'
import { createVault } from '../vault/seal.ts'
import { forgetAllowances } from './allowance.ts'
import { createWebhookMetrics } from './metrics.ts'
import type { QueueProgress } from './reactor/progress.ts'
import { startWebhookReactor } from './reactor/run.ts'
import { eraseSuperseded, forgetOldDeliveries } from './retention.ts'
import { createSender } from './sender.ts'
import { createWebhooks } from './service.ts'
import { createWebhookValues } from './vault.ts'
import { startDeliveryWorker } from './worker/worker.ts'

const retentionEveryMs = 60_000

/** Starts the webhook reactor, a delivery worker, and what forgets old deliveries, in one process. */
export const startWebhooks = (
  core: Core,
  parts: {
    readonly feed: LogFeed
    readonly queue: QueueProgress
    readonly rules: TargetRules
    readonly monotonicMs: MonotonicClock
    readonly registry: Registry
  },
): Pick<Poller, 'stop'> => {
  const { pool, log, clock, logger, runner } = core
  const values = createWebhookValues({ pool, vault: createVault(core.keys.master) })
  const webhooks = createWebhooks({ runner, values })
  const sender = createSender({ resolve: createResolve(), rules: parts.rules })
  const worker = startDeliveryWorker({
    pool,
    log,
    values,
    sender,
    clock,
    monotonicMs: parts.monotonicMs,
    random: Math.random,
    logger,
    groups: [hot.name],
    onAttempt: createWebhookMetrics(parts.registry, { ...core, monotonicMs: parts.monotonicMs }).onAttempt,
    onDead: ({ account_id, endpoint_id, delivery_id }, reason) =>
      webhooks.disable({ accountId: account_id as AccountId, endpointId: endpoint_id }, reason, {
        actor: { kind: 'system', name: 'webhooks' },
        correlationId: delivery_id,
      }),
  })
  const reactor = startWebhookReactor({
    pool,
    log,
    feed: parts.feed,
    clock,
    logger,
    progress: parts.queue,
    onQueued: worker.wake,
  })
  const retention = startPoller({
    name: 'webhook-retention',
    intervalMs: retentionEveryMs,
    work: async () => {
      await forgetOldDeliveries(pool, clock())
      await eraseSuperseded(pool, clock())
      await forgetAllowances(pool, clock())
    },
    logger,
  })
  return {
    stop: async () => {
      await retention.stop()
      await reactor.stop()
      await worker.stop()
      await sender.close()
    },
  }
}
