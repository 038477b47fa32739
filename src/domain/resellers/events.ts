import { defineEvent, type EventOf } from '../../kernel/event.ts'
import {
  commitment,
  exactly,
  flag,
  group,
  integer,
  list,
  micros,
  oneOf,
  orNull,
  type ShapeValue,
  text,
} from '../../kernel/event-fields.ts'
import { providers, resellerRails } from '../payments/payments.ts'

/**
 * A `terms-{reseller}` stream: a reseller's discount, prices, shop and gateways. Credentials are in the vault, under
 * `reference`.
 */
const stream = 'terms-{reseller}'

const priceFields = {
  productId: text('the product of the catalogue'),
  country: orNull(text('ISO 3166 alpha-3; null for a product without countries')),
  periodDays: orNull(integer('days', 'above 0', 'null for a product without rental periods')),
}
const retailFields = {
  ...priceFields,
  tiers: list(
    group(
      {
        from: integer('units', 'above 0', 'the least quantity of an order with this price'),
        unitPriceMicros: micros('0 or more', 'the price of one unit; 1 cent is 10,000'),
      },
      'The price of every unit of an order from a quantity on.',
    ),
    "the customers' prices of one unit, the first from 1 on",
  ),
  belowCost: flag("whether the price may be below the reseller's cost"),
}
/** A reseller's retail price of one unit by quantity. Micro-dollars: 1 cent is 10,000. */
export type RetailPrice = ShapeValue<typeof retailFields>

const shopFields = {
  merchantName: orNull(text('the name on payment pages; null: none')),
  website: orNull(text("https; the customer's return address after a payment; null: none")),
  storefrontLink: orNull(text('https; the shop in a messaging app, if there is no website; null: none')),
}
/** What customers see of a reseller. A field is null if the reseller has no such value. */
export type Shop = ShapeValue<typeof shopFields>

const rail = oneOf(resellerRails, 'its rails')
const reference = text('names the credentials in the vault')
const credentialFields = { reference, commitment: commitment('the sealed credentials') }

export const discountChanged = defineEvent('DiscountChanged', {
  stream,
  means: "The reseller's discount was changed.",
  fields: {
    discountBp: integer('basis points', '0 or more', 'off the list price: 1,250 is 12.5 %'),
  },
})
export const markupChanged = defineEvent('MarkupChanged', {
  stream,
  means: "The customers' prices without a retail price were changed.",
  fields: {
    markupMillionths: orNull(
      integer(
        'millionths',
        '0 or more',
        'a multiple of the list price: 1,300,000 is 1.30; null: customers pay the list price',
      ),
    ),
  },
})
export const retailPriceSet = defineEvent('RetailPriceSet', {
  stream,
  means: "The customers' price of a product was set.",
  fields: retailFields,
})
export const retailPriceRemoved = defineEvent('RetailPriceRemoved', {
  stream,
  means: "The customers' price of a product follows the markup again.",
  fields: priceFields,
})
const limitFields = {
  fromMillionths: integer('millionths', 'above 0', 'the lowest multiple of the list price'),
  toMillionths: integer('millionths', 'above 0', 'the highest multiple of the list price'),
}
/** The prices that a reseller may set, as multiples of the list price in millionths: 1,300,000 is 1.30. */
export type PriceLimits = ShapeValue<typeof limitFields>

export const priceLimitsChanged = defineEvent('PriceLimitsChanged', {
  stream,
  means: 'The limits were changed within which the reseller sets the prices of its customers.',
  fields: { limits: orNull(group(limitFields, 'null: only operators set the prices')) },
})
export const sellableChanged = defineEvent('SellableChanged', {
  stream,
  means: 'The products that customers may order were changed.',
  fields: { productIds: orNull(list(text('a product'), 'the allowed products; null: every product')) },
})
export const shopChanged = defineEvent('ShopChanged', {
  stream,
  means: "The reseller's public profile was changed.",
  fields: shopFields,
})
export const gatewaySet = defineEvent('GatewaySet', {
  stream,
  means: "Customers pay on the reseller's own gateway.",
  fields: { rail, provider: oneOf(providers, 'whose'), ...credentialFields },
})
export const gatewayRemoved = defineEvent('GatewayRemoved', {
  stream,
  means: 'The gateway accepts no more payments.',
  fields: { rail },
})
export const messagingBotSet = defineEvent('MessagingBotSet', {
  stream,
  means: "The reseller's bot sends messages to customers.",
  fields: { provider: exactly('telegram', 'of the bot'), ...credentialFields },
})
export const messagingBotRemoved = defineEvent('MessagingBotRemoved', {
  stream,
  means: 'The reseller has no messaging bot any more.',
  fields: {},
})

export type DiscountChanged = EventOf<typeof discountChanged>
export type MarkupChanged = EventOf<typeof markupChanged>
export type RetailPriceSet = EventOf<typeof retailPriceSet>
export type RetailPriceRemoved = EventOf<typeof retailPriceRemoved>
export type PriceLimitsChanged = EventOf<typeof priceLimitsChanged>
export type SellableChanged = EventOf<typeof sellableChanged>
export type ShopChanged = EventOf<typeof shopChanged>
export type GatewaySet = EventOf<typeof gatewaySet>
export type GatewayRemoved = EventOf<typeof gatewayRemoved>
export type MessagingBotSet = EventOf<typeof messagingBotSet>
export type MessagingBotRemoved = EventOf<typeof messagingBotRemoved>

export const termsEventDefinitions = [
  discountChanged,
  markupChanged,
  retailPriceSet,
  retailPriceRemoved,
  priceLimitsChanged,
  sellableChanged,
  shopChanged,
  gatewaySet,
  gatewayRemoved,
  messagingBotSet,
  messagingBotRemoved,
] as const
export type TermsEvent = EventOf<(typeof termsEventDefinitions)[number]>
