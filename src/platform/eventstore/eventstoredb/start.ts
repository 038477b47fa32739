import { placesBackwards } from './backwards.ts'
import type { Origin } from './origin.ts'
import type { ReadDeps } from './read-page.ts'

/**
 * The last place at or before a number at which the server can start to read: it takes an event's own position only.
 * Looked for from the end, so it costs what came after; store positions that came from events, which need no search.
 * @throws LogUnavailable
 */
export const startBefore = async (deps: ReadDeps, origin: Origin, after: number): Promise<number> => {
  for await (const { position } of placesBackwards(deps))
    if (position <= after) return Math.max(position, origin.position)
  return origin.position
}
