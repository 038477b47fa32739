import type { AccountId } from '../../src/kernel/ids.ts'
import { accountFold } from '../../src/market/accounts/fold.ts'
import { createCatalog } from '../../src/market/catalog/catalog.ts'
import { catalogFold } from '../../src/market/catalog/fold.ts'
import { plainTerms, quote, type ResellerTerms } from '../../src/market/catalog/pricing.ts'
import { saleOf } from '../../src/market/catalog/sale.ts'
import { termsFold } from '../../src/market/resellers/fold.ts'
import type { OrderDetails } from '../../src/terms/order-details.ts'
import { accountStream, catalogStream, termsStream } from '../../src/terms/streams.ts'
import type { History } from './acts.ts'

/** The discount and markup of a reseller, null for who is none; no order of the history is of a retail price. */
const termsOf = ({ state, written }: History, id: AccountId): ResellerTerms | null => {
  if (!state(accountStream(id), accountFold)?.reseller) return null
  const stream = termsStream(id)
  const { discountBp, markupMillionths } = state(stream, termsFold)
  const revision = written.filter((event) => event.stream === stream).length - 1
  return revision < 0 ? plainTerms : { ...plainTerms, discountBp, markupMillionths, revision }
}

/** An order as the catalogue and the terms of a history price it just now. */
export const priced = (history: History, order: OrderDetails): OrderDetails => {
  const catalog = history.state(catalogStream, catalogFold)
  const product = createCatalog(catalog).resolve(order.productId)
  if (product === undefined) throw new Error(`the catalogue has no ${order.productId}`)
  const terms = termsOf(history, order.accountId)
  const { quantity, target: wanted } = order
  const quoted = quote(product, { quantity, wanted, terms, minQuantity: 1 })
  if (!quoted.ok) throw new Error(quoted.refusal.message)
  const { costCents: _, termsRevision: _revision, ...rest } = order
  const sale = saleOf(product, quoted.value, { terms, isForCustomer: order.customerId !== null })
  return { ...rest, ...sale, catalogDigest: catalog.digest ?? '' }
}
