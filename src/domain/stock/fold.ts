import { Map as ImmutableMap, List } from 'immutable'
import type { Fold } from '../../kernel/decider.ts'
import type { ProxyId } from '../../kernel/ids.ts'
import { joinJsonMembers } from '../../kernel/json-text.ts'
import {
  dropExpired,
  emptyRemembered,
  type Remembered,
  type RememberedJson,
  remember,
  rememberedCount,
  rememberedFromJson,
  rememberedText,
} from '../../kernel/recent-ids.ts'
import { stockStream } from '../../kernel/streams.ts'
import type {
  AddressEvent,
  EndpointsChanged,
  ReplaceReason,
  StockEvent,
  StockedAddress,
  StockRefusal,
} from './events.ts'

/** The stock that an address is in; null if it never was in stock. */
export type AddressState = {
  readonly productId: string
  readonly country: string
  readonly retired: boolean
} | null

/** The fold of `address-{ip}`, which ensures that an address is in stock only once, across products. */
export const addressFold: Fold<AddressState, AddressEvent> = {
  name: 'address',
  version: 1,
  initial: null,
  evolve: (state, event) => {
    switch (event.type) {
      case 'AddressStocked':
        return { productId: event.data.productId, country: event.data.country, retired: false }
      case 'AddressRetired':
        return state && { ...state, retired: true }
      default:
        return event satisfies never
    }
  },
}

/** One address of one order, until it is released. */
export type Rental = {
  readonly ip: string
  readonly orderId: string
  readonly accountId: string
  readonly expiresAtMs: number
  /**
   * The ids of the orders that extended it, oldest first. Absent before the first, because most rentals are never
   * extended.
   */
  readonly extendedBy?: readonly string[]
  /** The replacements of its address, oldest first, at least those of the last 30 days. Absent before the first. */
  readonly replaced?: readonly Replacement[]
}

export type Replacement = {
  readonly atMs: number
  readonly reason: ReplaceReason
  readonly requestId: string | null
}

/** An address that was released and cools down until it may be sold again. */
type Resting = { readonly address: StockedAddress; readonly availableFromMs: number }

/**
 * Addresses that are equal for a buyer: of one carrier and service, or all of a product that has neither. The queues
 * contain the addresses and not only their IPs, because looking them up in the map of all addresses took a tenth of the
 * time of an order.
 */
export type Pool = {
  /** In the order in which they were stocked, which is the order of sale. */
  readonly ready: List<StockedAddress>
  /** In the order in which they may be sold again. */
  readonly resting: List<Resting>
}

/** The stock's answer to an order. The first answer is final (docs/architecture.md, "An order"). */
export type StockAnswer =
  | {
      readonly outcome: 'fulfilled'
      readonly proxyIds: readonly ProxyId[]
      readonly at: string
      readonly expiresAt: string | null
    }
  | {
      readonly outcome: 'refused'
      readonly reason: StockRefusal
      /** How many addresses were free at the decision. Absent for a recorded refusal and for other reasons. */
      readonly free?: number
    }

/** The allocation owner of one product in one country. */
export type StockState = {
  readonly addresses: ImmutableMap<string, StockedAddress>
  readonly pools: ImmutableMap<string, Pool>
  readonly rentals: ImmutableMap<string, Rental>
  readonly answers: Remembered<StockAnswer>
}

const emptyPool: Pool = { ready: List(), resting: List() }

/** The key of the pool that an order is served from. */
export const poolKey = (target: {
  readonly carrierId: string | null
  readonly service: string | null
}): string => JSON.stringify([target.carrierId, target.service])

const initial: StockState = {
  addresses: ImmutableMap(),
  pools: ImmutableMap(),
  rentals: ImmutableMap(),
  answers: emptyRemembered(),
}

const addStocked = (state: StockState, stocked: readonly StockedAddress[]): StockState => {
  let pools = state.pools
  for (const address of stocked) {
    const key = poolKey(address)
    const pool = pools.get(key, emptyPool)
    pools = pools.set(key, { ...pool, ready: pool.ready.push(address) })
  }
  const addresses = state.addresses.withMutations((map) => {
    for (const address of stocked) map.set(address.ip, address)
  })
  return { ...state, addresses, pools }
}

