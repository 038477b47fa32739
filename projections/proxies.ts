import type { Kysely } from 'kysely'
import type pg from 'pg'
import type { Family } from '../src/domain/shared/order-terms.ts'
import type { StockEvent, StockedAddress, StockedEndpoint } from '../src/domain/stock/events.ts'
import { isoTime } from '../src/kernel/clock.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { ListScope, AccountScope as Scope } from '../src/kernel/scopes.ts'
import { countedPage, sql } from '../src/platform/postgres/kysely.ts'
import type { ReadModel, Table } from '../src/platform/projections/read-model.ts'
import type { LabelDatabase } from './other-tables.ts'

/** The read tables of the queries in this file. */
type QueriedTables = {
  'read.proxies': ProxyRow
}

/** One address of one order. Expiring and expired are computed on read. */
export type ProxyRow = {
  readonly proxy_id: string
  readonly account_id: string
  /** The reseller's customer who owns it; null for the account itself. */
  readonly customer_id: string | null
  readonly order_id: string
  readonly product_id: string
  readonly family: string
  readonly ip: string
  /** The upstream proxy of the supplier; null if the address is on one of the service's own machines. */
  readonly endpoint: StockedEndpoint | null
  /**
   * Since when the rental has an upstream proxy; null: it has none. The gateway finds new usernames by this time.
   */
  readonly endpoint_since: string | null
  readonly country: string
  readonly city: string | null
  readonly asn: number | null
  readonly asn_org: string | null
  readonly carrier_id: string | null
  readonly service: string | null
  readonly rotation_minutes: number | null
  readonly period_days: number
  readonly created_at: string
  readonly expires_at: string
  /** When the address was returned to stock; null while it is rented. */
  readonly released_at: string | null
}

const proxiesTable: Table<ProxyRow> = {
  name: 'proxies',
  columns: {
    proxy_id: { type: 'text' },
    account_id: { type: 'text' },
    customer_id: { type: 'text', nullable: true },
    order_id: { type: 'text' },
    product_id: { type: 'text' },
    family: { type: 'text' },
    ip: { type: 'text' },
    endpoint: { type: 'jsonb', nullable: true },
    endpoint_since: { type: 'timestamptz', nullable: true },
    country: { type: 'text' },
    city: { type: 'text', nullable: true },
    asn: { type: 'bigint', nullable: true },
    asn_org: { type: 'text', nullable: true },
    carrier_id: { type: 'text', nullable: true },
    service: { type: 'text', nullable: true },
    rotation_minutes: { type: 'integer', nullable: true },
    period_days: { type: 'integer' },
    created_at: { type: 'timestamptz' },
    expires_at: { type: 'timestamptz' },
    released_at: { type: 'timestamptz', nullable: true },
  },
  key: ['proxy_id'],
  // The rentals of an order are found by the ids in the order's row. As with orders, those of one millisecond are
  // sorted on read: an index without their ids is half as large.
  indexes: [
    'account_id, created_at desc',
    // The rentals of one customer of a reseller. Rentals of the account itself are not in this index.
    'account_id, customer_id, created_at desc where customer_id is not null',
    // The rentals of all accounts, for operators.
    'created_at desc',
    'expires_at where released_at is null',
    // The gateway finds a rental by the dialled address.
    'ip where released_at is null',
    'endpoint_since where endpoint_since is not null',
  ],
}

/** One replacement of a rental's address. The customer's comment on it is in the vault. */
export type ReplacementRow = {
  readonly proxy_id: string
  readonly replaced_at: string
  readonly reason: string
  readonly former_ip: string
  readonly ip: string
}

const replacementsTable: Table<ReplacementRow> = {
  name: 'replacements',
  columns: {
    proxy_id: { type: 'text' },
    replaced_at: { type: 'timestamptz' },
    reason: { type: 'text' },
    former_ip: { type: 'text' },
    ip: { type: 'text' },
  },
  key: ['proxy_id', 'replaced_at'],
  indexes: [],
}

const endpointFields = (
  { endpoint }: Pick<StockedAddress, 'endpoint'>,
  since: string,
): Pick<ProxyRow, 'endpoint' | 'endpoint_since'> => ({
  endpoint: endpoint ?? null,
  endpoint_since: endpoint ? since : null,
})

const rowKey = (proxyId: string) => ({ table: proxiesTable.name, key: [proxyId] })

