import { shareOfCents } from '../../terms/money.ts'
import type { OrderDetails } from '../../terms/order-details.ts'
import type { Quote, ResellerTerms } from './pricing.ts'
import { deliveryOf, type Product } from './product.ts'

/** What an order says of what is sold and what it costs: all of it follows from the product, the terms and what was asked for. */
export type Sale = Pick<
  OrderDetails,
  | 'productId'
  | 'family'
  | 'shape'
  | 'delivery'
  | 'renewal'
  | 'unit'
  | 'quantity'
  | 'target'
  | 'bytes'
  | 'periodDays'
  | 'unitPriceCents'
  | 'amountCents'
  | 'costCents'
  | 'termsRevision'
  | 'listCents'
  | 'currency'
  | 'billingType'
>

const bytesPerGb = 1_000_000_000

/**
 * What is charged: the service's price; a reseller's cost for itself; for its customer the customer's price, and the
 * cost beside it.
 */
const chargesOf = (
  { amountCents, reseller }: Quote,
  isForCustomer: boolean,
  terms: ResellerTerms | null,
): Pick<Sale, 'amountCents' | 'costCents' | 'termsRevision'> => {
  if (reseller === null) return { amountCents }
  const { yourCostCents } = reseller
  const charges = isForCustomer ? { amountCents, costCents: yourCostCents } : { amountCents: yourCostCents }
  const revision = terms?.revision ?? null
  return revision === null ? charges : { ...charges, termsRevision: revision }
}

/** A quote as an order states it: what is charged, and what is handed out for it. */
export const saleOf = (
  product: Product,
  figures: Quote,
  { terms, isForCustomer }: { readonly terms: ResellerTerms | null; readonly isForCustomer: boolean },
): Sale => {
  const charges = chargesOf(figures, isForCustomer, terms)
  const { quantity, target, listCents, currency, billingType } = figures
  return {
    productId: product.id,
    family: product.family,
    shape: product.shape,
    delivery: deliveryOf(product.shape),
    renewal: product.renewal,
    unit: product.unit,
    quantity,
    target,
    bytes: product.shape === 'gateway_gb' ? quantity * bytesPerGb : null,
    periodDays: product.shape === 'gateway_time' ? product.periodDays : null,
    unitPriceCents: shareOfCents(charges.amountCents, 1, quantity),
    ...charges,
    listCents,
    currency,
    billingType,
  }
}