/** Changes endpoints of addresses. Their positions in the queues stay. */
const withEndpoints = (state: StockState, { changes }: EndpointsChanged['data']): StockState => {
  const changed = new Map<string, StockedAddress>()
  for (const { ip, endpoint } of changes) {
    const address = state.addresses.get(ip)
    if (address) changed.set(ip, { ...address, endpoint })
  }
  const withNewEndpoint = (address: StockedAddress): StockedAddress => changed.get(address.ip) ?? address
  let pools = state.pools
  for (const key of new Set([...changed.values()].map(poolKey))) {
    const pool = pools.get(key, emptyPool)
    pools = pools.set(key, {
      ready: pool.ready.map(withNewEndpoint),
      resting: pool.resting.map((item) => ({ ...item, address: withNewEndpoint(item.address) })),
    })
  }
  return { ...state, addresses: state.addresses.merge(changed), pools }
}

/** Removes `takenIps` from a queue. They are usually at its front, so the usual cost is one slice. */
const withoutIps = <Item>(
  queue: List<Item>,
  takenIps: ReadonlySet<string>,
  ipOf: (item: Item) => string,
): List<Item> => {
  let front = 0
  while (front < queue.size && takenIps.has(ipOf(queue.get(front) as Item))) front += 1
  const tail = queue.slice(front)
  return front === takenIps.size ? tail : tail.filter((item) => !takenIps.has(ipOf(item)))
}

const removeFromPool = (state: StockState, key: string, ips: readonly string[]): StockState['pools'] => {
  const pool = state.pools.get(key, emptyPool)
  const takenIps = new Set(ips)
  const ready = withoutIps(pool.ready, takenIps, ({ ip }) => ip)
  const remaining = ips.length - (pool.ready.size - ready.size)
  const resting =
    remaining === 0 ? pool.resting : withoutIps(pool.resting, takenIps, ({ address }) => address.ip)
  return state.pools.set(key, { ready, resting })
}

/**
 * Inserts an address by the time of its next sale. That is nearly always at the end, because nearly all addresses cool
 * down equally long.
 */
const insertResting = (
  resting: Pool['resting'],
  address: StockedAddress,
  availableFromMs: number,
): Pool['resting'] => {
  let index = resting.size
  while (index > 0 && (resting.get(index - 1) as Resting).availableFromMs > availableFromMs) index -= 1
  const item = { address, availableFromMs }
  return index === resting.size ? resting.push(item) : resting.insert(index, item)
}

/** How long a rental's state has its replacements, milliseconds. The limits on replacements need no older ones. */
export const replacementsMs = 30 * 24 * 60 * 60 * 1000

const evolve: Fold<StockState, StockEvent>['evolve'] = (before, event) => {
  const state = { ...before, answers: dropExpired(before.answers, event.recordedAtMs) }
  switch (event.type) {
    case 'AddressesStocked':
      return addStocked(state, event.data.addresses)
    case 'EndpointsChanged':
      return withEndpoints(state, event.data)
    case 'AddressesAllocated': {
      const { orderId, accountId, allocations, allocatedAt, expiresAt } = event.data
      const first = allocations[0]
      if (first === undefined) return state
      const expiresAtMs = Date.parse(expiresAt)
      return {
        ...state,
        pools: removeFromPool(
          state,
          poolKey(first),
          allocations.map(({ ip }) => ip),
        ),
        rentals: state.rentals.withMutations((rentals) => {
          for (const { proxyId, ip } of allocations)
            rentals.set(proxyId, { ip, orderId, accountId, expiresAtMs })
        }),
        answers: remember(
          state.answers,
          orderId,
          {
            outcome: 'fulfilled',
            proxyIds: allocations.map(({ proxyId }) => proxyId),
            at: allocatedAt,
            expiresAt,
          },
          event.recordedAtMs,
        ),
      }
    }
    case 'AllocationRefused':
      return {
        ...state,
        answers: remember(
          state.answers,
          event.data.orderId,
          {
            outcome: 'refused',
            reason: event.data.reason,
          },
          event.recordedAtMs,
        ),
      }
    case 'AddressesExtended': {
      const { orderId, extensions, extendedAt } = event.data
      return {
        ...state,
        rentals: state.rentals.withMutations((rentals) => {
          for (const { proxyId, expiresAt } of extensions) {
            const rental = rentals.get(proxyId)
            if (!rental) continue
            const extendedBy = [...(rental.extendedBy ?? []), orderId]
            rentals.set(proxyId, { ...rental, expiresAtMs: Date.parse(expiresAt), extendedBy })
          }
        }),
        answers: remember(
          state.answers,
          orderId,
          {
            outcome: 'fulfilled',
            proxyIds: extensions.map(({ proxyId }) => proxyId),
            at: extendedAt,
            expiresAt: null,
          },
          event.recordedAtMs,
        ),
      }
    }
    case 'AddressesReleased': {
      const availableFromMs = Date.parse(event.data.availableFrom)
      let pools = state.pools
      for (const { ip } of event.data.releases) {
        const address = state.addresses.get(ip)
        if (!address) continue
        const key = poolKey(address)
        const pool = pools.get(key, emptyPool)
        pools = pools.set(key, { ...pool, resting: insertResting(pool.resting, address, availableFromMs) })
      }
      const rentals = state.rentals.deleteAll(event.data.releases.map(({ proxyId }) => proxyId))
      return { ...state, pools, rentals }
    }
    case 'AddressReplaced': {
      const { proxyId, reason, requestId, former, address, replacedAt, availableFrom } = event.data
      const rental = state.rentals.get(proxyId)
      const releasedAddress = state.addresses.get(former.ip)
      if (!rental || !releasedAddress) return state
      const key = poolKey(address)
      const pools = removeFromPool(state, key, [address.ip])
      const pool = pools.get(key, emptyPool)
      const atMs = Date.parse(replacedAt)
      const recent = (rental.replaced ?? []).filter((replacement) => replacement.atMs > atMs - replacementsMs)
      return {
        ...state,
        pools: pools.set(key, {
          ...pool,
          resting: insertResting(pool.resting, releasedAddress, Date.parse(availableFrom)),
        }),
        rentals: state.rentals.set(proxyId, {
          ...rental,
          ip: address.ip,
          replaced: [...recent, { atMs, reason, requestId }],
        }),
      }
    }
    default: {
      const unknown: never = event
      throw new Error(`unknown stock event ${JSON.stringify(unknown)}`)
    }
  }
}

