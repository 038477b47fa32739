import { isoTime } from '../../kernel/clock.ts'
import { type Decision, decided, refused } from '../../platform/eventstore/decision.ts'
import { runsFor, sellable } from './decide.ts'
import type { AddressReplaced, ReplaceReason, StockedAddress } from './events.ts'
import { replacementsMs, type StockState } from './fold.ts'
import { ofOneNetwork } from './ip.ts'

const dayMs = 24 * 60 * 60 * 1000
/** A rental gets another address once in this time. */
export const replaceEveryMs = dayMs
/** And so often in 30 days, the time that a rental remembers its replacements. */
export const maxReplacements = 3
/** A replaced address rests longer than one that was given back: its operator may look at it first. */
export const replacedRestMs = dayMs
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
  if (!former || !runsFor(rental, accountId, nowMs)) return refused({ code: 'rental_ended' })
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
      availableFrom: isoTime(nowMs + replacedRestMs),
    },
  }
  return { ...decided(event), address, replacedAt: event.data.replacedAt }
}
