import { setTimeout as sleep } from 'node:timers/promises'
import { webhookDeliveries, webhookDue } from '../../../projections/groups.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { Projecting, ServerCore } from '../../platform/feature/core.ts'
import { createResolve, type TargetRules } from '../../platform/outgoing/target.ts'
import { createVault } from '../../platform/vault/seal.ts'
import type { Workers } from '../../platform/work/queue-workers.ts'
import type { RunningWorker } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { deleteExpiredAllowances } from './allowance.ts'
import { startDeliveryWorker } from './delivery-worker.ts'
import { createWebhooks } from './endpoint-service.ts'
import { onWebhooks, startEnqueuer } from './enqueue-worker.ts'
import { createWebhookMetrics } from './metrics.ts'
import { deleteOldMissed } from './missed-webhooks.ts'
import { startEnqueueRetries } from './retry-enqueue.ts'
import { createSender } from './webhook-sender.ts'
import { createWebhookValues, deleteOldDeliveries, eraseSuperseded, retentionMs } from './webhook-vault.ts'

export const webhookRetention = worker({
  name: 'webhook-retention',
  about: 'Deletes old deliveries, replaced secrets and expired allowances',
  trigger: { everyMs: 60_000 },
  per: 'process',
  process: 'server',
})

const waitMs = 500

/**
 * Resolves once the read tables list what is due and the queue contains all outcomes up to the log's current head.
 * Until then, a queue that is filled from an older position shows sent deliveries as pending. False when stopped
 * before.
 */
const filled = async (
  { log, logger }: ServerCore,
  { progress }: Pick<Projecting, 'progress'>,
  stopping: AbortSignal,
): Promise<boolean> => {
  let head: number | null = null
  while (!stopping.aborted)
    try {
      head ??= await log.head()
      if (
        (await progress.reached(webhookDue.name, 0, waitMs)) &&
        (await progress.reached(webhookDeliveries.name, head, waitMs))
      )
        return true
    } catch (error) {
      logger.error({ err: error, reactor: 'webhooks' }, 'webhooks cannot start yet')
      await sleep(waitMs, undefined, { signal: stopping }).catch(() => undefined)
    }
  return false
}

type Parts = {
  readonly rules: TargetRules
  readonly workers: Workers
}

/** Starts the enqueuer, a delivery worker and the deletion of old deliveries in one process. */
const start = (core: ServerCore, parts: Parts): Pick<RunningWorker, 'stop'> => {
  const { scheduler, pool, log, clock, logger, runner, projecting, monotonicMs } = core
  const values = createWebhookValues({ pool, vault: createVault(core.keys.master) })
  const webhooks = createWebhooks({ runner, values })
  const sender = createSender({ resolve: createResolve(), rules: parts.rules })
  const worker = startDeliveryWorker({
    workers: parts.workers,
    pool,
    log,
    values,
    sender,
    clock,
    monotonicMs,
    random: Math.random,
    logger,
    onAttempt: createWebhookMetrics(core.registry, core).onAttempt,
    onDead: ({ account_id, endpoint_id, delivery_id }, reason) =>
      webhooks.disable({ accountId: account_id as AccountId, endpointId: endpoint_id }, reason, {
        actor: { kind: 'system', name: 'webhooks' },
        correlationId: delivery_id,
      }),
  })
  const enqueuer = startEnqueuer({ scheduler, pool, log, clock, logger })
  const retries = startEnqueueRetries({ workers: parts.workers, pool, log, clock, logger })
  const unsubscribe = onWebhooks(projecting.progress, {
    due: enqueuer.wake,
    queued: () => {
      worker.wake()
      enqueuer.wake()
    },
  })
  const retention = scheduler.start(webhookRetention, async () => {
    await deleteOldDeliveries(pool, clock())
    await eraseSuperseded(pool, clock())
    await deleteExpiredAllowances(pool, clock())
    await deleteOldMissed(pool, clock() - retentionMs)
  })
  return {
    stop: async () => {
      await retention.stop()
      unsubscribe()
      await enqueuer.stop()
      await retries.stop()
      await worker.stop()
      await sender.close()
    },
  }
}

/** Starts the webhooks of one process once they may be sent. */
export const startWebhooks = (core: ServerCore, parts: Parts): Pick<RunningWorker, 'stop'> => {
  const stopping = new AbortController()
  const started = filled(core, core.projecting, stopping.signal).then((ready) =>
    ready ? start(core, parts) : null,
  )
  return {
    stop: async () => {
      stopping.abort()
      await (await started)?.stop()
    },
  }
}
