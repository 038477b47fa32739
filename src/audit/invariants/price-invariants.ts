import { catalogDigest } from '../../domain/catalog/catalog-file.ts'
import type { CatalogImported } from '../../domain/catalog/events.ts'
import {
  type OwnPrice,
  quote,
  type ResellerTerms,
  retailKey,
  type Sale,
  saleOf,
} from '../../domain/catalog/pricing.ts'
import type { Product } from '../../domain/catalog/product.ts'
import type { PriceLimits, TermsEvent } from '../../domain/resellers/events.ts'
import type { OrderDetails } from '../../domain/shared/order-terms.ts'
import { sha256 } from '../../kernel/digest.ts'
import { accountOf } from '../../kernel/event.ts'
import { catalogStream } from '../../kernel/streams.ts'
import {
  column,
  nullable,
  type RowKey,
  type RowOf,
  type Rows,
  readTable,
} from '../../platform/projections/read-model.ts'
import {
  type Context,
  eventRules,
  invariant,
  type Recorded,
  recordedMs,
  rowKey,
  staleMs,
  subjectOf,
} from './invariant.ts'

/** A catalogue in force, or replaced less than `staleMs` ago; `replacedMs` is null while it is in force. */
const catalogsTable = readTable({
  name: 'audit_catalogs',
  columns: {
    digest: column.text(),
    replacedMs: nullable(column.bigint()),
    productIds: column.jsonb<readonly string[]>(),
  },
  key: ['digest'],
})
/** The digests of these catalogues, first the one in force: one row. */
const currentCatalogsTable = readTable({
  name: 'audit_catalogs_standing',
  columns: { name: column.text(), digests: column.jsonb<readonly string[]>() },
  key: ['name'],
})
const productsTable = readTable({
  name: 'audit_products',
  columns: {
    digest: column.text(),
    productId: column.text(),
    /** The product as it was imported. */
    product: column.jsonb<Product>(),
    state: column.text(),
    /** The time of the last state change, by times of recording. */
    stateMs: column.bigint(),
  },
  key: ['digest', 'productId'],
})

const currentDigests = (rows: Rows): readonly string[] =>
  rows.get(currentCatalogsTable, ['catalog'])?.digests ?? []

const removeCatalog = (rows: Rows, { digest, productIds }: RowOf<typeof catalogsTable>): void => {
  for (const productId of productIds) rows.remove(productsTable, [digest, productId])
  rows.remove(catalogsTable, [digest])
}

const importCatalog = (data: CatalogImported['data'], atMs: number, rows: Rows): void => {
  const { digest } = data
  const previousDigests = currentDigests(rows)
  const storedDigests = [digest]
  for (const formerDigest of previousDigests) {
    if (formerDigest === digest) continue
    const row = rows.get(catalogsTable, [formerDigest])
    if (row === undefined) continue
    const replacedMs = row.replacedMs ?? atMs
    if (replacedMs < atMs - staleMs) removeCatalog(rows, row)
    else {
      storedDigests.push(formerDigest)
      rows.put(catalogsTable, { ...row, replacedMs })
    }
  }
  // The first digest is the catalogue that was in force.
  const [previousDigest] = previousDigests
  for (const product of data.products) {
    const formerProduct =
      previousDigest === undefined ? undefined : rows.get(productsTable, [previousDigest, product.id])
    rows.put(productsTable, {
      digest,
      productId: product.id,
      product,
      state: product.state,
      stateMs: formerProduct?.state === product.state ? formerProduct.stateMs : atMs,
    })
  }
  const productIds = data.products.map(({ id }) => id)
  rows.put(catalogsTable, { digest, replacedMs: null, productIds })
  rows.put(currentCatalogsTable, { name: 'catalog', digests: storedDigests })
}

/**
 * The digest of a catalogue matches its products, and a state is of a product of the catalogue. The products are stored
 * for `priceRules`.
 */
