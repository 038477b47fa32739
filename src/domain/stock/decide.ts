import { isoTime } from '../../kernel/clock.ts'
import { type Decision, decided, refused } from '../../kernel/decider.ts'
import { type ProxyId, proxyIdOf } from '../../kernel/ids.ts'
import { ofOneNetwork } from '../../kernel/ip-address.ts'
import { findRemembered } from '../../kernel/recent-ids.ts'
import type { OrderDetails, Target } from '../shared/order-terms.ts'
import type {
  AddressesReleased,
  AddressReplaced,
  Allocation,
  ReplaceReason,
  StockEvent,
  StockedAddress,
  StockRefusal,
} from './events.ts'
import { poolKey, type Rental, replacementsMs, type StockAnswer, type StockState } from './fold.ts'

const dayMs = 24 * 60 * 60 * 1000
/** Released addresses rest before they are sold again (docs/http-api.md, "Orders"). */
export const cooldownMs = 15 * 60 * 1000
/** No extension is paid for further ahead than this: ends stay instants that every reader and Postgres can write. */
export const maxDaysAhead = 10 * 365

/** What the arbiter says of an order: the answer that stands or will stand, and the fact that makes it so, if it is new. */
export type StockDecision = {
  readonly events: readonly StockEvent[]
  readonly answer: StockAnswer
}

/** The addresses that a pool can sell now, at most `limit` of them: stocked first, then those that have rested. */
export const sellable = (
  state: StockState,
  target: Pick<Target, 'carrierId' | 'service'>,
  limit: number,
  nowMs: number,
): StockedAddress[] => {
  const pool = state.pools.get(poolKey(target))
  if (!pool) return []
  const addresses: StockedAddress[] = []
  const ready = Math.min(limit, pool.ready.size)
  while (addresses.length < ready) addresses.push(pool.ready.get(addresses.length) as StockedAddress)
  if (addresses.length === limit) return addresses
  for (const { address, availableFromMs } of pool.resting) {
    if (addresses.length >= limit || availableFromMs > nowMs) break
    addresses.push(address)
  }
  return addresses
}

const refusal = (reason: StockRefusal, free?: number): StockDecision => ({
  events: [],
  answer: { outcome: 'refused', reason, ...(free !== undefined && { free }) },
})

/**
 * Allocates the order's addresses, or refuses with `out_of_stock` and how many are free. A refusal gives no event; an order that is paid already
 * needs it on record and appends `recordRefusal`. An order that was answered before gets that answer.
 */
export const decideAllocation = (state: StockState, order: OrderDetails, nowMs: number): StockDecision => {
  const known = findRemembered(state.answers, order.orderId)
  if (known) return { events: [], answer: known }
  const { target } = order
  if (!target) throw new Error(`order ${order.orderId} has no target to allocate for`)
  const addresses = sellable(state, target, order.quantity, nowMs)
  if (addresses.length < order.quantity) return refusal('out_of_stock', addresses.length)
  const allocations = addresses.map(
    (address): Allocation => ({
      ...address,
      proxyId: proxyIdOf(order.orderId, address.ip),
      rotationMinutes: target.rotationMinutes,
    }),
  )
  const allocatedAt = isoTime(nowMs)
  const expiresAt = isoTime(nowMs + target.periodDays * dayMs)
  return {
    events: [
      {
        type: 'AddressesAllocated',
        data: {
          orderId: order.orderId,
          accountId: order.accountId,
          customerId: order.customerId,
          productId: order.productId,
          family: order.family,
          country: target.country,
          periodDays: target.periodDays,
          allocations,
          allocatedAt,
          expiresAt,
        },
      },
    ],
    answer: {
      outcome: 'fulfilled',
      proxyIds: allocations.map(({ proxyId }) => proxyId),
      at: allocatedAt,
      expiresAt,
    },
  }
}

/** An extension keeps what is the account's, is not released and has not reached its end. */
export const isActiveRentalOf = (
  rental: Rental | undefined,
  accountId: string,
  nowMs: number,
): rental is Rental => rental !== undefined && rental.accountId === accountId && rental.expiresAtMs > nowMs

/**
 * Prolongs each rental that the order names by its period, from the rental's own end; refuses with `rental_ended` when
 * one of them is released, past its end or another account's, and with `too_far_ahead` when one would end more than
 * `maxDaysAhead` from now. An order that was answered before gets that answer.
 */
export const decideExtension = (state: StockState, order: OrderDetails, nowMs: number): StockDecision => {
  const known = findRemembered(state.answers, order.orderId)
  if (known) return { events: [], answer: known }
  const { target } = order
  if (!target) throw new Error(`order ${order.orderId} has no period to extend by`)
  const extensions: { proxyId: ProxyId; expiresAt: string }[] = []
  for (const proxyId of order.proxyIds) {
    const rental = state.rentals.get(proxyId)
    if (!isActiveRentalOf(rental, order.accountId, nowMs)) return refusal('rental_ended')
    const expiresAtMs = rental.expiresAtMs + target.periodDays * dayMs
    if (expiresAtMs > nowMs + maxDaysAhead * dayMs) return refusal('too_far_ahead')
    extensions.push({ proxyId, expiresAt: isoTime(expiresAtMs) })
  }
  const extendedAt = isoTime(nowMs)
  return {
    events: [
      {
        type: 'AddressesExtended',
        data: { orderId: order.orderId, periodDays: target.periodDays, extensions, extendedAt },
      },
    ],
    answer: { outcome: 'fulfilled', proxyIds: order.proxyIds, at: extendedAt, expiresAt: null },
  }
}

