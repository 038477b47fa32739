import type { Delivery, Family, Renewal, Shape } from '../shared/order-terms.ts'

export type { Delivery, Family, Renewal, Shape }
export type ProductState = 'active' | 'parked' | 'retired'
export type Service = 'dedicated' | 'shared'

/** The price of every unit of an order from this quantity on. Micro-dollars: 1 cent = 10,000. */
export type Tier = { readonly from: number; readonly unitPriceMicros: number }

/** The price of one IP in each of these countries (alpha-3) for each of these periods. */
export type AddressRate = {
  readonly countries: readonly string[]
  readonly periodDays: readonly number[]
  readonly tiers: readonly Tier[]
}

export type Carrier = { readonly id: string; readonly name: string; readonly country: string }

/** The price of one mobile IP for each combination of these carriers, rotations and periods. */
export type MobileRate = {
  readonly carriers: readonly string[]
  readonly service: Service
  /** Minutes between changes of the address; 0: by link. */
  readonly rotationMinutes: readonly number[]
  readonly periodDays: readonly number[]
  readonly tiers: readonly Tier[]
}

type Common = {
  /** Never changes, because it is part of the names of plan and stock streams. */
  readonly id: string
  /** Old ids, which can still be used. */
  readonly aliases: readonly string[]
  readonly name: string
  readonly description: string
  readonly features: readonly string[]
  readonly protocols: readonly string[]
  readonly family: Family
  readonly state: ProductState
  /** The product to buy instead; set on a retired product, null on others. */
  readonly successorId: string | null
  /** When a parked product is expected back, ISO 8601; null if unknown. */
  readonly parkedUntil: string | null
  /** The unit of the quantity, e.g. `GB`, `IP`, `100 Mbps`. */
  readonly unit: string
  readonly minQuantity: number
  readonly maxQuantity: number
  readonly billing: {
    readonly payg: boolean
    readonly subscription: boolean
    readonly intervals: readonly ('month' | 'year')[]
  }
}

/** Line generation of a gateway product: the most lines per call and the targeting that its lines can have. */
export type Generate = { readonly maxCount: number; readonly targeting: readonly string[] }

export type GatewayGbProduct = Common & {
  readonly shape: 'gateway_gb'
  readonly renewal: 'topup' | 'repurchase'
  readonly tiers: readonly Tier[]
  readonly generate: Generate
}

export type GatewayTimeProduct = Common & {
  readonly shape: 'gateway_time'
  readonly renewal: 'repurchase'
  /** How long a plan runs. The quantity counts speed units. */
  readonly periodDays: number
  readonly tiers: readonly Tier[]
  readonly generate: Generate
}

export type AddressesProduct = Common & {
  readonly shape: 'addresses'
  readonly renewal: 'extend'
  readonly rates: readonly AddressRate[]
}

export type MobileProduct = Common & {
  readonly shape: 'addresses_mobile'
  readonly renewal: 'extend'
  readonly carriers: readonly Carrier[]
  readonly rates: readonly MobileRate[]
}

/** A product of the catalogue file. */
export type ProductTerms = GatewayGbProduct | GatewayTimeProduct | AddressesProduct | MobileProduct

/** A product in the catalogue: its terms, and since when it has been in its state (ISO 8601 UTC). */
export type Product = ProductTerms & { readonly since: string }

/** Part of the API, so integrations depend on it. `lines` are generated from a plan, `addresses` are rented. */
export const deliveryOf = (shape: Shape): Delivery =>
  shape === 'gateway_gb' || shape === 'gateway_time' ? 'lines' : 'addresses'

/** The dedicated shapes, which sell addresses from stock. */
export type DedicatedProduct = AddressesProduct | MobileProduct

export const isDedicated = (product: ProductTerms): product is DedicatedProduct =>
  deliveryOf(product.shape) === 'addresses'

/** The error codes of catalogue and prices (docs/reference/api.md, "Errors" and "Catalogue and prices"). */
export type CatalogRefusalCode =
  | 'unknown_product'
  | 'product_unavailable'
  | 'invalid_quantity'
  | 'invalid_country'
  | 'invalid_period'
  | 'invalid_targeting'
  | 'no_price_list'
  | 'no_options'

/** An expected refusal: its code, and a message that names the field and the accepted values. */
export type CatalogRefusal = {
  readonly code: CatalogRefusalCode
  readonly message: string
  /** With `product_unavailable` only; null for a parked product. */
  readonly successorId?: string | null
}

export type Result<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly refusal: CatalogRefusal }

export const accept = <Value>(value: Value): Result<Value> => ({ ok: true, value })
export const reject = (
  code: CatalogRefusalCode,
  message: string,
): { ok: false; refusal: CatalogRefusal } => ({
  ok: false,
  refusal: { code, message },
})

/** The catalogue after an event. `digest` and `importedAt` are null before the first import. */
export type CatalogState = {
  readonly digest: string | null
  readonly importedAt: string | null
  readonly products: readonly Product[]
}
