import type { Registry } from 'prom-client'
import type { LogFeed } from '../../projections/engine/feed.ts'
import { hot } from '../../projections/groups.ts'
import type { MonotonicClock } from '../kernel/clock.ts'
import type { AccountId } from '../kernel/ids.ts'
import { forgetAllowances } from '../outbound/webhooks/allowance.ts'
import { createWebhookMetrics } from '../outbound/webhooks/metrics.ts'
import type { QueueProgress } from '../outbound/webhooks/reactor/progress.ts'
import { startWebhookReactor } from '../outbound/webhooks/reactor/run.ts'
import { eraseSuperseded, forgetOldDeliveries } from '../outbound/webhooks/retention.ts'
import { createSender } from '../outbound/webhooks/sender.ts'
import { createWebhooks } from '../outbound/webhooks/service.ts'
import { createWebhookValues } from '../outbound/webhooks/vault.ts'
import { startDeliveryWorker } from '../outbound/webhooks/worker/worker.ts'
import { createResolve, type TargetRules } from '../platform/outgoing/target.ts'
import { createVault } from '../platform/vault/seal.ts'
import { type Poller, startPoller } from '../platform/work/poller.ts'
import type { Core } from './core.ts'

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
    onDead: ({ account_id, endpoint_id, delivery_id }, why) =>
      webhooks.disable({ accountId: account_id as AccountId, endpointId: endpoint_id }, why, {
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
