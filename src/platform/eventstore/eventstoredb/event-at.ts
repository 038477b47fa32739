import { FORWARDS } from '@eventstore/db-client'
import type { StoredEvent } from '../port.ts'
import { isInvalidPosition, logUnavailable } from './failures.ts'
import type { Origin } from './origin.ts'
import { isOurs } from './ours.ts'
import { collect, type ReadDeps } from './read-page.ts'
import { fromPosition, toPosition, toStored } from './wire.ts'

/** Our event at exactly this position, or null. @throws LogUnavailable */
export const eventAtPosition = async (
  { connection, readTimeoutMs }: ReadDeps,
  origin: Origin,
  position: number,
): Promise<StoredEvent | null> => {
  // What a server held before Farebox came is none of its log.
  if (position <= origin.position) return null
  const read = connection.client.readAll({
    direction: FORWARDS,
    fromPosition: fromPosition(position),
    maxCount: 1,
    requiresLeader: true,
  })
  try {
    const [first] = await collect(read, readTimeoutMs)
    if (first?.event === undefined || !isOurs(first.event.streamId)) return null
    return toPosition(first.event.position) === position ? toStored(first) : null
  } catch (error) {
    if (isInvalidPosition(error)) return null
    throw logUnavailable(error)
  }
}