/** Rentals of dedicated addresses. */
export const proxies: ReadModel = {
  name: 'proxies',
  version: 7,
  tables: [proxiesTable, replacementsTable],
  reads: (recorded) => {
    const event = recorded as RecordedEvent<StockEvent>
    if (event.type === 'AddressesExtended') return event.data.extensions.map(({ proxyId }) => rowKey(proxyId))
    if (event.type === 'AddressesReleased') return event.data.releases.map(({ proxyId }) => rowKey(proxyId))
    if (event.type === 'AddressReplaced') return [rowKey(event.data.proxyId)]
    if (event.type === 'EndpointsChanged')
      return event.data.changes.flatMap(({ proxyId }) => (proxyId === null ? [] : [rowKey(proxyId)]))
    return []
  },
  apply: (recorded, rows) => {
    const event = recorded as RecordedEvent<StockEvent>
    const change = (proxyId: string, fields: Partial<ProxyRow>): void => {
      const rental = rows.get(proxiesTable, [proxyId])
      if (!rental) throw new Error(`${event.type} of rental ${proxyId}, which was never allocated`)
      rows.put(proxiesTable, { ...rental, ...fields })
    }
    switch (event.type) {
      case 'AddressesAllocated': {
        const { data } = event
        for (const allocation of data.allocations)
          rows.insert(proxiesTable, {
            proxy_id: allocation.proxyId,
            account_id: data.accountId,
            customer_id: data.customerId,
            order_id: data.orderId,
            product_id: data.productId,
            family: data.family,
            ip: allocation.ip,
            ...endpointFields(allocation, data.allocatedAt),
            country: data.country,
            city: allocation.city,
            asn: allocation.asn,
            asn_org: allocation.asnOrg,
            carrier_id: allocation.carrierId,
            service: allocation.service,
            rotation_minutes: allocation.rotationMinutes,
            period_days: data.periodDays,
            created_at: data.allocatedAt,
            expires_at: data.expiresAt,
            released_at: null,
          })
        return
      }
      case 'AddressesExtended': {
        for (const { proxyId, expiresAt } of event.data.extensions)
          change(proxyId, { expires_at: expiresAt, period_days: event.data.periodDays })
        return
      }
      case 'AddressReplaced': {
        const { proxyId, reason, former, address, replacedAt } = event.data
        const { ip, city, asn, asnOrg } = address
        change(proxyId, { ip, city, asn, asn_org: asnOrg, ...endpointFields(address, replacedAt) })
        rows.insert(replacementsTable, {
          proxy_id: proxyId,
          replaced_at: replacedAt,
          reason,
          former_ip: former.ip,
          ip,
        })
        return
      }
      case 'EndpointsChanged': {
        const { changes, changedAt } = event.data
        for (const { proxyId, endpoint } of changes)
          if (proxyId !== null) change(proxyId, endpointFields({ endpoint }, changedAt))
        return
      }
      case 'AddressesReleased': {
        for (const { proxyId } of event.data.releases) change(proxyId, { released_at: event.data.releasedAt })
        return
      }
    }
  },
}

/** The present rentals of an address, of any account, up to 50: a shared address has several. For the operator. */
export const rentalsAt = async (pool: pg.Pool, ip: string): Promise<readonly ProxyRow[]> => {
  const { rows } = await pool.query<ProxyRow>(
    'select * from read.proxies where ip = $1::text and released_at is null order by created_at desc limit 50',
    [ip],
  )
  return rows
}

export const proxyStatuses = ['active', 'expiring', 'expired'] as const
export type ProxyStatus = (typeof proxyStatuses)[number]

/** A rental's row with the account's own label. */
export type FoundProxy = Omit<ProxyRow, 'family' | 'service'> & {
  readonly family: Family
  readonly service: 'dedicated' | 'shared' | null
  readonly label: string | null
}

/** A rental is expiring from this time before its end, milliseconds. */
export const expiringMs = 72 * 60 * 60 * 1000

export type ProxyQueries = Kysely<QueriedTables & LabelDatabase>

export type ProxyFilter = {
  readonly family?: string | undefined
  readonly productId?: string | undefined
  readonly orderId?: string | undefined
  readonly country?: string | undefined
  /** `running`: active or expiring. */
  readonly status?: ProxyStatus | 'running' | undefined
  /** Milliseconds since the epoch. */
  readonly expiresBeforeMs?: number | undefined
  readonly proxyIds?: readonly string[] | undefined
}

