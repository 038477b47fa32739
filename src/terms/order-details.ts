import type { AccountId, CustomerId, KeyId, OrderId, PlanId, ProxyId } from '../kernel/ids.ts'
import type { Interval, Period } from './interval.ts'
import type { OrderMethod } from './methods.ts'

export const families = ['residential', 'isp', 'mobile', 'ipv4', 'ipv6'] as const
export type Family = (typeof families)[number]
export type Shape = 'gateway_gb' | 'gateway_time' | 'addresses' | 'addresses_mobile'
export type Delivery = 'lines' | 'addresses'
export type Renewal = 'topup' | 'repurchase' | 'extend'

/** What a dedicated-IP order asks for. `country` is alpha-3, upper case; the last three are null but for mobile. */
export type Target = {
  readonly country: string
  readonly periodDays: number
  readonly carrierId: string | null
  readonly service: 'dedicated' | 'shared' | null
  /** 0: by link. */
  readonly rotationMinutes: number | null
}

/** Which period of which subscription, so that a crash after the debit leaves enough to go on. */
export type PaidPeriod = {
  readonly subscriptionId: string
  readonly interval: Interval
  readonly period: Period
  /** Null for the first period, which starts when its order is placed. ISO 8601 UTC. */
  readonly periodStart: string | null
}

/**
 * The whole order, as it was decided. It stands in the debit that pays it, so that the order can be
 * completed from the ledger alone.
 */
export type OrderDetails = {
  readonly orderId: OrderId
  readonly accountId: AccountId
  /** Null where a person ordered in the console: the actor of the event says who. */
  readonly keyId: KeyId | null
  /** The key under which what it costs counts against a daily cap; absent where that is `keyId`. */
  readonly capKeyId?: KeyId
  readonly customerId: CustomerId | null
  /** `order` buys, `topup` adds to the plan named in the path, `extension` prolongs rentals. */
  readonly kind: 'order' | 'topup' | 'extension'
  readonly productId: string
  readonly family: Family
  readonly shape: Shape
  readonly delivery: Delivery
  readonly renewal: Renewal
  readonly unit: string
  readonly quantity: number
  readonly target: Target | null
  /** Bytes that a `gateway_gb` order adds; null for other shapes. */
  readonly bytes: number | null
  /** Days that a `gateway_time` plan runs; null for other shapes. */
  readonly periodDays: number | null
  /** The plan that the order opens or adds to; null for addresses. */
  readonly planId: PlanId | null
  /** The rentals that an extension keeps; empty for other kinds. */
  readonly proxyIds: readonly ProxyId[]
  readonly unitPriceCents: number
  /** What the payer is charged, whole cents: the customer's price where one is named. */
  readonly amountCents: number
  /** What leaves the reseller's wallet for an order for its customer, whole cents; present there and only there. */
  readonly costCents?: number
  /** The revision of the reseller's terms that the figures come from; absent where none are set. */
  readonly termsRevision?: number
  /** The period of a subscription that the order pays; absent on any other order. */
  readonly subscription?: PaidPeriod
  /** The service's own price before any discount. */
  readonly listCents: number
  readonly currency: 'USD'
  readonly billingType: 'PAYG'
  readonly method: OrderMethod
  /** SHA-256 of the catalogue that priced it. */
  readonly catalogDigest: string
  /** SHA-256 over method, route, canonical product, body and customer (docs/http-api.md, "Requests"). */
  readonly fingerprint: string
  /** ISO 8601 UTC. */
  readonly createdAt: string
}

/** What reads show of it: all but the digests that only the log keeps. */
export type ShownDetails = Omit<OrderDetails, 'catalogDigest' | 'fingerprint'>

/** An order for a reseller's customer: the customer's credit pays `amountCents`, the reseller's wallet `costCents`. */
export type CustomerOrder = OrderDetails & { readonly customerId: CustomerId; readonly costCents: number }

export const isCustomerOrder = (order: OrderDetails): order is CustomerOrder => {
  if (order.customerId === null) return false
  if (order.costCents === undefined) throw new Error(`order ${order.orderId} names a customer and no cost`)
  return true
}

/** Who pays as an order names it: a key, or none. */
export const orderedBy = (
  payer: { readonly keyId: KeyId; readonly capKeyId: KeyId } | { readonly keyId: null },
): Pick<OrderDetails, 'keyId' | 'capKeyId'> => {
  if (payer.keyId === null) return { keyId: null }
  const { keyId, capKeyId } = payer
  return capKeyId === keyId ? { keyId } : { keyId, capKeyId }
}

/** What the wallet must have for an order, whole cents: the cost of one for a customer, else the amount. */
export const walletCents = ({ amountCents, costCents }: OrderDetails): number => costCents ?? amountCents
