/** The error codes that catalogue and prices answer (docs/http-api.md, "Errors" and "Catalogue and prices"). */
export type CatalogRefusalCode =
  | 'unknown_product'
  | 'product_unavailable'
  | 'invalid_quantity'
  | 'invalid_country'
  | 'invalid_period'
  | 'invalid_targeting'
  | 'no_price_list'
  | 'no_options'

/** An expected refusal: its code, and a message that names the field and the accepted set. */
export type CatalogRefusal = {
  readonly code: CatalogRefusalCode
  readonly message: string
  /** Of `product_unavailable` only; null for a parked product. */
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
