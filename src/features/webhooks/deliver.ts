import { createHmac, createSecretKey, randomBytes } from 'node:crypto'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { DeliveryOutcome, DisablingReason } from '../../domain/webhooks/events.ts'
import { type Clock, isoTime, type MonotonicClock } from '../../kernel/clock.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { retryAfterMs } from '../../platform/outgoing/retry-after.ts'
import type { OwnerLease, QueueLimits, RunningQueue } from '../../platform/work/queue.ts'
import type { Workers } from '../../platform/work/queue-workers.ts'
import { worker } from '../../platform/work/worker.ts'
import {
  createDestinations,
  createEnqueuedDeliveries,
  type Destination,
  type DueDelivery,
  deliveryQueue,
  type Endpoint,
  maxDelayMs,
  maxPauseMs,
} from './delivery-queue.ts'
import { createSettle, type DeliveryResult } from './settle.ts'
import type { Attempted, Sender } from './webhook-sender.ts'
import type { WebhookValues } from './webhook-vault.ts'

export const webhookDelivery = worker({
  name: deliveryQueue.name,
  about: 'Sends webhooks',
  trigger: { everyMs: 500, quietMs: 60_000, or: 'a webhook is enqueued' },
  per: 'process',
  process: 'server',
})

const defaultLimits: QueueLimits = {
  active: 64,
  slow: 2_000,
  slowAfterMs: 500,
  perOwner: 4,
  perLease: 32,
}

export type DeliveryWorkerDependencies = {
  readonly workers: Workers
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly values: WebhookValues
  readonly sender: Sender
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  /** From 0 to below 1. */
  readonly random: () => number
  readonly logger: Logger
  /** The receiver answered 410, or every attempt of several days failed. The endpoint is disabled. */
  readonly onDead: (delivery: DueDelivery, disablingReason: DisablingReason) => Promise<void>
  readonly onAttempt?: (result: DeliveryResult) => void
  readonly limits?: Partial<QueueLimits>
}

type EndpointLease = OwnerLease<EndpointHealth, Endpoint>

/**
 * Sends due deliveries. An endpoint receives one attempt at a time while its last one failed, or until its URL answered
 * once. Several processes may run it.
 */
export const startDeliveryWorker = (dependencies: DeliveryWorkerDependencies): RunningQueue => {
  const { workers, log, clock, logger, onAttempt, onDead } = dependencies
  const limits = { ...defaultLimits, ...dependencies.limits }
  const attempt = createAttempt(dependencies)
  const settle = createSettle(dependencies)
  const findEnqueued = createEnqueuedDeliveries(log)
  const healthOf = ({ memory }: EndpointLease): EndpointHealth => memory ?? initialHealth

  const deliver = async (
    delivery: DueDelivery,
    lease: EndpointLease,
    next: readonly DueDelivery[],
  ): Promise<DeliveryResult> => {
    const { accountId, destination, urlId } = lease.context
    if (destination === 'unreadable') return postponed(delivery, clock())
    if (destination === 'removed') return canceled(delivery, clock())
    const enqueued = await findEnqueued(delivery, next)
    if (enqueued === null || enqueued.account_id !== accountId) {
      logger.error(
        { deliveryId: delivery.delivery_id, endpointId: delivery.endpoint_id },
        'a webhook is not sent: no event enqueued it',
      )
      return postponed(delivery, clock())
    }
    const result = await attempt(enqueued, destination)
    const health = healthAfter(healthOf(lease), {
      urlId,
      acknowledged: isAcknowledged(result.attempt.status),
      nowMs: result.atMs,
    })
    lease.memory = health
    const pauseMs = endpointPauseMs(health, urlId)
    lease.pausedUntilMs = pauseMs === 0 ? null : result.atMs + pauseMs
    onAttempt?.(result)
    return result
  }

  return workers.startBatched<DueDelivery, DeliveryResult, EndpointHealth, Endpoint>({
    worker: webhookDelivery,
    queue: deliveryQueue,
    limits,
    longestMs: 20_000,
    prepare: createDestinations(dependencies),
    atOnce: (lease) => {
      const { destination, urlId } = lease.context
      const health = healthOf(lease)
      const isTrusted = health.failures === 0 && isVerifiedUrl(health, urlId)
      return isTrusted || typeof destination !== 'object' ? limits.perOwner : 1
    },
    work: deliver,
    settle: (settled) => settle(settled.map(({ result }) => result)),
    outcomeOf: ({ next }) => {
      if ('dueMs' in next) return 'again'
      return next.outcome.type === 'DeliveryAbandoned' ? 'dead' : 'done'
    },
    settled: async (delivery, { attempt, atMs }, lease) => {
      if (attempt === null) return
      if (attempt.status === 410) return onDead(delivery, { reason: 'gone' })
      const failingSince = failingTooLongSince(healthOf(lease), atMs)
      if (failingSince !== null) await onDead(delivery, { reason: 'failing', failingSince })
    },
  })
}

