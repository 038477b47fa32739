import { accountFold } from '../../src/domain/accounts/fold.ts'
import { createCatalog } from '../../src/domain/catalog/catalog.ts'
import { catalogFold } from '../../src/domain/catalog/fold.ts'
import { defaultResellerTerms, quote, type ResellerTerms, saleOf } from '../../src/domain/catalog/pricing.ts'
import { termsFold } from '../../src/domain/resellers/fold.ts'
import type { OrderDetails } from '../../src/domain/shared/order-terms.ts'
import type { AccountId } from '../../src/kernel/ids.ts'
import { accountStream, catalogStream, termsStream } from '../../src/kernel/streams.ts'
import type { History } from './history.ts'

/**
 * The discount and markup of a reseller, null for other accounts; no order of the history has a retail price.
 */
const termsOf = ({ state, written }: History, id: AccountId): ResellerTerms | null => {
  if (!state(accountStream(id), accountFold)?.reseller) return null
  const stream = termsStream(id)
  const { discountBp, markupMillionths } = state(stream, termsFold)
  const revision = written.filter((event) => event.stream === stream).length - 1
  return revision < 0
    ? defaultResellerTerms
    : { ...defaultResellerTerms, discountBp, markupMillionths, revision }
}

/** An order as the catalogue and the terms of a history price it just now. */
export const priced = (history: History, order: OrderDetails): OrderDetails => {
  const catalog = history.state(catalogStream, catalogFold)
  const product = createCatalog(catalog).resolve(order.productId)
  if (product === undefined) throw new Error(`the catalogue has no ${order.productId}`)
  const terms = termsOf(history, order.accountId)
  const { quantity, target: wanted } = order
  const quoted = quote(product, { quantity, rateRequest: wanted, terms, minQuantity: 1 })
  if (!quoted.ok) throw new Error(quoted.refusal.message)
  const { costCents: _, termsRevision: _revision, ...rest } = order
  const sale = saleOf(product, quoted.value, { terms, isForCustomer: order.customerId !== null })
  return { ...rest, ...sale, catalogDigest: catalog.digest ?? '' }
}
