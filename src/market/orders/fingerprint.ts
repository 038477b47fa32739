import { hash } from 'node:crypto'
import { canonical } from '../../kernel/canonical.ts'

/**
 * What makes two requests under one `Idempotency-Key` the same: method, route with its path ids, canonical product id,
 * body and customer, without the price guard (docs/http-api.md, "Requests"). SHA-256, lower-case hex.
 */
export const fingerprintOf = (request: {
  readonly method: string
  readonly path: string
  readonly productId: string
  readonly body: Readonly<Record<string, unknown>>
  readonly customerId: string | null
}): string => {
  const { expected_amount_cents: _guard, product_id: _alias, ...body } = request.body
  const text = JSON.stringify([
    request.method,
    request.path,
    request.productId,
    canonical(body),
    request.customerId,
  ])
  return hash('sha256', text, 'hex')
}
