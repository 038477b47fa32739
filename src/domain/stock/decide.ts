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
/** How long released addresses cool down before they are sold again, milliseconds (docs/reference/api.md, "Orders"). */
export const cooldownMs = 15 * 60 * 1000
/**
 * The most days that an extension may end in the future. The limit ensures that all readers and Postgres can represent
 * the end.
 */
export const maxDaysAhead = 10 * 365

/**
 * The answer to an order, and the event that records it. No event if the answer is already recorded or is an unrecorded
 * refusal.
 */
type StockDecision = {
  readonly events: readonly StockEvent[]
  readonly answer: StockAnswer
}

/**
 * The addresses that a pool can sell now, at most `limit` of them: first those never sold, then those that have cooled
 * down.
 */
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
 * Allocates the order's addresses, or refuses with `out_of_stock` and the number of free ones. A refusal gives no
 * event. The caller appends `recordRefusal` for an order that is paid already, because that needs a recorded refusal.
 * An order that was answered before gets the same answer.
 * @throws if the order has no target
 */
export const decideAllocation = (state: StockState, order: OrderDetails, nowMs: number): StockDecision => {
  const previousAnswer = findRemembered(state.answers, order.orderId)
  if (previousAnswer) return { events: [], answer: previousAnswer }
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

/** Whether the rental can be extended: it is the account's, was not released and has not reached its end. */
const isActiveRentalOf = (rental: Rental | undefined, accountId: string, nowMs: number): rental is Rental =>
  rental !== undefined && rental.accountId === accountId && rental.expiresAtMs > nowMs

/**
 * Extends each rental of the order by its period, from the rental's own end. Refusals: `rental_ended` if one of them is
 * released, past its end or another account's; `too_far_ahead` if one would end more than `maxDaysAhead` from now. An
 * order that was answered before gets the same answer.
 * @throws if the order has no target
 */
export const decideExtension = (state: StockState, order: OrderDetails, nowMs: number): StockDecision => {
  const previousAnswer = findRemembered(state.answers, order.orderId)
  if (previousAnswer) return { events: [], answer: previousAnswer }
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

/** Those of the account's rentals that can be extended now. */
export const stillRunning = (
  state: StockState,
  input: { readonly accountId: string; readonly proxyIds: readonly string[] },
  nowMs: number,
): readonly ProxyId[] =>
  input.proxyIds.filter((proxyId): proxyId is ProxyId =>
    isActiveRentalOf(state.rentals.get(proxyId), input.accountId, nowMs),
  )

/** The event that records a refusal, so that no later attempt allocates for an order that is being refunded. */
export const recordRefusal = (orderId: string, reason: StockRefusal): StockEvent => ({
  type: 'AllocationRefused',
  data: { orderId, reason },
})

/** Those of the rentals that are active and were extended, each with the ids of the extending orders, oldest first. */
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

/** Ends those of the rentals that are active. Their addresses cool down for 15 minutes. No event if none is active. */
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

/** Ends those of the named rentals whose time is over. A rental that was extended meanwhile does not end. */
export const decideExpiry = (
  state: StockState,
  proxyIds: Iterable<string>,
  nowMs: number,
): readonly StockEvent[] => {
  const expiredIds: string[] = []
  for (const proxyId of proxyIds) {
    const rental = state.rentals.get(proxyId)
    if (rental && rental.expiresAtMs <= nowMs) expiredIds.push(proxyId)
  }
  return decideRelease(state, expiredIds, 'expired', nowMs)
}

/** The address of a rental can be replaced once in this time, milliseconds. */
export const replaceEveryMs = dayMs
/** The most replacements of a rental's address in 30 days. The rental's state has the replacements of that time. */
const maxReplacements = 3
/**
 * How long a replaced address cools down, milliseconds. It is longer than for a released address, so that its operator
 * can check it first.
 */
export const replacedCooldownMs = dayMs
/** At most this many free addresses are searched for one in another network. */
const maxCandidates = 1_000

export type ReplacementRefusal =
  | { readonly code: 'rental_ended' | 'out_of_stock' | 'another_request' }
  | { readonly code: 'too_often'; readonly retryAtMs: number }

/** The rental's address after the request. */
type ReplacementResult = {
  readonly address: StockedAddress
  /** When this request replaced it, ISO 8601 UTC; null: an earlier request did. */
  readonly replacedAt: string | null
}

/**
 * Gives a rental another address of its pool: of the same product, country, carrier and service. A request with the id
 * of an earlier one changes nothing. Refusals: `rental_ended`, `another_request`, `too_often`, `out_of_stock`.
 */
export const decideReplacement = (
  state: StockState,
  input: {
    readonly proxyId: string
    readonly accountId: string
    readonly reason: ReplaceReason
    readonly requestId: string | null
  },
  nowMs: number,
): Decision<AddressReplaced, ReplacementRefusal, ReplacementResult> => {
  const { proxyId, accountId, reason, requestId } = input
  const rental = state.rentals.get(proxyId)
  const currentAddress = rental && state.addresses.get(rental.ip)
  if (!currentAddress || !isActiveRentalOf(rental, accountId, nowMs)) return refused({ code: 'rental_ended' })
  const replaced = rental.replaced ?? []
  const previousReplacement =
    requestId === null ? undefined : replaced.find((replacement) => replacement.requestId === requestId)
  if (previousReplacement && previousReplacement.reason !== reason)
    return refused({ code: 'another_request' })
  if (previousReplacement) return { ...decided(), address: currentAddress, replacedAt: null }

  const lastMs = replaced.at(-1)?.atMs ?? Number.NEGATIVE_INFINITY
  const thirdLastMs = replaced.at(-maxReplacements)?.atMs ?? Number.NEGATIVE_INFINITY
  const retryAtMs = Math.max(lastMs + replaceEveryMs, thirdLastMs + replacementsMs)
  if (retryAtMs > nowMs) return refused({ code: 'too_often', retryAtMs })

  const candidateLimit = reason === 'change_network' ? maxCandidates : 1
  const isSuitable = ({ ip }: StockedAddress) =>
    reason !== 'change_network' || !ofOneNetwork(ip, currentAddress.ip)
  const address = sellable(state, currentAddress, candidateLimit, nowMs).find(isSuitable)
  if (!address) return refused({ code: 'out_of_stock' })
  const { ip, carrierId, service } = currentAddress
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
