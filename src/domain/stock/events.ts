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
  protocol: oneOf(endpointProtocols, 'how it is spoken to'),
  host: text('a name or an address'),
  port: integer('port', 'above 0', 'where it listens'),
  udp: flag('whether it passes UDP on'),
  credentialId: orNull(text('names its login in the vault; null: it takes none')),
}
/** A supplier's proxy that an address's traffic goes out through. Its credentials are in the vault. */
export type StockedEndpoint = ShapeValue<typeof endpointFields>
const endpoint = group(endpointFields, "a supplier's proxy that traffic of the address goes out through")

const poolAddressFields = {
  ip,
  carrierId: orNull(text('the mobile carrier; null but for mobile')),
  service: orNull(oneOf(['dedicated', 'shared'], 'of a mobile line; null but for mobile')),
}
const addressFields = {
  ...poolAddressFields,
  city: orNull(text('where it stands; null: not known')),
  asn: orNull(integer('AS number', '0 or more', 'whose network it is in; null: not known')),
  asnOrg: orNull(text('who that is; null: not known')),
  endpoint: orAbsent(endpoint),
}
/** An address as it is stocked. `carrierId` and `service` are null except for mobile. */
export type StockedAddress = ShapeValue<typeof addressFields>

const proxyId = id<ProxyId>('prx', 'the rental')
const productId = text('the product of the catalogue')
const country = text('ISO 3166 alpha-3, upper case')
const orderId = id('ord', 'the order that it answers')
const periodDays = integer('days', 'above 0', 'what was paid for')
const availableFrom = time('they rest until then before they are sold again')

/**
 * `address-{ip}` ensures that an address is in stock only once, across products. It is written before the stock stream.
 */
const ofAddress = 'address-{ip}'
export const addressStocked = defineEvent('AddressStocked', {
  stream: ofAddress,
  means: 'The address is in the stock of this product, and of no other.',
  fields: { ip, productId, country },
})
export const addressRetired = defineEvent('AddressRetired', {
  stream: ofAddress,
  means: 'The address is in no stock any more.',
  fields: { ip, reason: text('as the operator wrote it') },
})
export type AddressStocked = EventOf<typeof addressStocked>
export type AddressRetired = EventOf<typeof addressRetired>
export const addressEventDefinitions = [addressStocked, addressRetired] as const
export type AddressEvent = EventOf<(typeof addressEventDefinitions)[number]>

/** `stock-{product}-{country}`: the allocation owner of dedicated orders. */
const stream = 'stock-{product}-{country}'

export const addressesStocked = defineEvent('AddressesStocked', {
  stream,
  means: 'Addresses can be sold from here on.',
  fields: { productId, country, addresses: list(group(addressFields, 'an address'), 'the new ones') },
})
export const endpointsChanged = defineEvent('EndpointsChanged', {
  stream,
  means: "The suppliers' proxies of addresses in stock are others now, those of running rentals too.",
  fields: {
    changes: list(
      group(
        { ip, endpoint, proxyId: orNull(id<ProxyId>('prx', 'the rental that has it now; null: none')) },
        'an address',
      ),
      'what changed',
    ),
    changedAt: pastTime('when'),
  },
})

const allocationFields = {
  ...addressFields,
  proxyId,
  rotationMinutes: orNull(
    integer('minutes', '0 or more', 'between changes of the address, 0: by link; null but for mobile'),
  ),
}
export type Allocation = ShapeValue<typeof allocationFields>
export const addressesAllocated = defineEvent('AddressesAllocated', {
  stream,
  means: 'An order got its addresses.',
  fields: {
    orderId,
    accountId: id('acc', 'whose they are'),
    customerId: orNull(anyId("the reseller's customer that has them; null: none")),
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
  means: 'The stock cannot serve the order. The first answer for an order stands.',
  fields: { orderId, reason: oneOf(stockRefusals, 'why') },
})
export const addressesExtended = defineEvent('AddressesExtended', {
  stream,
  means: 'An order prolonged rentals.',
  fields: {
    orderId,
    periodDays,
    extensions: list(
      group({ proxyId, expiresAt: time('when it ends now') }, 'a rental'),
      'one for each rental',
    ),
    extendedAt: pastTime('when'),
  },
})
export const addressesReleased = defineEvent('AddressesReleased', {
  stream,
  means: 'Rentals are over.',
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
  means: 'A rental goes on with another address of its pool: the same id, order and end.',
  fields: {
    proxyId,
    accountId: id('acc', 'whose rental'),
    reason: oneOf(replaceReasons, 'why; what `custom` means stands in the vault'),
    requestId: orNull(
      text('names the request, so that one that is sent again replaces nothing; null: nothing did'),
    ),
    former: group(poolAddressFields, 'what it had'),
    address: group(addressFields, 'what it has now'),
    replacedAt: pastTime('when'),
    availableFrom: time('the former address rests until then'),
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
