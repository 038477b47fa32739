import type { Fold } from '../../kernel/decider.ts'
import type { Provider, ResellerRail } from '../payments/payments.ts'
import type { PriceLimits, RetailPrice, Shop, TermsEvent } from './events.ts'

/** A third party's account. Its credentials are in the vault under `reference` and never change there. */
export type GatewayRef = { readonly provider: Provider; readonly reference: string }
export type BotRef = { readonly provider: 'telegram'; readonly reference: string }

/** The state of a `terms-{reseller}` stream. The read table stores it as a JSON value. */
export type Terms = {
  readonly discountBp: number
  readonly markupMillionths: number | null
  readonly retail: readonly RetailPrice[]
  /** The limits of the prices that the reseller sets itself; null: it may set none. */
  readonly priceLimits: PriceLimits | null
  /** Null: every product. */
  readonly sellable: readonly string[] | null
  readonly shop: Shop
  readonly gateways: { readonly [Rail in ResellerRail]: GatewayRef | null }
  readonly bot: BotRef | null
}

/** The terms of a reseller without settings: cost and customer price are the list price, and it has no gateway. */
export const emptyTerms: Terms = {
  discountBp: 0,
  markupMillionths: null,
  retail: [],
  priceLimits: null,
  sellable: null,
  shop: { merchantName: null, website: null, storefrontLink: null },
  gateways: { card: null, crypto: null },
  bot: null,
}

export type PriceKey = Omit<RetailPrice, 'tiers' | 'belowCost'>

/** Whether two prices apply to the same product, country and period. */
export const samePriced = (a: PriceKey, b: PriceKey): boolean =>
  a.productId === b.productId && a.country === b.country && a.periodDays === b.periodDays

const compareRetailPrices = (a: RetailPrice, b: RetailPrice): number => {
  if (a.productId !== b.productId) return a.productId < b.productId ? -1 : 1
  if (a.country !== b.country) return (a.country ?? '') < (b.country ?? '') ? -1 : 1
  return (a.periodDays ?? 0) - (b.periodDays ?? 0)
}

/** The terms after one more event of their stream. */
export const evolveTerms = (terms: Terms, event: TermsEvent): Terms => {
  switch (event.type) {
    case 'DiscountChanged':
      return { ...terms, discountBp: event.data.discountBp }
    case 'MarkupChanged':
      return { ...terms, markupMillionths: event.data.markupMillionths }
    case 'RetailPriceSet': {
      const others = terms.retail.filter((price) => !samePriced(price, event.data))
      return { ...terms, retail: [...others, event.data].sort(compareRetailPrices) }
    }
    case 'RetailPriceRemoved':
      return { ...terms, retail: terms.retail.filter((price) => !samePriced(price, event.data)) }
    case 'PriceLimitsChanged':
      return { ...terms, priceLimits: event.data.limits }
    case 'SellableChanged':
      return { ...terms, sellable: event.data.productIds }
    case 'ShopChanged':
      return { ...terms, shop: event.data }
    case 'GatewaySet': {
      const { rail, provider, reference } = event.data
      return { ...terms, gateways: { ...terms.gateways, [rail]: { provider, reference } } }
    }
    case 'GatewayRemoved':
      return { ...terms, gateways: { ...terms.gateways, [event.data.rail]: null } }
    case 'MessagingBotSet':
      return { ...terms, bot: { provider: event.data.provider, reference: event.data.reference } }
    case 'MessagingBotRemoved':
      return { ...terms, bot: null }
    default:
      return event satisfies never
  }
}

/** The fold of a `terms-{reseller}` stream. Terms change rarely, so it is never snapshotted. */
export const termsFold: Fold<Terms, TermsEvent> = {
  name: 'terms',
  version: 3,
  initial: emptyTerms,
  evolve: evolveTerms,
}
