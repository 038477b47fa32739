import type { RecordedEvent } from '../../platform/eventstore/event.ts'
import type { DeliveryOutcome } from './events.ts'

export type FinishedStatus = 'succeeded' | 'abandoned' | 'canceled'
export type DeliveryStatus = 'pending' | FinishedStatus

const statusOf: Readonly<Record<DeliveryOutcome['type'], FinishedStatus>> = {
  DeliverySucceeded: 'succeeded',
  DeliveryAbandoned: 'abandoned',
  DeliveryCanceled: 'canceled',
}

export const outcomeTypes: readonly string[] = Object.keys(statusOf)

export const isOutcome = (event: RecordedEvent): event is RecordedEvent<DeliveryOutcome> =>
  Object.hasOwn(statusOf, event.type)

export const finishedStatus = (type: DeliveryOutcome['type']): FinishedStatus => statusOf[type]