export const catalogRules = eventRules({
  name: 'audit-catalog',
  version: 1,
  tables: [catalogsTable, currentCatalogsTable, productsTable],
  reads: () => [rowKey(currentCatalogsTable, 'catalog')],
  on: {
    CatalogImported: (event, { rows, report }) => {
      if (event.stream !== catalogStream) return
      const { digest, products } = event.data
      importCatalog(event.data, recordedMs(event), rows)
      const computedDigest = catalogDigest(products.map(({ since: _, ...terms }) => terms))
      if (computedDigest !== digest)
        report('catalogue', `it names the digest ${digest}, its products come to ${computedDigest}`)
    },
    ProductStateChanged: (event, { rows, report }) => {
      if (event.stream !== catalogStream) return
      const { productId, state } = event.data
      const [digest] = currentDigests(rows)
      const row = digest === undefined ? undefined : rows.get(productsTable, [digest, productId])
      if (row === undefined) report('catalogue', `the catalogue has no product ${productId}`)
      else if (row.state !== state) rows.put(productsTable, { ...row, state, stateMs: recordedMs(event) })
    },
  },
})

/** The product of an order in the catalogue that it names, or the reason why there is none. */
const findProduct = (
  rows: Rows,
  order: OrderDetails,
  atMs: number,
): { readonly product: Product; readonly isSold: boolean } | string => {
  const { catalogDigest: digest, productId } = order
  const catalog = rows.get(catalogsTable, [digest])
  if (catalog === undefined || (catalog.replacedMs !== null && catalog.replacedMs < atMs - staleMs))
    return `no catalogue ${digest} was in force`
  const row = rows.get(productsTable, [digest, productId])
  if (row === undefined) return `the catalogue ${digest} has no product ${productId}`
  return {
    product: row.product,
    isSold: row.state === 'active' || row.stateMs >= atMs - staleMs,
  }
}

/**
 * One value of a reseller's terms, with the earlier values that ended less than `staleMs` ago, oldest first. The slot
 * `revision` has every revision of the stream.
 */
const termsTable = readTable({
  name: 'audit_terms',
  columns: { accountId: column.text(), slot: column.text(), versions: column.jsonb<readonly Version[]>() },
  key: ['accountId', 'slot'],
})
type Version = readonly [revision: number, recordedMs: number, value: unknown]

const sellersTable = readTable({
  name: 'audit_sellers',
  columns: { accountId: column.text(), reseller: column.boolean() },
  key: ['accountId'],
})

type TermsRecord = Recorded<TermsEvent['type']>

const revisionSlot = 'revision'
const limitsSlot = 'limits'
const retailSlot = (productId: string, target: Parameters<typeof retailKey>[0]): string =>
  `retail ${productId} ${retailKey(target)}`

/** The value that an event changes; null for an event without an effect on prices. */
const changeIn = (event: TermsRecord): readonly [slot: string, value: unknown] | null => {
  switch (event.type) {
    case 'DiscountChanged':
      return ['discount', event.data.discountBp]
    case 'MarkupChanged':
      return ['markup', event.data.markupMillionths]
    case 'SellableChanged':
      return ['sellable', event.data.productIds]
    case 'PriceLimitsChanged':
      return [limitsSlot, event.data.limits]
    case 'RetailPriceSet':
    case 'RetailPriceRemoved': {
      const { productId, country, periodDays } = event.data
      const target = country === null || periodDays === null ? null : { country, periodDays }
      const price: OwnPrice | null = event.type === 'RetailPriceSet' ? event.data : null
      return [retailSlot(productId, target), price && { tiers: price.tiers, belowCost: price.belowCost }]
    }
    default:
      return null
  }
}

const versionsOf = (rows: Rows, account: string, slot: string): readonly Version[] =>
  rows.get(termsTable, [account, slot])?.versions ?? []

