import { type ApiError, refuse } from '../../platform/http/errors.ts'
import type { CatalogRefusal, Result } from './refusal.ts'

/** A refusal of the catalogue as the API answers it. */
const refuseForCatalog = (refusal: CatalogRefusal): ApiError =>
  refusal.code === 'product_unavailable'
    ? refuse('product_unavailable', refusal.message, { successorId: refusal.successorId ?? null })
    : refuse(refusal.code, refusal.message)

/** The value of a result. @throws ApiError for a refusal */
export const accepted = <Value>(result: Result<Value>): Value => {
  if (!result.ok) throw refuseForCatalog(result.refusal)
  return result.value
}