/** Those of an account's rentals that an extension decided now would keep. */
export const stillRunning = (
  state: StockState,
  asked: { readonly accountId: string; readonly proxyIds: readonly string[] },
  nowMs: number,
): readonly ProxyId[] =>
  asked.proxyIds.filter((proxyId): proxyId is ProxyId =>
    isActiveRentalOf(state.rentals.get(proxyId), asked.accountId, nowMs),
  )

/** Puts a refusal on record, so that no later attempt allocates for an order that is being refunded. */
export const recordRefusal = (orderId: string, reason: StockRefusal): StockEvent => ({
  type: 'AllocationRefused',
  data: { orderId, reason },
})

/** Those of the rentals that still run and were extended, with the orders that did it, oldest first. */
export const extensionsOf = (
  state: StockState,
  proxyIds: Iterable<ProxyId>,
  nowMs: number,
): ReadonlyMap<ProxyId, readonly string[]> => {
  const extended = new Map<ProxyId, readonly string[]>()
  for (const proxyId of proxyIds) {
    const rental = state.rentals.get(proxyId)
    if (rental?.extendedBy && rental.expiresAtMs > nowMs) extended.set(proxyId, rental.extendedBy)
  }
  return extended
}

/** Ends those of the rentals that still run; their addresses rest 15 minutes. No event when none does. */
export const decideRelease = (
  state: StockState,
  proxyIds: Iterable<string>,
  reason: AddressesReleased['data']['reason'],
  nowMs: number,
): readonly StockEvent[] => {
  const releases: AddressesReleased['data']['releases'][number][] = []
  for (const proxyId of new Set(proxyIds)) {
    const rental = state.rentals.get(proxyId)
    const address = rental && state.addresses.get(rental.ip)
    if (!address) continue
    const { ip, carrierId, service } = address
    releases.push({ proxyId: proxyId as ProxyId, ip, carrierId, service })
  }
  if (releases.length === 0) return []
  return [
    {
      type: 'AddressesReleased',
      data: { reason, releases, releasedAt: isoTime(nowMs), availableFrom: isoTime(nowMs + cooldownMs) },
    },
  ]
}

/** Ends those of the named rentals whose time is over; one that was extended meanwhile goes on. */
export const decideExpiry = (
  state: StockState,
  proxyIds: Iterable<string>,
  nowMs: number,
): readonly StockEvent[] => {
  const over: string[] = []
  for (const proxyId of proxyIds) {
    const rental = state.rentals.get(proxyId)
    if (rental && rental.expiresAtMs <= nowMs) over.push(proxyId)
  }
  return decideRelease(state, over, 'expired', nowMs)
}

/** A rental gets another address once in this time. */
export const replaceEveryMs = dayMs
/** And so often in 30 days, the time that a rental remembers its replacements. */
export const maxReplacements = 3
/** A replaced address rests longer than one that was given back: its operator may look at it first. */
export const replacedCooldownMs = dayMs
/** How many free addresses are looked at for one of another network. */
const maxLookedAt = 1_000

export type ReplacementRefusal =
  | { readonly code: 'rental_ended' | 'out_of_stock' | 'another_request' }
  | { readonly code: 'too_often'; readonly retryAtMs: number }

/** The address that the rental has after the request. */
type Replaced = {
  readonly address: StockedAddress
  /** When this request replaced it; null: an earlier one did. */
  readonly replacedAt: string | null
}

/**
 * Gives a rental another address of its pool: of the same product and country, and of the same carrier and service. A
 * request with the id of an earlier one changes nothing.
 */
export const decideReplacement = (
  state: StockState,
  asked: {
    readonly proxyId: string
    readonly accountId: string
    readonly reason: ReplaceReason
    readonly requestId: string | null
  },
  nowMs: number,
): Decision<AddressReplaced, ReplacementRefusal, Replaced> => {
  const { proxyId, accountId, reason, requestId } = asked
  const rental = state.rentals.get(proxyId)
  const former = rental && state.addresses.get(rental.ip)
  if (!former || !isActiveRentalOf(rental, accountId, nowMs)) return refused({ code: 'rental_ended' })
  const replaced = rental.replaced ?? []
  const earlier = requestId === null ? undefined : replaced.find((one) => one.requestId === requestId)
  if (earlier && earlier.reason !== reason) return refused({ code: 'another_request' })
  if (earlier) return { ...decided(), address: former, replacedAt: null }

  const lastMs = replaced.at(-1)?.atMs ?? Number.NEGATIVE_INFINITY
  const thirdLastMs = replaced.at(-maxReplacements)?.atMs ?? Number.NEGATIVE_INFINITY
  const retryAtMs = Math.max(lastMs + replaceEveryMs, thirdLastMs + replacementsMs)
  if (retryAtMs > nowMs) return refused({ code: 'too_often', retryAtMs })

  const looksAt = reason === 'change_network' ? maxLookedAt : 1
  const fits = ({ ip }: StockedAddress) => reason !== 'change_network' || !ofOneNetwork(ip, former.ip)
  const address = sellable(state, former, looksAt, nowMs).find(fits)
  if (!address) return refused({ code: 'out_of_stock' })
  const { ip, carrierId, service } = former
  const event: AddressReplaced = {
    type: 'AddressReplaced',
    data: {
      proxyId: proxyId as AddressReplaced['data']['proxyId'],
      accountId,
      reason,
      requestId,
      former: { ip, carrierId, service },
      address,
      replacedAt: isoTime(nowMs),
      availableFrom: isoTime(nowMs + replacedCooldownMs),
    },
  }
  return { ...decided(event), address, replacedAt: event.data.replacedAt }
}
