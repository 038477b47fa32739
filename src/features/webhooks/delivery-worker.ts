import type pg from 'pg'
import type { Logger } from 'pino'
import type { DisablingReason } from '../../domain/webhooks/events.ts'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { OwnerLease, QueueLimits, RunningQueue } from '../../platform/work/queue.ts'
import type { Workers } from '../../platform/work/queue-workers.ts'
import { worker } from '../../platform/work/worker.ts'
import {
  canceledResult,
  createAttempt,
  type EndpointHealth,
  endpointHealthAfter,
  endpointPauseMs,
  failingTooLongSince,
  initialEndpointHealth,
  isVerifiedUrl,
  postponedResult,
} from './deliver.ts'
import {
  createDestinations,
  createEnqueuedDeliveries,
  type DueDelivery,
  deliveryQueue,
  type Endpoint,
} from './delivery-queue.ts'
import { createSettle, type DeliveryResult } from './settle-delivery.ts'
import type { Sender } from './webhook-sender.ts'
import type { WebhookValues } from './webhook-vault.ts'

const defaultLimits: QueueLimits = {
  active: 64,
  slow: 2_000,
  slowAfterMs: 500,
  perOwner: 4,
  perLease: 32,
}

export type WorkerDeps = {
  readonly workers: Workers
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly values: WebhookValues
  readonly sender: Sender
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly random: () => number
  readonly logger: Logger
  /** The receiver answered 410, or every attempt of several days failed. The endpoint is disabled. */
  readonly onDead: (delivery: DueDelivery, disablingReason: DisablingReason) => Promise<void>
  readonly onAttempt?: (result: DeliveryResult) => void
  readonly limits?: Partial<QueueLimits>
}

type EndpointLease = OwnerLease<EndpointHealth, Endpoint>

const outcomeOf = ({ next }: DeliveryResult): 'done' | 'again' | 'dead' => {
  if ('dueMs' in next) return 'again'
  return next.outcome.type === 'DeliveryAbandoned' ? 'dead' : 'done'
}

export const webhookDelivery = worker({
  name: deliveryQueue.name,
  about: 'Sends webhooks',
  trigger: { everyMs: 500, or: 'a webhook is enqueued' },
  per: 'process',
  process: 'server',
})

/**
 * Sends due deliveries. An endpoint receives one attempt at a time while its last one failed, or until its URL answered
 * once. Several processes may run it.
 */
export const startDeliveryWorker = (deps: WorkerDeps): RunningQueue => {
  const { workers, log, clock, logger, onAttempt, onDead } = deps
  const limits = { ...defaultLimits, ...deps.limits }
  const attempt = createAttempt(deps)
  const settle = createSettle(deps)
  const enqueuedAs = createEnqueuedDeliveries(log)
  const healthOf = ({ memory }: EndpointLease): EndpointHealth => memory ?? initialEndpointHealth

  const send = async (
    delivery: DueDelivery,
    lease: EndpointLease,
    next: readonly DueDelivery[],
  ): Promise<DeliveryResult> => {
    const { accountId, destination, urlId } = lease.context
    if (destination === 'unreadable') return postponedResult(delivery, clock())
    if (destination === 'removed') return canceledResult(delivery, clock())
    const enqueued = await enqueuedAs(delivery, next)
    if (enqueued === null || enqueued.account_id !== accountId) {
      logger.error(
        { deliveryId: delivery.delivery_id, endpointId: delivery.endpoint_id },
        'a webhook that no event enqueued is not sent',
      )
      return postponedResult(delivery, clock())
    }
    const result = await attempt(enqueued, destination)
    const status = result.attempt?.status ?? 0
    const acknowledged = status >= 200 && status < 300
    const health = endpointHealthAfter(healthOf(lease), { urlId, acknowledged, nowMs: result.atMs })
    lease.memory = health
    const pauseMs = endpointPauseMs(health, urlId)
    lease.holdUntilMs = pauseMs === 0 ? null : result.atMs + pauseMs
    onAttempt?.(result)
    return result
  }

  return workers.startBatched<DueDelivery, DeliveryResult, EndpointHealth, Endpoint>({
    worker: webhookDelivery,
    queue: deliveryQueue,
    limits,
    longestMs: 20_000,
    prepare: createDestinations(deps),
    atOnce: (lease) => {
      const { destination, urlId } = lease.context
      const health = healthOf(lease)
      const isTrusted = health.failures === 0 && isVerifiedUrl(health, urlId)
      return isTrusted || typeof destination !== 'object' ? limits.perOwner : 1
    },
    work: send,
    settle: (settled) => settle(settled.map(({ result }) => result)),
    outcomeOf,
    settled: async (delivery, { attempt, atMs }, lease) => {
      if (attempt === null) return
      if (attempt.status === 410) return onDead(delivery, { reason: 'gone' })
      const failingSince = failingTooLongSince(healthOf(lease), atMs)
      if (failingSince !== null) await onDead(delivery, { reason: 'failing', failingSince })
    },
  })
}