const addVersion = (event: TermsRecord, slot: string, value: unknown, rows: Rows): void => {
  const accountId = subjectOf(event)
  const atMs = recordedMs(event)
  // A version stays until the next one is older than `staleMs`.
  const storedVersions = versionsOf(rows, accountId, slot)
  const currentVersions = storedVersions.filter((_version, index) => {
    const nextVersion = storedVersions[index + 1]
    return nextVersion === undefined || nextVersion[1] >= atMs - staleMs
  })
  rows.put(termsTable, {
    accountId,
    slot,
    versions: [...currentVersions, [event.revision, atMs, value] as const],
  })
}

const applyTerms = (event: TermsRecord, { rows }: Context): void => {
  addVersion(event, revisionSlot, null, rows)
  const change = changeIn(event)
  if (change !== null) addVersion(event, ...change, rows)
}

/** A reseller changes its prices only within the limits of the service. */
const applyOwnPrice = (
  event: Recorded<'MarkupChanged' | 'RetailPriceSet' | 'RetailPriceRemoved'>,
  context: Context,
): void => {
  const { rows, report } = context
  const accountId = subjectOf(event)
  if (accountOf(event.metadata.actor) === accountId) {
    const limits = versionsOf(rows, accountId, limitsSlot).at(-1)?.[2] as PriceLimits | null | undefined
    if (!limits) report('price-not-allowed', `${accountId} changed its prices, which only operators may do`)
    else if (event.type === 'MarkupChanged') {
      const multiple = event.data.markupMillionths ?? 1_000_000
      if (multiple < limits.fromMillionths || multiple > limits.toMillionths)
        report('markup-outside-limits', `${accountId} set a markup outside the limits of the service`)
    }
  }
  applyTerms(event, context)
}

/** Stores the terms of resellers for `priceRules`, and checks the prices that resellers set themselves. */
export const termsRules = eventRules({
  name: 'audit-terms',
  version: 3,
  tables: [termsTable],
  kind: 'terms-',
  reads: (event) => {
    const [slot] = changeIn(event) ?? []
    const slots = slot === undefined ? [revisionSlot] : [revisionSlot, limitsSlot, slot]
    return slots.map((one) => rowKey(termsTable, subjectOf(event), one))
  },
  on: {
    DiscountChanged: applyTerms,
    MarkupChanged: applyOwnPrice,
    RetailPriceSet: applyOwnPrice,
    RetailPriceRemoved: applyOwnPrice,
    PriceLimitsChanged: applyTerms,
    SellableChanged: applyTerms,
    ShopChanged: applyTerms,
    GatewaySet: applyTerms,
    GatewayRemoved: applyTerms,
    MessagingBotSet: applyTerms,
    MessagingBotRemoved: applyTerms,
  },
})

/** Not an invariant: stores which accounts are resellers for `priceRules`. */
export const sellerRules = invariant({
  name: 'audit-sellers',
  version: 1,
  table: sellersTable,
  key: ({ data }) => data.accountId,
  on: {
    AccountCreated: ({ data: { accountId, reseller } }) => ({ accountId, reseller }),
  },
})

/**
 * The terms that an order names; null when the account is not a reseller; a text with the reason when the terms were
 * not in force.
 */
