import { defineEvent, type EventOf } from '../../kernel/event.ts'
import {
  anyId,
  flag,
  group,
  id,
  integer,
  list,
  oneOf,
  orAbsent,
  orNull,
  pastTime,
  type ShapeValue,
  text,
  time,
} from '../../kernel/event-fields.ts'
import type { ProxyId } from '../../kernel/ids.ts'
import { endpointProtocols } from '../shared/endpoint-fields.ts'

const ip = text('the address')

const endpointFields = {
  protocol: oneOf(endpointProtocols, 'its protocol'),
  host: text('a name or an address'),
  port: integer('port', 'above 0', 'its port'),
  udp: flag('whether it relays UDP'),
  credentialId: orNull(text('names its login in the vault; null: none needed')),
}
/** A supplier's proxy that an address's traffic goes out through. Its credentials are in the vault. */
export type StockedEndpoint = ShapeValue<typeof endpointFields>
const endpoint = group(endpointFields, "the supplier's proxy of the address")

const poolAddressFields = {
  ip,
  carrierId: orNull(text('the mobile carrier; null for other products')),
  service: orNull(oneOf(['dedicated', 'shared'], 'of a mobile line; null for other products')),
}
const addressFields = {
  ...poolAddressFields,
  city: orNull(text('its location; null: unknown')),
  asn: orNull(integer('AS number', '0 or more', 'the number of its network; null: unknown')),
  asnOrg: orNull(text('the name of its network; null: unknown')),
  endpoint: orAbsent(endpoint),
}
/** An address as it is stocked. `carrierId` and `service` are null except for mobile. */
export type StockedAddress = ShapeValue<typeof addressFields>

const proxyId = id<ProxyId>('prx', 'the rental')
const productId = text('the product of the catalogue')
const country = text('ISO 3166 alpha-3, upper case')
const orderId = id('ord', 'the order')
const periodDays = integer('days', 'above 0', 'the paid order')
const availableFrom = time('the end of their rest before they can be sold again')

/**
 * `address-{ip}` ensures that an address is in stock only once, across products. It is written before the stock stream.
 */
const ofAddress = 'address-{ip}'
export const addressStocked = defineEvent('AddressStocked', {
  stream: ofAddress,
  means: 'The address was put into the stock of a product, and is in no other.',
  fields: { ip, productId, country },
})
export const addressRetired = defineEvent('AddressRetired', {
  stream: ofAddress,
  means: 'The address was removed from stock.',
  fields: { ip, reason: text("the operator's text") },
})
export type AddressStocked = EventOf<typeof addressStocked>
export type AddressRetired = EventOf<typeof addressRetired>
export const addressEventDefinitions = [addressStocked, addressRetired] as const
export type AddressEvent = EventOf<(typeof addressEventDefinitions)[number]>

/** `stock-{product}-{country}`: the allocation owner of dedicated orders. */
const stream = 'stock-{product}-{country}'

export const addressesStocked = defineEvent('AddressesStocked', {
  stream,
  means: 'Addresses were added to the stock.',
  fields: { productId, country, addresses: list(group(addressFields, 'an address'), 'the new addresses') },
})
export const endpointsChanged = defineEvent('EndpointsChanged', {
  stream,
  means: "The suppliers' proxies of addresses were changed, also for running rentals.",
  fields: {
    changes: list(
      group(
        { ip, endpoint, proxyId: orNull(id<ProxyId>('prx', 'its current rental; null: none')) },
        'an address',
      ),
      'the changes',
    ),
    changedAt: pastTime('when'),
  },
})

const allocationFields = {
  ...addressFields,
  proxyId,
  rotationMinutes: orNull(
    integer('minutes', '0 or more', 'between changes of the address, 0: by link; null for other products'),
  ),
}
export type Allocation = ShapeValue<typeof allocationFields>
export const addressesAllocated = defineEvent('AddressesAllocated', {
  stream,
  means: 'Addresses were allocated to an order.',
  fields: {
    orderId,
    accountId: id('acc', 'the account'),
    customerId: orNull(anyId("the reseller's customer; null: none")),
    productId,
    family: text('of the product'),
    country,
    periodDays,
    allocations: list(group(allocationFields, 'a rental'), 'one for each address'),
    allocatedAt: pastTime('when'),
    expiresAt: time('when the rentals end'),
  },
})
/** There are too few addresses. For an extension: a rental has ended, or it would end too far in the future. */
export const stockRefusals = ['out_of_stock', 'rental_ended', 'too_far_ahead'] as const
export type StockRefusal = (typeof stockRefusals)[number]
/** The first answer to an order is final: an order refused here is never allocated later. */
export const allocationRefused = defineEvent('AllocationRefused', {
  stream,
  means: 'The stock refused the order. The first answer for an order is final.',
  fields: { orderId, reason: oneOf(stockRefusals, 'why') },
})
export const addressesExtended = defineEvent('AddressesExtended', {
  stream,
  means: 'An order extended rentals.',
  fields: {
    orderId,
    periodDays,
    extensions: list(group({ proxyId, expiresAt: time('its new end') }, 'a rental'), 'one for each rental'),
    extendedAt: pastTime('when'),
  },
})
export const addressesReleased = defineEvent('AddressesReleased', {
  stream,
  means: 'Rentals ended.',
  fields: {
    reason: oneOf(['expired', 'order_failed', 'refunded'], 'why'),
    releases: list(group({ proxyId, ...poolAddressFields }, 'a rental'), 'one for each rental'),
    releasedAt: pastTime('when'),
    availableFrom,
  },
})
/** Why a customer wants another address. The explanation of `custom` is in the vault. */
export const replaceReasons = [
  'not_working',
  'wrong_location',
  'change_network',
  'low_speed',
  'custom',
] as const
export type ReplaceReason = (typeof replaceReasons)[number]

export const addressReplaced = defineEvent('AddressReplaced', {
  stream,
  means: 'A rental got another address of its pool, with the same id, order and end.',
  fields: {
    proxyId,
    accountId: id('acc', 'the account of the rental'),
    reason: oneOf(replaceReasons, 'the reason; the vault has the comment of `custom`'),
    requestId: orNull(
      text('the key of the request, so that a repeated one replaces nothing; null: without a key'),
    ),
    former: group(poolAddressFields, 'the former address'),
    address: group(addressFields, 'the new address'),
    replacedAt: pastTime('when'),
    availableFrom: time("the end of the former address's rest"),
  },
})

export type AddressesStocked = EventOf<typeof addressesStocked>
export type EndpointsChanged = EventOf<typeof endpointsChanged>
export type AddressesAllocated = EventOf<typeof addressesAllocated>
export type AllocationRefused = EventOf<typeof allocationRefused>
export type AddressesExtended = EventOf<typeof addressesExtended>
export type AddressesReleased = EventOf<typeof addressesReleased>
export type AddressReplaced = EventOf<typeof addressReplaced>

export const stockEventDefinitions = [
  addressesStocked,
  endpointsChanged,
  addressesAllocated,
  allocationRefused,
  addressesExtended,
  addressesReleased,
  addressReplaced,
] as const
export type StockEvent = EventOf<(typeof stockEventDefinitions)[number]>
