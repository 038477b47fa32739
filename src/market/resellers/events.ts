import type { Provider, ResellerRail } from '../../money/payments/rails.ts'
import type { DomainEvent } from '../../platform/eventstore/event.ts'

/** The price of one unit that a reseller asks. Micro-dollars: 1 cent is 10,000. */
export type RetailPrice = {
  readonly productId: string
  /** Alpha-3; null for a product that has no countries. */
  readonly country: string | null
  /** Null for a product that is not rented by the period. */
  readonly periodDays: number | null
  readonly unitPriceMicros: number
}

/** A `terms-{reseller}` stream: what a reseller pays, asks and shows. Credentials stand in the vault, under `reference`. */
export type DiscountChanged = DomainEvent<
  'DiscountChanged',
  {
    /** Off the list price, basis points: 1,250 is 12.5 %. */
    readonly discountBp: number
  }
>
export type MarkupChanged = DomainEvent<
  'MarkupChanged',
  {
    /** A multiple of the list price, millionths: 1,300,000 is 1.30; null: customers pay the list price. */
    readonly markupMillionths: number | null
  }
>
export type RetailPriceSet = DomainEvent<'RetailPriceSet', RetailPrice>
export type RetailPriceRemoved = DomainEvent<'RetailPriceRemoved', Omit<RetailPrice, 'unitPriceMicros'>>
export type SellableChanged = DomainEvent<
  'SellableChanged',
  {
    /** What customers may order, by id; null: every product. */
    readonly productIds: readonly string[] | null
  }
>

/** What customers see of a reseller; null where it has none. */
export type Shop = {
  /** Stands on the pay page. */
  readonly merchantName: string | null
  /** https; where a customer lands after paying. */
  readonly website: string | null
  /** https; the shop in a messaging app, where there is no website. */
  readonly storefrontLink: string | null
}
export type ShopChanged = DomainEvent<'ShopChanged', Shop>

export type GatewaySet = DomainEvent<
  'GatewaySet',
  { readonly rail: ResellerRail; readonly provider: Provider; readonly reference: string }
>
export type GatewayRemoved = DomainEvent<'GatewayRemoved', { readonly rail: ResellerRail }>
export type MessagingBotSet = DomainEvent<
  'MessagingBotSet',
  { readonly provider: 'telegram'; readonly reference: string }
>
export type MessagingBotRemoved = DomainEvent<'MessagingBotRemoved', Record<string, never>>

export type TermsEvent =
  | DiscountChanged
  | MarkupChanged
  | RetailPriceSet
  | RetailPriceRemoved
  | SellableChanged
  | ShopChanged
  | GatewaySet
  | GatewayRemoved
  | MessagingBotSet
  | MessagingBotRemoved
