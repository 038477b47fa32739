import type { Clock, MonotonicClock } from '../../../kernel/clock.ts'
import type { DeliveryOutcome } from '../events.ts'
import { maxAttempts, retryAfterMs, retryDelayMs } from '../schedule.ts'
import type { Attempted, Sender } from '../sender.ts'
import { signedRequest } from '../signature.ts'
import type { DueDelivery } from './delivery-queue.ts'
import type { Destination } from './destinations.ts'
import type { Result } from './settle.ts'

const isAcknowledged = (status: number | null): boolean => status !== null && status >= 200 && status < 300

/** What follows from an attempt: its outcome, or the next one's time (docs/http-api.md, "Webhooks and notices"). */
const nextOf = (
  delivery: DueDelivery,
  { status, retryAfter }: Attempted,
  nowMs: number,
  random: number,
): Result['next'] => {
  const attempts = delivery.attempts + 1
  const data = { deliveryId: delivery.delivery_id, endpointId: delivery.endpoint_id, attempts }
  const outcome = (fact: DeliveryOutcome): Result['next'] => ({ outcome: fact })
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
  return async (delivery: DueDelivery, destination: Destination): Promise<Result> => {
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
export const canceledResult = (delivery: DueDelivery, nowMs: number): Result => ({
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
export const postponedResult = (delivery: DueDelivery, nowMs: number): Result => ({
  delivery,
  attempt: null,
  atMs: nowMs,
  next: { dueMs: nowMs + postponedMs },
})
