import { BACKWARDS } from '@eventstore/db-client'
import type { StoredEvent } from '../port.ts'
import { logUnavailable } from './failures.ts'
import type { Origin } from './origin.ts'
import { isOurs } from './ours.ts'
import { collect, type ReadDeps } from './read-page.ts'
import { fromPosition, toPosition, toStored } from './wire.ts'

const pageSize = 500

/** Up to `limit` of our events before the one at a position, the nearest first. @throws LogUnavailable */
export const readBeforePosition = async (
  { connection, readTimeoutMs }: ReadDeps,
  origin: Origin,
  position: number,
  limit: number,
): Promise<readonly StoredEvent[]> => {
  const taken: StoredEvent[] = []
  for (let from = position; from > origin.position && taken.length < limit; ) {
    const read = connection.client.readAll({
      direction: BACKWARDS,
      fromPosition: fromPosition(from),
      maxCount: pageSize,
      requiresLeader: true,
    })
    const page = await collect(read, readTimeoutMs).catch((error) => {
      throw logUnavailable(error)
    })
    for (const resolved of page) {
      if (resolved.event === undefined) continue
      from = toPosition(resolved.event.position)
      if (from > origin.position && isOurs(resolved.event.streamId)) taken.push(toStored(resolved))
    }
    if (page.length < pageSize) break
  }
  return taken.slice(0, limit)
}