/** Signs and sends a delivery once, and returns its outcome or the time of the next attempt. Never rejects. */
const createAttempt =
  ({ sender, clock, monotonicMs, random }: DeliveryWorkerDependencies) =>
  async (delivery: DueDelivery, destination: Destination) => {
    const startedMs = clock()
    const startedMonotonicMs = monotonicMs()
    const { secret, previousSecret, previousUntil } = destination
    const overlaps = previousUntil !== null && startedMs < Date.parse(previousUntil)
    const request = signedRequest(
      {
        deliveryId: delivery.delivery_id,
        event: delivery.event,
        resource: delivery.resource,
        data: delivery.data,
      },
      { current: secret, previous: overlaps ? previousSecret : null },
      startedMs,
    )
    const attempted = await sender.send(destination.url, request)
    const atMs = clock()
    const latencyMs = Math.round(monotonicMs() - startedMonotonicMs)
    return {
      delivery,
      attempt: { ...attempted, startedMs, latencyMs },
      atMs,
      next: nextOf(delivery, attempted, atMs, random()),
    }
  }

type Message = {
  /** The id of the delivery; attempts and redeliveries use the same one. */
  readonly deliveryId: string
  readonly event: string
  readonly resource: string
  /** The JSON text of `data`. */
  readonly data: string
}

/**
 * The exact bytes of one attempt, with the headers of both signature schemes. The time of the attempt is inside the
 * signed body, so that a receiver's replay window works for retries too.
 */
export const signedRequest = (
  { deliveryId, event, resource, data }: Message,
  secrets: { readonly current: string; readonly previous: string | null },
  createdMs: number,
): { readonly body: Buffer; readonly headers: Readonly<Record<string, string>> } => {
  const created = new Date(createdMs).toISOString()
  const body = Buffer.from(
    `{"event":${JSON.stringify(event)},"created":"${created}","resource":${JSON.stringify(resource)},"data":${data}}`,
  )
  const timestampS = Math.floor(createdMs / 1000)
  const standard = [secrets.current, secrets.previous]
    .filter((secret) => secret !== null)
    .map((secret) => standardSignature(secret, deliveryId, timestampS, body))
  return {
    body,
    headers: {
      'Content-Type': 'application/json',
      'User-Agent': 'Farebox-Webhooks/1',
      'X-Service-Event': event,
      'X-Service-Signature': serviceSignature(secrets.current, body),
      ...(secrets.previous !== null && {
        'X-Service-Signature-Previous': serviceSignature(secrets.previous, body),
      }),
      'X-Service-Timestamp': created,
      'webhook-id': deliveryId,
      'webhook-timestamp': String(timestampS),
      'webhook-signature': standard.join(' '),
    },
  }
}

/**
 * Hex HMAC-SHA256 of the exact body, keyed with the whole secret as UTF-8 (docs/reference/api.md, "Webhooks and
 * notices").
 */
const serviceSignature = (secret: string, body: Buffer): string =>
  createHmac('sha256', secret).update(body).digest('hex')

/** Standard Webhooks 1.0: base64 HMAC-SHA256 of `id.timestamp.body`, keyed with the decoded bytes. */
const standardSignature = (secret: string, id: string, timestampS: number, body: Buffer): string =>
  `v1,${createHmac('sha256', createSecretKey(secret.slice(secretPrefix.length), 'base64'))
    .update(`${id}.${timestampS}.`)
    .update(body)
    .digest('base64')}`

const secretPrefix = 'whsec_'

/** `whsec_` and the base64 of 32 random bytes. */
export const newSecret = (): string => `${secretPrefix}${randomBytes(32).toString('base64')}`

/** Attempts of one delivery, including the first (docs/reference/api.md, "Webhooks and notices"). */
export const maxAttempts = 10

const isAcknowledged = (status: number | null): boolean => status !== null && status >= 200 && status < 300

