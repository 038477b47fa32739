import { BACKWARDS, END } from '@eventstore/db-client'
import { logUnavailable } from './failures.ts'
import { collect, type ReadDeps } from './read-page.ts'
import { fromPosition, toPosition } from './wire.ts'

const firstPage = 16
const nextPages = 500

/**
 * Where the events of the whole server stand, from the last one backwards: ours, the server's own and other programs'.
 * @throws LogUnavailable
 */
export async function* placesBackwards({ connection, readTimeoutMs }: ReadDeps) {
  let from: number | null = null
  for (let count = firstPage; ; count = nextPages) {
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
      from = toPosition(event.position)
      yield { position: from, stream: event.streamId }
    }
    if (page.length < count) return
  }
}