const findTerms = (rows: Rows, order: OrderDetails, atMs: number): ResellerTerms | null | string => {
  const { accountId, productId, target, termsRevision } = order
  const seller = rows.get(sellersTable, [accountId])
  if (!seller?.reseller)
    return termsRevision === undefined ? null : `${accountId} is no reseller and has no terms`
  const revision = termsRevision ?? -1
  const knownRevisions = versionsOf(rows, accountId, revisionSlot)
  const isKnownRevision = knownRevisions.some(([one]) => one === revision)
  const nextVersion = knownRevisions.find(([one]) => one > revision)
  const isFirst = knownRevisions.length === 0 || knownRevisions[0]?.[0] === 0
  if (revision < 0 ? !isFirst : !isKnownRevision)
    return `terms ${revision < 0 ? 'that were never set' : revision} of ${accountId} were not in force`
  if (nextVersion !== undefined && nextVersion[1] < atMs - staleMs)
    return `terms ${revision < 0 ? 'that were never set' : revision} of ${accountId} were no longer in force`
  const valueIn = (slot: string): unknown =>
    versionsOf(rows, accountId, slot).findLast(([one]) => one <= revision)?.[2] ?? null
  const price = valueIn(retailSlot(productId, target)) as OwnPrice | null
  const sellable = valueIn('sellable') as readonly string[] | null
  return {
    discountBp: (valueIn('discount') as number | null) ?? 0,
    markupMillionths: valueIn('markup') as number | null,
    retail: new Map(price === null ? [] : [[retailKey(target), price]]),
    priceLimits: valueIn(limitsSlot) as PriceLimits | null,
    sellable: sellable === null || sellable.includes(productId),
    revision: termsRevision ?? null,
  }
}

/**
 * An order that awaits its payment, which may come long after it was priced. `sales`: the digests of its sales.
 */
const awaitedTable = readTable({
  name: 'audit_awaited_prices',
  columns: { orderId: column.text(), sales: column.jsonb<readonly string[]>() },
  key: ['orderId'],
})

/** The number of stored sales of an awaited order. It waits for one invoice at a time. */
const maxSales = 20

type PricedEvent = Recorded<'WalletDebited' | 'CustomerCharged' | 'OrderAwaitingPayment' | 'DepositOpened'>

/** The order that an event prices or charges; null for a deposit without one. */
const orderIn = ({ data }: PricedEvent): OrderDetails | null =>
  'order' in data ? data.order : (data.pending?.order ?? null)

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

/** The rows that pricing an order reads. A reseller's own terms are rare among orders. */
const readsOf = (order: OrderDetails): readonly RowKey[] => {
  const { accountId, productId, target, termsRevision, customerId, catalogDigest: digest } = order
  const keys = [
    rowKey(awaitedTable, order.orderId),
    rowKey(catalogsTable, digest),
    rowKey(productsTable, digest, productId),
    rowKey(sellersTable, accountId),
  ]
  if (termsRevision === undefined && customerId === null) return keys
  const slots = [revisionSlot, limitsSlot, 'discount', 'markup', 'sellable', retailSlot(productId, target)]
  return [...keys, ...slots.map((slot) => rowKey(termsTable, accountId, slot))]
}

const checkPrice = (event: PricedEvent, { rows, report }: Context): void => {
  const order = orderIn(event)
  if (order === null) return
  // These events give a price to a payer who pays later.
  const isAwaited = event.type === 'OrderAwaitingPayment' || event.type === 'DepositOpened'
  const awaited = rows.get(awaitedTable, [order.orderId])
  if (awaited !== undefined || isAwaited) {
    const digest = digestOf(order)
    const digests = awaited?.sales ?? []
    if (digests.includes(digest)) return
    if (isAwaited)
      rows.put(awaitedTable, { orderId: order.orderId, sales: [...digests, digest].slice(-maxSales) })
  }
  const sale = priceOf(rows, order, recordedMs(event))
  const problem = typeof sale === 'string' ? sale : differences(order, sale)
  if (problem !== null) report('price', `order ${order.orderId} is not what its catalogue gives: ${problem}`)
}

/**
 * The charge and the contents of an order equal the result of the pricing function for its product, quantity and
 * target, with the catalogue and the terms that the order names. Both were in force when the order was recorded, or
 * when its invoice was opened.
 */
export const priceRules = eventRules({
  name: 'audit-prices',
  version: 3,
  tables: [awaitedTable],
  reads: (event) => {
    const order = orderIn(event)
    return order === null ? [] : readsOf(order)
  },
  on: {
    WalletDebited: checkPrice,
    CustomerCharged: checkPrice,
    OrderAwaitingPayment: checkPrice,
    DepositOpened: checkPrice,
  },
})