const proxiesOf = (
  db: ProxyQueries,
  { accountId, customerId }: ListScope,
  filter: ProxyFilter,
  nowMs: number,
) => {
  let matching = db
    .selectFrom('read.proxies as proxy')
    .leftJoin('vault.labels as label', 'label.resource_id', 'proxy.proxy_id')
  if (accountId !== null) matching = matching.where('proxy.account_id', '=', accountId)
  if (customerId !== null) matching = matching.where('proxy.customer_id', '=', customerId)
  const { family, productId, orderId, country, status, expiresBeforeMs, proxyIds } = filter
  if (family !== undefined) matching = matching.where('proxy.family', '=', family)
  if (productId !== undefined) matching = matching.where('proxy.product_id', '=', productId)
  if (orderId !== undefined)
    // An order that extends rentals contains the ids of rentals of other orders.
    matching = matching.where('proxy.order_id', '=', orderId).where(sql<boolean>`proxy.proxy_id = any (array(
        select unnest(proxy_ids) from read.orders where order_id = ${orderId}::text))`)
  if (country !== undefined) matching = matching.where('proxy.country', '=', country)
  if (proxyIds !== undefined) matching = matching.where('proxy.proxy_id', 'in', [...proxyIds])
  if (expiresBeforeMs !== undefined)
    matching = matching.where('proxy.expires_at', '<', isoTime(expiresBeforeMs))
  if (status === undefined) return matching
  // The same rules as in `proxyStatus`.
  const now = isoTime(nowMs)
  const soon = isoTime(nowMs + expiringMs)
  if (status === 'expired')
    return matching.where((eb) =>
      eb.or([eb('proxy.released_at', 'is not', null), eb('proxy.expires_at', '<=', now)]),
    )
  const running = matching.where('proxy.released_at', 'is', null).where('proxy.expires_at', '>', now)
  if (status === 'running') return running
  return status === 'expiring'
    ? running.where('proxy.expires_at', '<=', soon)
    : running.where('proxy.expires_at', '>', soon)
}

/** All rentals within the scope that match the filter, up to `limit`. */
export const findProxies = (
  db: ProxyQueries,
  scope: Scope,
  filter: ProxyFilter,
  nowMs: number,
  limit: number,
): Promise<FoundProxy[]> =>
  proxiesOf(db, scope, filter, nowMs)
    .selectAll('proxy')
    .select('label.label')
    .orderBy('proxy.proxy_id')
    .limit(limit)
    .execute() as Promise<FoundProxy[]>

/** A page of the rentals within the scope, newest first, and the number of rentals that match the filter. */
export const listProxies = async (
  db: ProxyQueries,
  scope: ListScope,
  filter: ProxyFilter,
  page: { readonly limit: number; readonly offset: number },
  nowMs: number,
): Promise<{ proxies: readonly FoundProxy[]; total: number }> => {
  const matching = proxiesOf(db, scope, filter, nowMs)
  const { rows, total } = await countedPage(
    matching
      .selectAll('proxy')
      .select('label.label')
      .orderBy('proxy.created_at', 'desc')
      .orderBy('proxy.proxy_id', 'desc'),
    matching.select((eb) => eb.fn.countAll<number>().as('total')),
    page,
  )
  return { proxies: rows as readonly FoundProxy[], total }
}

/**
 * Up to `limit` rentals within the scope that match the filter, after a given one, newest first; null: from the
 * newest. It reads no row before the page.
 */
export const proxiesAfter = (
  db: ProxyQueries,
  scope: Scope,
  filter: ProxyFilter,
  page: { readonly after: { readonly at: string; readonly id: string } | null; readonly limit: number },
  nowMs: number,
): Promise<readonly FoundProxy[]> => {
  let matching = proxiesOf(db, scope, filter, nowMs)
  if (page.after !== null) {
    const { at, id } = page.after
    matching = matching
      .where('proxy.created_at', '<=', at)
      .where(sql<boolean>`(proxy.created_at, proxy.proxy_id) < (${at}::timestamptz, ${id}::text)`)
  }
  return matching
    .selectAll('proxy')
    .select('label.label')
    .orderBy('proxy.created_at', 'desc')
    .orderBy('proxy.proxy_id', 'desc')
    .limit(page.limit)
    .execute() as Promise<FoundProxy[]>
}
