import type { AccountCreated } from '../../domain/accounts/events.ts'
import { quote, type Sale, saleOf } from '../../domain/catalog/pricing.ts'
import type { DepositEvent } from '../../domain/deposits/events.ts'
import type { LedgerEvent } from '../../domain/ledger/events.ts'
import type { OrderEvent } from '../../domain/orders/events.ts'
import type { OrderDetails } from '../../domain/shared/order-terms.ts'
import { sha256 } from '../../kernel/digest.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { ReadModel, Rows, Table } from '../../platform/projections/read-model.ts'
import {
  applyCatalog,
  catalogReads,
  catalogTables,
  findProduct,
  isCatalogEvent,
  productReads,
} from './priced-catalog.ts'
import {
  applySeller,
  applyTerms,
  findTerms,
  isTermsEvent,
  pricedTermsReads,
  sellerReads,
  termsPrefix,
  termsReads,
  termsTables,
} from './priced-terms.ts'
import { recordViolation } from './violation.ts'

/**
 * An order that awaits its payment, which may come long after it was priced. `sales`: JSON, the digests of its sales.
 */
type AwaitedRow = { order_id: string; sales: string }

const awaitedTable: Table<AwaitedRow> = {
  name: 'audit_awaited_prices',
  columns: { order_id: { type: 'text' }, sales: { type: 'text' } },
  key: ['order_id'],
  indexes: [],
}

/** The number of stored sales of an awaited order. It waits for one invoice at a time. */
const maxSales = 20

/** The order that an event prices or charges; null for any other event. */
const orderIn = (recorded: RecordedEvent): OrderDetails | null => {
  const event = recorded as RecordedEvent<LedgerEvent | OrderEvent | DepositEvent>
  switch (event.type) {
    case 'WalletDebited':
    case 'CustomerCharged':
    case 'OrderAwaitingPayment':
      return event.data.order
    case 'DepositOpened':
      return event.data.pending?.order ?? null
    default:
      return null
  }
}

/** Whether the event gives a price to a payer who pays later. */
const isAwaited = ({ type }: RecordedEvent): boolean =>
  type === 'OrderAwaitingPayment' || type === 'DepositOpened'

/** The digest of an order without its time of creation, because a retry creates the order again. */
const digestOf = ({ createdAt: _, ...order }: OrderDetails): string =>
  sha256(
    JSON.stringify(
      order,
      Object.keys(order)
        .concat(Object.keys(order.target ?? {}))
        .sort(),
    ),
  ).toString('base64')

/** The sale of an order by the catalogue and the terms, or the reason why there is none. */
const priceOf = (rows: Rows, order: OrderDetails, atMs: number): Sale | string => {
  const catalogProduct = findProduct(rows, order, atMs)
  if (typeof catalogProduct === 'string') return catalogProduct
  const terms = findTerms(rows, order, atMs)
  if (typeof terms === 'string') return terms
  const { product, isSold } = catalogProduct
  if (!isSold) return `${product.id} was not sold at that time`
  const isForCustomer = order.customerId !== null
  if (isForCustomer && terms?.sellable === false)
    return `${product.id} is nothing that customers of ${order.accountId} may order`
  const quotation = quote(product, {
    quantity: order.quantity,
    rateRequest: order.target,
    terms,
    ...(order.kind === 'extension' && { minQuantity: 1 }),
  })
  return quotation.ok ? saleOf(product, quotation.value, { terms, isForCustomer }) : quotation.refusal.message
}

/** The fields in which an order differs from its sale, in words; null without a difference. */
const differences = (order: OrderDetails, sale: Sale): string | null => {
  const names = new Set([...Object.keys(sale), 'costCents', 'termsRevision']) as Set<keyof Sale>
  const differingFields = [...names].flatMap((name) => {
    if (order[name] === sale[name]) return []
    const [statedText, expectedText] = [order[name], sale[name]].map((value) =>
      value === null || typeof value !== 'object'
        ? String(value ?? 'none')
        : JSON.stringify(value, Object.keys(value).sort()),
    )
    return statedText === expectedText ? [] : [`${name} ${statedText}, not ${expectedText}`]
  })
  return differingFields.length === 0 ? null : differingFields.join('; ')
}

/**
 * The charge and the contents of an order equal the result of the pricing function for its product, quantity and
 * target, with the catalogue and the terms that the order names. Both were in force when the order was recorded, or
 * when its invoice was opened. The digest of a catalogue matches its products.
 */
export const priceRules: ReadModel = {
  name: 'audit-prices',
  version: 1,
  tables: [...catalogTables, ...termsTables, awaitedTable],
  takes: {
    types: new Set([
      'CatalogImported',
      'ProductStateChanged',
      'AccountCreated',
      'WalletDebited',
      'CustomerCharged',
      'OrderAwaitingPayment',
      'DepositOpened',
    ]),
    streams: new Set([termsPrefix]),
  },
  reads: (event) => {
    if (isCatalogEvent(event)) return catalogReads
    if (isTermsEvent(event)) return termsReads(event)
    if (event.type === 'AccountCreated')
      return [sellerReads((event.data as AccountCreated['data']).accountId)]
    const order = orderIn(event)
    if (order === null) return []
    return [
      { table: awaitedTable.name, key: [order.orderId] },
      ...productReads(order),
      ...pricedTermsReads(order),
    ]
  },
  apply: (event, rows) => {
    if (isCatalogEvent(event)) {
      const problem = applyCatalog(event, rows)
      if (problem !== null) recordViolation(rows, event, 'catalogue', problem)
      return
    }
    if (isTermsEvent(event)) return applyTerms(event, rows)
    if (event.type === 'AccountCreated') return applySeller(event.data as AccountCreated['data'], rows)
    const order = orderIn(event)
    if (order === null) return
    const awaited = rows.get(awaitedTable, [order.orderId])
    const awaitedDigests: readonly string[] = awaited === undefined ? [] : JSON.parse(awaited.sales)
    if (awaited !== undefined || isAwaited(event)) {
      const digest = digestOf(order)
      if (awaitedDigests.includes(digest)) return
      if (isAwaited(event)) {
        const sales = JSON.stringify([...awaitedDigests, digest].slice(-maxSales))
        rows.put(awaitedTable, { order_id: order.orderId, sales })
      }
    }
    const sale = priceOf(rows, order, Date.parse(event.metadata.recordedAt))
    const problem = typeof sale === 'string' ? sale : differences(order, sale)
    if (problem !== null)
      recordViolation(
        rows,
        event,
        'price',
        `order ${order.orderId} is not what its catalogue gives: ${problem}`,
      )
  },
}
