import type { CustomerId, KeyId } from '../kernel/ids.ts'
import type { OrderDetails } from './order-fields.ts'

export { type Delivery, type Family, families, type Renewal, type Shape } from './families.ts'
export type { OrderDetails, PaidPeriod, Target } from './order-fields.ts'

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
