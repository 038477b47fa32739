import { refuseUntil } from './errors.ts'
import type { Exchange } from './exchange.ts'
import type { HttpMetrics } from './http-metrics.ts'
import type { AtOnce } from './route.ts'

/**
 * The requests in work. A request has a place from its admission until it is answered, not until its client has read the
 * answer: clients that never read could take every place. A request that its client gave up gives its place back at once
 * or, when a handler is at work for it, when that is done.
 */
export type InFlight = {
  /** @throws overloaded when all places are taken */
  enter(exchange: Exchange): void
  /** Gives the place back, once. */
  leave(exchange: Exchange): void
}

type Places = { readonly atOnce: AtOnce; taken: number; readonly byAddress: Map<string, number> }

const placesFor = (atOnce: AtOnce): Places => ({ atOnce, taken: 0, byAddress: new Map() })

/** @param total Places of all routes that have none of their own; one address may take them all */
export const createInFlight = (total: number, metrics: HttpMetrics): InFlight => {
  const shared = placesFor({ total, perAddress: Number.POSITIVE_INFINITY })
  const own = new Map<AtOnce, Places>()

  const placesOf = ({ route }: Exchange): Places => {
    const atOnce = route?.route.atOnce
    if (atOnce === undefined) return shared
    const places = own.get(atOnce) ?? placesFor(atOnce)
    own.set(atOnce, places)
    return places
  }

  const count = (places: Places, { address }: Exchange, change: 1 | -1): void => {
    places.taken += change
    if (places === shared) {
      metrics.inFlight(places.taken)
      return
    }
    const left = (places.byAddress.get(address) ?? 0) + change
    if (left === 0) places.byAddress.delete(address)
    else places.byAddress.set(address, left)
  }

  return {
    enter: (exchange) => {
      const places = placesOf(exchange)
      const { atOnce, byAddress } = places
      if (places.taken >= atOnce.total || (byAddress.get(exchange.address) ?? 0) >= atOnce.perAddress)
        throw refuseUntil('overloaded', 'the service is answering as many requests as it can', 1)
      count(places, exchange, 1)
      exchange.hasPlace = true
    },
    leave: (exchange) => {
      if (!exchange.hasPlace) return
      exchange.hasPlace = false
      count(placesOf(exchange), exchange, -1)
    },
  }
}