/** The outcome of an attempt, or the time of the next one (docs/reference/api.md, "Webhooks and notices"). */
const nextOf = (
  delivery: DueDelivery,
  { status, retryAfter }: Attempted,
  nowMs: number,
  random: number,
): DeliveryResult['next'] => {
  const attempts = delivery.attempts + 1
  const data = { deliveryId: delivery.delivery_id, endpointId: delivery.endpoint_id, attempts }
  const end = (outcome: DeliveryOutcome): DeliveryResult['next'] => ({ outcome })
  if (isAcknowledged(status)) return end({ type: 'DeliverySucceeded', data: { ...data, status: status! } })
  if (status === 410) return end({ type: 'DeliveryAbandoned', data: { ...data, reason: 'gone' } })
  if (attempts >= maxAttempts)
    return end({ type: 'DeliveryAbandoned', data: { ...data, reason: 'attempts_exhausted' } })
  return { dueMs: nowMs + retryDelayMs(attempts, random, retryAfterMs(retryAfter, nowMs)) }
}

const firstDelayMs = 30_000
const jitter = 0.1

/**
 * Delay after the n-th failed attempt (from 1), milliseconds: 30 s, doubled each time up to 6 h, ±10 % so that
 * recovered receivers do not get all deliveries at once. A longer `Retry-After` is honoured up to the same limit.
 * @param random From 0 to below 1.
 */
export const retryDelayMs = (attempt: number, random: number, retryAfterMs: number | null): number => {
  const baseDelayMs = Math.min(maxDelayMs, firstDelayMs * 2 ** (attempt - 1))
  const jitteredMs = baseDelayMs * (1 - jitter + 2 * jitter * random)
  return Math.round(Math.min(maxDelayMs, Math.max(jitteredMs, retryAfterMs ?? 0)))
}

/** The outcome of a delivery whose endpoint was removed. */
const canceled = (delivery: DueDelivery, nowMs: number): DeliveryResult => ({
  delivery,
  attempt: null,
  atMs: nowMs,
  next: {
    outcome: {
      type: 'DeliveryCanceled',
      data: {
        deliveryId: delivery.delivery_id,
        endpointId: delivery.endpoint_id,
        attempts: delivery.attempts,
        reason: 'endpoint_removed',
      },
    },
  },
})

const postponeMs = 60_000

/**
 * The URL or secret of the endpoint cannot be read, because it is being removed or is damaged. Checked again each
 * minute.
 */
const postponed = (delivery: DueDelivery, nowMs: number): DeliveryResult => ({
  delivery,
  attempt: null,
  atMs: nowMs,
  next: { dueMs: nowMs + postponeMs },
})

/** Results of earlier attempts to an endpoint. Stored as JSON in the memory of its queue owner. */
export type EndpointHealth = {
  /** Consecutive failed attempts. */
  readonly failures: number
  /** Time of the first of these failures by the service's clock, ISO 8601. */
  readonly failingSince: string | null
  /** The URL that answered 2xx. A new URL must be verified again. */
  readonly provenUrlId: string | null
}

const initialHealth: EndpointHealth = { failures: 0, failingSince: null, provenUrlId: null }

/** Whether the URL has answered 2xx. Only then it receives more than one attempt at a time. */
const isVerifiedUrl = ({ provenUrlId }: EndpointHealth, urlId: string | null): boolean =>
  urlId !== null && provenUrlId === urlId

/** The health after one more attempt. */
const healthAfter = (
  health: EndpointHealth,
  { urlId, acknowledged, nowMs }: { urlId: string | null; acknowledged: boolean; nowMs: number },
): EndpointHealth =>
  acknowledged
    ? { failures: 0, failingSince: null, provenUrlId: urlId }
    : { ...health, failures: health.failures + 1, failingSince: health.failingSince ?? isoTime(nowMs) }

const firstPauseMs = 1_000

/**
 * Pause after a failure, milliseconds. A URL that never answered is paused for 1 s, doubled up to a minute. This
 * protects foreign hosts from floods of webhooks, however many events there are.
 */
const endpointPauseMs = (health: EndpointHealth, urlId: string | null): number =>
  health.failures === 0 || isVerifiedUrl(health, urlId)
    ? 0
    : Math.min(maxPauseMs, firstPauseMs * 2 ** Math.min(health.failures - 1, 10))

/**
 * An endpoint is disabled after this time without a successful attempt, and at least this many attempts (two deliveries
 * that were given up).
 */
const disableAfterMs = 5 * 24 * 60 * 60 * 1000
const minFailuresToDisable = 20

/** Since when every attempt failed, if that is a reason to disable the endpoint (`disableAfterMs`); else null. */
const failingTooLongSince = ({ failures, failingSince }: EndpointHealth, nowMs: number): string | null =>
  failures >= minFailuresToDisable &&
  failingSince !== null &&
  nowMs - Date.parse(failingSince) >= disableAfterMs
    ? failingSince
    : null
