import type { DeliveryOutcome } from '../../domain/webhooks/events.ts'
import { type Clock, isoTime, type MonotonicClock } from '../../kernel/clock.ts'
import { retryAfterMs } from '../../platform/outgoing/retry-after.ts'
import { type Destination, type DueDelivery, maxDelayMs } from './delivery-queue.ts'
import type { DeliveryResult } from './settle-delivery.ts'
import type { Attempted, Sender } from './webhook-sender.ts'
import { signedRequest } from './webhook-signature.ts'

/** docs/http-api.md, "Webhooks and notices": attempts of one delivery, the first one included. */
export const maxAttempts = 10

const firstDelayMs = 30_000
const jitter = 0.1

/**
 * How long to wait after the n-th attempt failed (from 1): 30 s doubling, at most 6 h, ±10 % so that receivers that came
 * back are not hit by all at once. A `Retry-After` that asks for more is honoured up to the same cap.
 * @param random From 0 to below 1.
 */
export const retryDelayMs = (attempt: number, random: number, retryAfterMs: number | null): number => {
  const planned = Math.min(maxDelayMs, firstDelayMs * 2 ** (attempt - 1))
  const spread = planned * (1 - jitter + 2 * jitter * random)
  return Math.round(Math.min(maxDelayMs, Math.max(spread, retryAfterMs ?? 0)))
}

const isAcknowledged = (status: number | null): boolean => status !== null && status >= 200 && status < 300

/** What follows from an attempt: its outcome, or the next one's time (docs/http-api.md, "Webhooks and notices"). */
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

/** Signs and sends a delivery once, and says what follows. Never rejects. */
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

/** The outcome of a delivery whose endpoint is no more. */
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

const postponedMs = 60_000

/** An endpoint without a URL or secret that can be read is just being removed, or damaged: it is looked at once a minute. */
export const postponedResult = (delivery: DueDelivery, nowMs: number): DeliveryResult => ({
  delivery,
  attempt: null,
  atMs: nowMs,
  next: { dueMs: nowMs + postponedMs },
})

/** What an endpoint has shown so far. */
export type EndpointHealth = {
  /** Attempts that failed in a row. */
  readonly failures: number
  /** When the first of these failed, by the service's clock, ISO 8601. */
  readonly failingSince: string | null
  /** The URL that it answered 2xx at: another one has to prove itself anew. */
  readonly provenUrlId: string | null
}

/** Of an endpoint that nothing was sent to. */
export const initialEndpointHealth: EndpointHealth = { failures: 0, failingSince: null, provenUrlId: null }

const firstHoldMs = 1_000
const maxHoldMs = 60_000

/** Every attempt failed for so long, and there were so many (two deliveries that were given up): the endpoint is disabled. */
export const disableAfterMs = 5 * 24 * 60 * 60 * 1000
const hopelessFailures = 20

/** Whether the URL has answered 2xx: only then it gets more than one attempt at a time. */
export const isVerifiedUrl = ({ provenUrlId }: EndpointHealth, urlId: string | null): boolean =>
  urlId !== null && provenUrlId === urlId

/** What an endpoint has shown after one more attempt. */
export const endpointHealthAfter = (
  standing: EndpointHealth,
  { urlId, acknowledged, nowMs }: { urlId: string | null; acknowledged: boolean; nowMs: number },
): EndpointHealth =>
  acknowledged
    ? { failures: 0, failingSince: null, provenUrlId: urlId }
    : {
        ...standing,
        failures: standing.failures + 1,
        failingSince: standing.failingSince ?? isoTime(nowMs),
      }

/**
 * How long the endpoint is left alone. A URL that never answered is left alone after a failure, for 1 s, doubling to a
 * minute: nobody can have a host that is not theirs flooded, however many events there are.
 */
export const endpointPauseMs = (standing: EndpointHealth, urlId: string | null): number =>
  standing.failures === 0 || isVerifiedUrl(standing, urlId)
    ? 0
    : Math.min(maxHoldMs, firstHoldMs * 2 ** Math.min(standing.failures - 1, 10))

/** Since when every attempt failed, where that is reason to stop sending (see `disableAfterMs`); null: it is not. */
export const failingTooLongSince = (
  { failures, failingSince }: EndpointHealth,
  nowMs: number,
): string | null =>
  failures >= hopelessFailures && failingSince !== null && nowMs - Date.parse(failingSince) >= disableAfterMs
    ? failingSince
    : null
