import { placesBackwards } from './backwards.ts'
import type { Origin } from './origin.ts'
import { isOurs } from './ours.ts'
import type { ReadDeps } from './read-page.ts'

/** Finds the last of our events, from the end of $all. It never looks behind what an earlier call found. */
export const createHead = (deps: ReadDeps) => {
  let known = 0

  /** @throws LogUnavailable */
  return async (origin: Origin): Promise<number> => {
    const floor = Math.max(known, origin.position)
    for await (const { position, stream } of placesBackwards(deps)) {
      if (position <= floor) break
      if (isOurs(stream)) {
        known = Math.max(known, position)
        break
      }
    }
    return known
  }
}
