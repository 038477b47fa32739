import type { AccountCreated } from '../../domain/accounts/events.ts'
import { type ResellerTerms, retailKey } from '../../domain/catalog/pricing.ts'
import type { TermsEvent } from '../../domain/resellers/events.ts'
import type { OrderDetails } from '../../domain/shared/order-terms.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { RowKey, Rows, Table } from '../../platform/projections/read-model.ts'
import { staleMs } from './priced-catalog.ts'

/**
 * One value of a reseller's terms, with the earlier values that ended less than `staleMs` ago: JSON, `[revision, time
 * of recording in milliseconds, value]`, oldest first. The slot `revision` has every revision of the stream.
 */
type TermsRow = { account_id: string; slot: string; versions: string }
type Version = readonly [revision: number, atMs: number, value: unknown]

type SellerRow = { account_id: string; reseller: boolean }

const termsTable: Table<TermsRow> = {
  name: 'audit_terms',
  columns: { account_id: { type: 'text' }, slot: { type: 'text' }, versions: { type: 'text' } },
  key: ['account_id', 'slot'],
  indexes: [],
}
const sellersTable: Table<SellerRow> = {
  name: 'audit_sellers',
  columns: { account_id: { type: 'text' }, reseller: { type: 'boolean' } },
  key: ['account_id'],
  indexes: [],
}
export const termsTables = [termsTable, sellersTable]

export const termsPrefix = 'terms-'
export const isTermsEvent = (event: RecordedEvent): event is RecordedEvent<TermsEvent> =>
  event.stream.startsWith(termsPrefix)

const revisionSlot = 'revision'
const retailSlot = (productId: string, target: Parameters<typeof retailKey>[0]): string =>
  `retail ${productId} ${retailKey(target)}`

/** The value that an event changes; null for an event without an effect on prices. */
const changeIn = (event: RecordedEvent<TermsEvent>): readonly [slot: string, value: unknown] | null => {
  switch (event.type) {
    case 'DiscountChanged':
      return ['discount', event.data.discountBp]
    case 'MarkupChanged':
      return ['markup', event.data.markupMillionths]
    case 'SellableChanged':
      return ['sellable', event.data.productIds]
    case 'RetailPriceSet':
    case 'RetailPriceRemoved': {
      const { productId, country, periodDays } = event.data
      const target = country === null || periodDays === null ? null : { country, periodDays }
      const price = event.type === 'RetailPriceSet' ? event.data.unitPriceMicros : null
      return [retailSlot(productId, target), price]
    }
    default:
      return null
  }
}

export const termsReads = (event: RecordedEvent<TermsEvent>): readonly RowKey[] => {
  const account = event.stream.slice(termsPrefix.length)
  return [revisionSlot, ...(changeIn(event)?.slice(0, 1) ?? [])].map((slot) => ({
    table: termsTable.name,
    key: [account, slot as string],
  }))
}

const versionsOf = (rows: Rows, account: string, slot: string): readonly Version[] =>
  JSON.parse(rows.get(termsTable, [account, slot])?.versions ?? '[]')

/** Applies an event of a reseller's terms. */
export const applyTerms = (event: RecordedEvent<TermsEvent>, rows: Rows): void => {
  const account_id = event.stream.slice(termsPrefix.length)
  const atMs = Date.parse(event.metadata.recordedAt)
  const addVersion = (slot: string, value: unknown): void => {
    // A version stays until the next one is older than `staleMs`.
    const storedVersions = versionsOf(rows, account_id, slot)
    const currentVersions = storedVersions.filter((_version, index) => {
      const nextVersion = storedVersions[index + 1]
      return nextVersion === undefined || nextVersion[1] >= atMs - staleMs
    })
    const versions = JSON.stringify([...currentVersions, [event.revision, atMs, value]])
    rows.put(termsTable, { account_id, slot, versions })
  }
  addVersion(revisionSlot, null)
  const change = changeIn(event)
  if (change !== null) addVersion(...change)
}

export const sellerReads = (accountId: string): RowKey => ({ table: sellersTable.name, key: [accountId] })

export const applySeller = ({ accountId, reseller }: AccountCreated['data'], rows: Rows): void =>
  rows.put(sellersTable, { account_id: accountId, reseller })

/**
 * The rows that `findTerms` reads, as far as they are known from the order alone: a reseller's own terms are rare among
 * orders.
 */
export const pricedTermsReads = (order: OrderDetails): readonly RowKey[] => {
  const { accountId, productId, target, termsRevision, customerId } = order
  const seller = sellerReads(accountId)
  if (termsRevision === undefined && customerId === null) return [seller]
  const slots = [revisionSlot, 'discount', 'markup', 'sellable', retailSlot(productId, target)]
  return [seller, ...slots.map((slot) => ({ table: termsTable.name, key: [accountId, slot] }))]
}

/**
 * The terms that an order names; null when the account is not a reseller; a text with the reason when the terms were
 * not in force.
 */
export const findTerms = (rows: Rows, order: OrderDetails, atMs: number): ResellerTerms | null | string => {
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
  const price = valueIn(retailSlot(productId, target)) as number | null
  const sellable = valueIn('sellable') as readonly string[] | null
  return {
    discountBp: (valueIn('discount') as number | null) ?? 0,
    markupMillionths: valueIn('markup') as number | null,
    retail: new Map(price === null ? [] : [[retailKey(target), price]]),
    sellable: sellable === null || sellable.includes(productId),
    revision: termsRevision ?? null,
  }
}
