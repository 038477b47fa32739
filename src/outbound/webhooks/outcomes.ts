import type { EventLog } from '../../platform/eventstore/port.ts'
import { deliveryStream } from '../../terms/streams.ts'
import type { DeliveryOutcome } from './events.ts'
import { type FinishedStatus, finishedStatus, outcomeTypes } from './outcome-events.ts'

export type DeliveryPlace = {
  readonly delivery_id: string
  readonly endpoint_id: string
  readonly event: string
  readonly resource: string
  /** Of the fact that queued it. */
  readonly revision: number
}

/** What the log has as the outcome of deliveries whose outcome somebody else wrote first. */
export const standingOutcomes = async (
  log: Pick<EventLog, 'readStreams'>,
  places: readonly DeliveryPlace[],
): Promise<ReadonlyMap<string, FinishedStatus>> => {
  if (places.length === 0) return new Map()
  const streamOf = (place: DeliveryPlace) => deliveryStream(place.endpoint_id, place.event, place.resource)
  const tails = await log.readStreams(
    places.map((place) => ({ stream: streamOf(place), from: place.revision + 1 })),
  )
  return new Map(
    places.flatMap((place) => {
      const type = tails.get(streamOf(place))?.[0]?.type as DeliveryOutcome['type'] | undefined
      return type === undefined || !outcomeTypes.includes(type)
        ? []
        : [[place.delivery_id, finishedStatus(type)] as const]
    }),
  )
}
