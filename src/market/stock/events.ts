import type { ProxyId } from '../../kernel/ids.ts'
import type { DomainEvent } from '../../platform/eventstore/event.ts'
import type { EndpointProtocol } from '../../terms/endpoint-fields.ts'

/** A supplier's proxy that traffic of an address goes out through; what signs in there stands in the vault. */
export type StockedEndpoint = {
  readonly protocol: EndpointProtocol
  readonly host: string
  readonly port: number
  /** Whether it passes UDP on. */
  readonly udp: boolean
  /** Names its login in the vault; null: it takes none. */
  readonly credentialId: string | null
}

/** An address as it is stocked. `carrierId` and `service` are null but for mobile. */
export type StockedAddress = {
  readonly ip: string
  readonly city: string | null
  readonly asn: number | null
  readonly asnOrg: string | null
  readonly carrierId: string | null
  readonly service: 'dedicated' | 'shared' | null
  /** How it is reached where it is a supplier's; absent: it is an address of one of our machines. */
  readonly endpoint?: StockedEndpoint
}

/** `address-{ip}`: an address is in stock once, across products; written before its stock stream. */
export type AddressStocked = DomainEvent<
  'AddressStocked',
  { readonly ip: string; readonly productId: string; readonly country: string }
>
export type AddressRetired = DomainEvent<'AddressRetired', { readonly ip: string; readonly reason: string }>
export type AddressEvent = AddressStocked | AddressRetired

/** `stock-{product}-{country}`: the arbiter of dedicated orders. Times are ISO 8601 UTC. */
export type AddressesStocked = DomainEvent<
  'AddressesStocked',
  { readonly productId: string; readonly country: string; readonly addresses: readonly StockedAddress[] }
>
/** The suppliers' proxies of addresses in stock are others now, those of running rentals too. */
export type EndpointsChanged = DomainEvent<
  'EndpointsChanged',
  {
    readonly changes: readonly {
      readonly ip: string
      readonly endpoint: StockedEndpoint
      /** The rental that has the address now; null: none. */
      readonly proxyId: ProxyId | null
    }[]
    readonly changedAt: string
  }
>
export type Allocation = StockedAddress & {
  readonly proxyId: ProxyId
  /** 0: by link; null but for mobile. */
  readonly rotationMinutes: number | null
}
export type AddressesAllocated = DomainEvent<
  'AddressesAllocated',
  {
    readonly orderId: string
    readonly accountId: string
    readonly customerId: string | null
    readonly productId: string
    readonly family: string
    readonly country: string
    readonly periodDays: number
    readonly allocations: readonly Allocation[]
    readonly allocatedAt: string
    readonly expiresAt: string
  }
>
/** Too few addresses; of an extension: a rental that is over, or would end further ahead than any may. */
export type StockRefusal = 'out_of_stock' | 'rental_ended' | 'too_far_ahead'
/** The first answer for an order stands: an order refused here is never allocated later. */
export type AllocationRefused = DomainEvent<
  'AllocationRefused',
  { readonly orderId: string; readonly reason: StockRefusal }
>
export type AddressesExtended = DomainEvent<
  'AddressesExtended',
  {
    readonly orderId: string
    readonly periodDays: number
    readonly extensions: readonly { readonly proxyId: ProxyId; readonly expiresAt: string }[]
    readonly extendedAt: string
  }
>
export type AddressesReleased = DomainEvent<
  'AddressesReleased',
  {
    readonly reason: 'expired' | 'order_failed' | 'refunded'
    readonly releases: readonly ({ readonly proxyId: ProxyId } & Pick<
      StockedAddress,
      'ip' | 'carrierId' | 'service'
    >)[]
    readonly releasedAt: string
    /** They rest until then before they are sold again. */
    readonly availableFrom: string
  }
>
/** Why a renter wants another address; what `custom` means stands in the vault. */
export const replaceReasons = [
  'not_working',
  'wrong_location',
  'change_network',
  'low_speed',
  'custom',
] as const
export type ReplaceReason = (typeof replaceReasons)[number]

/** A rental goes on with another address of its pool: the same id, order and end. */
export type AddressReplaced = DomainEvent<
  'AddressReplaced',
  {
    readonly proxyId: ProxyId
    readonly accountId: string
    readonly reason: ReplaceReason
    /** What names the request, so that one that is sent again replaces nothing; null: nothing did. */
    readonly requestId: string | null
    readonly former: Pick<StockedAddress, 'ip' | 'carrierId' | 'service'>
    readonly address: StockedAddress
    readonly replacedAt: string
    /** The former address rests until then. */
    readonly availableFrom: string
  }
>

export type StockEvent =
  | AddressesStocked
  | EndpointsChanged
  | AddressesAllocated
  | AllocationRefused
  | AddressesExtended
  | AddressesReleased
  | AddressReplaced
