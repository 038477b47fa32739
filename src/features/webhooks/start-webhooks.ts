import { setTimeout as sleep } from 'node:timers/promises'
import { webhookDeliveries, webhookDue } from '../../../projections/groups.ts'
import { webhookQueue } from '../../../projections/webhook-queue.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { Projecting, ServerCore } from '../../platform/feature/core.ts'
import { createResolve, type TargetRules } from '../../platform/outgoing/target.ts'
import type { Progress } from '../../platform/projections/progress.ts'
import { createVault } from '../../platform/vault/seal.ts'
import type { RunningQueue } from '../../platform/work/queue.ts'
import type { QueueItem } from '../../platform/work/queue-table.ts'
import type { Workers } from '../../platform/work/queue-workers.ts'
import type { RunningWorker } from '../../platform/work/scheduler.ts'
import { exponentialBackoff } from '../../platform/work/standard-queue.ts'
import { worker } from '../../platform/work/worker.ts'
import { openCancellations, openStale } from './cancel-deliveries.ts'
import { startDeliveryWorker } from './deliver.ts'
import { createWebhooks } from './endpoint-service.ts'
import {
  type DueEvent,
  deleteOldMissed,
  dueColumnsSql,
  type EnqueueDependencies,
  type EnqueuerDependencies,
  enqueueTogether,
  firstRetryMs,
  leadEnqueuer,
  maxRetryMs,
  missedQueue,
  openDueEvents,
  staleSql,
  type WebhookRef,
} from './enqueue.ts'
import { announcedColumnsSql, isSubscribedSql, openFanOuts } from './fan-out.ts'
import { createWebhookMetrics } from './metrics.ts'
import { createSender } from './webhook-sender.ts'
import { deleteExpiredAllowances } from './webhook-service.ts'
import { createWebhookValues, deleteOldDeliveries, eraseSuperseded, retentionMs } from './webhook-vault.ts'

/**
 * Calls back when webhooks may be due in the read tables, and when the queue has changed. Returns the unsubscribe
 * function.
 */
export const onWebhooks = (
  { watch }: Pick<Progress, 'watch'>,
  { due, queued }: { readonly due: readonly (() => void)[]; readonly queued: readonly (() => void)[] },
): (() => void) => {
  const dueTables = watch(webhookDue.name, ['webhooks_due', 'webhooks_stale', 'webhook_announcements'])
  const queueTable = watch(webhookDeliveries.name, [webhookQueue.name])
  const unsubscribers = [...due.map(dueTables.onChange), ...queued.map(queueTable.onChange)]
  return () => {
    for (const unsubscribe of unsubscribers) unsubscribe()
  }
}

/**
 * Appends what the read tables list as due: events for subscribed endpoints, announcements to audiences, and
 * cancellations for disabled or removed endpoints. It stores only the progress of announcements, and all of its work is
 * idempotent. One process at a time runs it, to save the others the work.
 */
export const startEnqueuer = (dependencies: EnqueuerDependencies): ReturnType<typeof leadEnqueuer> =>
  leadEnqueuer(dependencies, [openDueEvents, openFanOuts, openCancellations, openStale])

export const webhookEnqueueRetry = worker({
  name: missedQueue.name,
  about: 'Writes webhooks to the log that could not be written before',
  trigger: { everyMs: 1_000, quietMs: 60_000 },
  per: 'process',
  process: 'server',
})

const missedSql = `
  select ${dueColumnsSql}, ${staleSql} as stale
    from read.webhooks_due e left join read.webhook_accounts a on a.account_id = e.account_id
   where not e.enqueued and e.endpoint_id = $1::text and e.event = $2::text and e.resource = $3::text
  union all
  select ${announcedColumnsSql}, ${staleSql} as stale
    from read.webhook_announcements n
    join read.webhook_subscriptions e on e.endpoint_id = $1::text and ${isSubscribedSql}
    left join read.webhook_accounts a on a.account_id = e.account_id
   where n.position = $4::bigint and n.event = $2::text and n.resource = $3::text`

/** Retries failed webhooks, each endpoint on its own, until they are in the log. */
const startEnqueueRetries = (
  dependencies: EnqueueDependencies & { readonly workers: Workers },
): RunningQueue => {
  const { workers, pool, clock } = dependencies
  return workers.start<QueueItem & WebhookRef>({
    worker: webhookEnqueueRetry,
    queue: missedQueue,
    atOnce: { total: 4, each: 1 },
    longestMs: 30_000,
    schedule: exponentialBackoff(firstRetryMs, maxRetryMs),
    work: async ({ endpoint_id, event, resource, position }) => {
      const { rows } = await pool.query<DueEvent>({
        name: 'webhooks-missed-due',
        text: missedSql,
        values: [endpoint_id, event, resource, position],
      })
      if (rows.length === 0) return { kind: 'done', result: 'nothing is due' }
      await enqueueTogether(dependencies, rows, clock())
      return { kind: 'done', result: 'enqueued' }
    },
  })
}

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
    due: [enqueuer.wake],
    queued: [worker.wake, enqueuer.wake],
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
