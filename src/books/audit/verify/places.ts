import type { EventPlace } from './finding.ts'

/** What the sequence check writes down of each event, in the table `event_places` of the scratch schema. */
export type PlaceRow = {
  ordinal: number
  position: number
  id: string
  type: string
  stream: string
  revision: number
}

export const toPlace = ({ ordinal, position, id, type, stream, revision }: PlaceRow): EventPlace => ({
  ordinal,
  position,
  eventId: id,
  type,
  stream,
  revision,
})
