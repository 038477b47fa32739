import type { Exit } from '../proxy/ports.ts'
import type { Rental } from './rentals.ts'

/** A place in the exits to begin at, so that the rentals of a carrier spread over them. */
const placeOf = (text: string): number => {
  let hash = 0
  for (const letter of text) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0
  return hash
}

/**
 * Where a rental goes out: from its own address, or, of a mobile line, through the live exits of its carrier, one after
 * the other: by its interval, or each time that its link is used. A carrier without live exits leaves the address itself.
 * @param own the address itself
 */
export const rentalExit = (
  { proxyId, rotation }: Pick<Rental, 'proxyId' | 'rotation'>,
  own: Exit,
  ofCarrier: (carrierId: string) => readonly Exit[],
  nowMs: number,
): Exit => {
  if (rotation === null) return own
  const exits = [...ofCarrier(rotation.carrierId)].sort((one, other) => (one.exitId < other.exitId ? -1 : 1))
  const { everyMs, sinceMs, turns } = rotation
  const turn = everyMs === null ? turns : Math.floor((nowMs - sinceMs) / everyMs)
  return exits[(placeOf(proxyId) + turn) % exits.length] ?? own
}
