import type { DeliveryOutcome } from '../../domain/webhooks/events.ts'
import { type Clock, isoTime, type MonotonicClock } from '../../kernel/clock.ts'
import { retryAfterMs } from '../../platform/outgoing/retry-after.ts'
import { type Destination, type DueDelivery, maxDelayMs } from './delivery-queue.ts'
import type { DeliveryResult } from './settle-delivery.ts'
import type { Attempted, Sender } from './webhook-sender.ts'
import { signedRequest } from './webhook-signature.ts'

/** Attempts of one delivery, including the first (docs/http-api.md, "Webhooks and notices"). */
export const maxAttempts = 10

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

const isAcknowledged = (status: number | null): boolean => status !== null && status >= 200 && status < 300

/** The outcome of an attempt, or the time of the next one (docs/http-api.md, "Webhooks and notices"). */
const nextOf = (
  delivery: DueDelivery,
  { status, retryAfter }: Attempted,
  nowMs: number,
  random: number,
): DeliveryResult['next'] => {
  const attempts = delivery.attempts + 1
  const data = { deliveryId: delivery.delivery_id, endpointId: delivery.endpoint_id, attempts }
  const outcome = (fact: DeliveryOutcome): DeliveryResult['next'] => ({ outcome: fact })
  if (isAcknowledged(status))
    return outcome({ type: 'DeliverySucceeded', data: { ...data, status: status! } })
  if (status === 410) return outcome({ type: 'DeliveryAbandoned', data: { ...data, reason: 'gone' } })
  if (attempts >= maxAttempts)
    return outcome({ type: 'DeliveryAbandoned', data: { ...data, reason: 'attempts_exhausted' } })
  return { dueMs: nowMs + retryDelayMs(attempts, random, retryAfterMs(retryAfter, nowMs)) }
}

/** Signs and sends a delivery once, and returns its outcome or the time of the next attempt. Never rejects. */
export const createAttempt = (deps: {
  readonly sender: Sender
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  /** From 0 to below 1. */
  readonly random: () => number
}) => {
  const { sender, clock, monotonicMs, random } = deps
  return async (delivery: DueDelivery, destination: Destination): Promise<DeliveryResult> => {
    const startedMs = clock()
    const begunMs = monotonicMs()
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
    const latencyMs = Math.round(monotonicMs() - begunMs)
    return {
      delivery,
      attempt: { ...attempted, startedMs, latencyMs },
      atMs,
      next: nextOf(delivery, attempted, atMs, random()),
    }
  }
}

export type Attempt = ReturnType<typeof createAttempt>

/** The outcome of a delivery whose endpoint was removed. */
export const canceledResult = (delivery: DueDelivery, nowMs: number): DeliveryResult => ({
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
export const postponedResult = (delivery: DueDelivery, nowMs: number): DeliveryResult => ({
  delivery,
  attempt: null,
  atMs: nowMs,
  next: { dueMs: nowMs + postponeMs },
})

/** Results of earlier attempts to an endpoint. */
export type EndpointHealth = {
  /** Consecutive failed attempts. */
  readonly failures: number
  /** Time of the first of these failures by the service's clock, ISO 8601. */
  readonly failingSince: string | null
  /** The URL that answered 2xx. A new URL must be verified again. */
  readonly provenUrlId: string | null
}

/** Health of an endpoint before its first attempt. */
export const initialEndpointHealth: EndpointHealth = { failures: 0, failingSince: null, provenUrlId: null }

const firstPauseMs = 1_000
const maxPauseMs = 60_000

/**
 * An endpoint is disabled after this time without a successful attempt, and at least this many attempts (two deliveries
 * that were given up).
 */
export const disableAfterMs = 5 * 24 * 60 * 60 * 1000
const minFailuresToDisable = 20

/** Whether the URL has answered 2xx. Only then it receives more than one attempt at a time. */
export const isVerifiedUrl = ({ provenUrlId }: EndpointHealth, urlId: string | null): boolean =>
  urlId !== null && provenUrlId === urlId

/** The health after one more attempt. */
export const endpointHealthAfter = (
  endpointHealth: EndpointHealth,
  { urlId, acknowledged, nowMs }: { urlId: string | null; acknowledged: boolean; nowMs: number },
): EndpointHealth =>
  acknowledged
    ? { failures: 0, failingSince: null, provenUrlId: urlId }
    : {
        ...endpointHealth,
        failures: endpointHealth.failures + 1,
        failingSince: endpointHealth.failingSince ?? isoTime(nowMs),
      }

/**
 * Pause after a failure, milliseconds. A URL that never answered is paused for 1 s, doubled up to a minute. This
 * protects foreign hosts from floods of webhooks, however many events there are.
 */
export const endpointPauseMs = (endpointHealth: EndpointHealth, urlId: string | null): number =>
  endpointHealth.failures === 0 || isVerifiedUrl(endpointHealth, urlId)
    ? 0
    : Math.min(maxPauseMs, firstPauseMs * 2 ** Math.min(endpointHealth.failures - 1, 10))

/** Since when every attempt failed, if that is a reason to disable the endpoint (`disableAfterMs`); else null. */
export const failingTooLongSince = (
  { failures, failingSince }: EndpointHealth,
  nowMs: number,
): string | null =>
  failures >= minFailuresToDisable &&
  failingSince !== null &&
  nowMs - Date.parse(failingSince) >= disableAfterMs
    ? failingSince
    : null
