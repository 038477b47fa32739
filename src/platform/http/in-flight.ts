import type { AccountId } from '../../kernel/ids.ts'
import { createTally, type Tally } from '../work/tally.ts'
import { addressSubject } from './client-address.ts'
import { refuseUntil } from './errors.ts'
import type { Exchange } from './exchange.ts'
import type { HttpMetrics } from './http-metrics.ts'
import type { AtOnce } from './route.ts'

/**
 * The requests in work. A request has a place while the service works for it: from its headers until it is answered, save
 * while its body is on its way (`src/platform/http/arriving.ts`), and not until its client has read the answer. Clients that never
 * send or never read could take every place. A request that its client gave up gives its place back at once or, when a
 * handler is at work for it, when that is done.
 */
export type InFlight = {
  /** @throws overloaded when all places are taken */
  enter(exchange: Exchange): void
  /**
   * Counts a request that entered for its account, however many keys and addresses that one asks from.
   * @throws rate_limited when the account has its share of the places
   */
  enterFor(exchange: Exchange, accountId: AccountId): void
  /** Gives the place back, once. */
  leave(exchange: Exchange): void
}

type Places = { readonly atOnce: AtOnce; taken: number; readonly byAddress: Tally<string> }

const placesFor = (atOnce: AtOnce): Places => ({ atOnce, taken: 0, byAddress: createTally() })

export type InFlightLimits = {
  /** Places of all routes that have none of their own; one address may take them all. */
  readonly total: number
  /** Requests of one account in work at once, on all routes. */
  readonly perAccount: number
}

export const createInFlight = ({ total, perAccount }: InFlightLimits, metrics: HttpMetrics): InFlight => {
  const shared = placesFor({ total, perAddress: Number.POSITIVE_INFINITY })
  const own = new Map<AtOnce, Places>()
  const byAccount = createTally<AccountId>()

  const placesOf = ({ route }: Exchange): Places => {
    const atOnce = route?.route.atOnce
    if (atOnce === undefined) return shared
    const places = own.get(atOnce) ?? placesFor(atOnce)
    own.set(atOnce, places)
    return places
  }

  const count = (places: Places, { address, connection }: Exchange, change: 1 | -1): void => {
    places.taken += change
    if (change === 1) connection.work()
    else connection.rest()
    if (places === shared) metrics.inFlight(places.taken)
    else if (change === 1) places.byAddress.add(addressSubject(address))
    else places.byAddress.remove(addressSubject(address))
  }

  return {
    enter: (exchange) => {
      const places = placesOf(exchange)
      const { atOnce, byAddress } = places
      if (places.taken >= atOnce.total || byAddress.of(addressSubject(exchange.address)) >= atOnce.perAddress)
        throw refuseUntil('overloaded', 'the service is answering as many requests as it can', 1)
      count(places, exchange, 1)
      exchange.hasPlace = true
    },
    enterFor: (exchange, accountId) => {
      if (!exchange.hasPlace) return
      if (byAccount.of(accountId) >= perAccount)
        throw refuseUntil(
          'rate_limited',
          `${perAccount} requests of this account are in work, which is as many as may be; await the answers of some`,
          1,
        )
      byAccount.add(accountId)
      exchange.countedFor = accountId
    },
    leave: (exchange) => {
      if (!exchange.hasPlace) return
      exchange.hasPlace = false
      count(placesOf(exchange), exchange, -1)
      if (exchange.countedFor !== null) byAccount.remove(exchange.countedFor)
      exchange.countedFor = null
    },
  }
}