/** In a snapshot, pools name their addresses by IP. */
type Snapshot = {
  addresses: StockedAddress[]
  pools: [string, { ready: string[]; resting: { ip: string; availableFromMs: number }[] }][]
  rentals: [string, Rental][]
  answers: RememberedJson<StockAnswer>
}

const poolToJson = ({ ready, resting }: Pool): Snapshot['pools'][number][1] => ({
  ready: ready.map(({ ip }) => ip).toArray(),
  resting: resting.map(({ address, availableFromMs }) => ({ ip: address.ip, availableFromMs })).toArray(),
})

const poolFromJson =
  (addresses: ImmutableMap<string, StockedAddress>) =>
  ({ ready, resting }: Snapshot['pools'][number][1]): Pool => {
    const addressOf = (ip: string): StockedAddress => {
      const address = addresses.get(ip)
      if (!address) throw new Error(`address ${ip} is in a pool but was never stocked`)
      return address
    }
    return {
      ready: List(ready.map(addressOf)),
      resting: List(resting.map(({ ip, availableFromMs }) => ({ address: addressOf(ip), availableFromMs }))),
    }
  }

/**
 * The state of `stock-{product}-{country}`: every address, the active rentals, and the answers to the orders of the
 * last seven days.
 */
export const stockFold: Fold<StockState, StockEvent> = {
  name: 'stock',
  version: 2,
  initial,
  evolve,
  snapshot: {
    toText: ({ addresses, pools, rentals, answers }) =>
      joinJsonMembers(
        {
          addresses: [...addresses.values()],
          pools: [...pools].map(([key, pool]) => [key, poolToJson(pool)]),
          rentals: [...rentals],
        },
        { answers: rememberedText(answers) },
      ),
    fromText: (text): StockState => {
      const snapshot = JSON.parse(text) as Snapshot
      const addresses = ImmutableMap(snapshot.addresses.map((address) => [address.ip, address]))
      const poolOf = poolFromJson(addresses)
      return {
        addresses,
        pools: ImmutableMap(snapshot.pools.map(([key, pool]) => [key, poolOf(pool)])),
        rentals: ImmutableMap(snapshot.rentals),
        answers: rememberedFromJson(snapshot.answers),
      }
    },
    // An address or a rental is an object in a map and takes about as much memory as four remembered answers.
    entries: (state) => 4 * (state.addresses.size + state.rentals.size) + rememberedCount(state.answers),
  },
}

/** The stream reference of a product's stock in a country for a command. */
export const stockRef = (productId: string, country: string) => ({
  stream: stockStream(productId, country),
  fold: stockFold,
})
