import { BACKWARDS, END } from '@eventstore/db-client'
import { logUnavailable } from './failures.ts'
import type { Origin } from './origin.ts'
import { isOurs } from './ours.ts'
import { collect, type ReadDeps } from './read-page.ts'
import { fromPosition, toPosition } from './wire.ts'

const firstPage = 16
const nextPages = 500

/**
 * Finds the last of our events, backwards from the end of $all, which other programs and the server write to as well.
 * It never looks behind what an earlier call found.
 */
export const createHead = ({ connection, readTimeoutMs }: ReadDeps) => {
  let known = 0

  /** @throws LogUnavailable */
  return async (origin: Origin): Promise<number> => {
    const floor = Math.max(known, origin.position)
    let from: number | null = null
    let count = firstPage
    for (;;) {
      const read = connection.client.readAll({
        direction: BACKWARDS,
        fromPosition: from === null ? END : fromPosition(from),
        maxCount: count,
        requiresLeader: true,
      })
      const page = await collect(read, readTimeoutMs).catch((error) => {
        throw logUnavailable(error)
      })
      for (const { event } of page) {
        if (event === undefined) continue
        const position = toPosition(event.position)
        if (position <= floor) return known
        if (!isOurs(event.streamId)) continue
        known = Math.max(known, position)
        return known
      }
      if (page.length < count) return known
      from = toPosition(page.at(-1)!.event!.position)
      count = nextPages
    }
  }
}
