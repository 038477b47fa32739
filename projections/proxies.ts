import type { Family } from '../src/domain/shared/order-terms.ts'
import type { StockEvent, StockedAddress, StockedEndpoint } from '../src/domain/stock/events.ts'
import { isoTime } from '../src/kernel/clock.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { ListScope, AccountScope as Scope } from '../src/kernel/scopes.ts'
import {
  countedPage,
  type Db,
  inScope,
  sql,
  type TimePage,
  timePage,
} from '../src/platform/postgres/kysely.ts'
import { column, nullable, type RowOf, readModel, readTable } from '../src/platform/projections/read-model.ts'

/** One address of one order. Expiring and expired are computed on read. */
const proxiesTable = readTable({
  name: 'proxies',
  columns: {
    proxyId: column.text(),
    accountId: column.text(),
    /** The reseller's customer who owns it; null for the account itself. */
    customerId: nullable(column.text()),
    orderId: column.text(),
    productId: column.text(),
    family: column.text(),
    ip: column.text(),
    /** The upstream proxy of the supplier; null if the address is on one of the service's own machines. */
    endpoint: nullable(column.jsonb<StockedEndpoint>()),
    /**
     * Since when the rental has an upstream proxy; null: it has none. The gateway finds new usernames by this time.
     */
    endpointSince: nullable(column.timestamptz()),
    country: column.text(),
    city: nullable(column.text()),
    asn: nullable(column.bigint()),
    asnOrg: nullable(column.text()),
    carrierId: nullable(column.text()),
    service: nullable(column.text()),
    rotationMinutes: nullable(column.integer()),
    periodDays: column.integer(),
    createdAt: column.timestamptz(),
    expiresAt: column.timestamptz(),
    /** When the address was returned to stock; null while it is rented. */
    releasedAt: nullable(column.timestamptz()),
  },
  key: ['proxyId'],
  // The rentals of an order are found by the ids in the order's row. As with orders, those of one millisecond are
  // sorted on read: an index without their ids is half as large.
  indexes: [
    'account_id, created_at desc',
    // The rentals of one customer of a reseller. Rentals of the account itself are not in this index.
    'account_id, customer_id, created_at desc where customer_id is not null',
    // The rentals of all accounts, for operators.
    'created_at desc',
    'expires_at where released_at is null',
    // The gateway finds a rental by the dialled address, and operators its former rentals.
    'ip',
    'endpoint_since where endpoint_since is not null',
  ],
})

export type ProxyRow = RowOf<typeof proxiesTable>

/** One replacement of a rental's address. The customer's comment on it is in the vault. */
const replacementsTable = readTable({
  name: 'replacements',
  columns: {
    proxyId: column.text(),
    replacedAt: column.timestamptz(),
    reason: column.text(),
    formerIp: column.text(),
    ip: column.text(),
  },
  key: ['proxyId', 'replacedAt'],
  indexes: ['former_ip'],
})

const endpointFields = (
  { endpoint }: Pick<StockedAddress, 'endpoint'>,
  since: string,
): Pick<ProxyRow, 'endpoint' | 'endpointSince'> => ({
  endpoint: endpoint ?? null,
  endpointSince: endpoint ? since : null,
})

const rowKey = (proxyId: string) => ({ table: proxiesTable.name, key: [proxyId] })

/** Rentals of dedicated addresses. */
export const proxies = readModel({
  name: 'proxies',
  version: 8,
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
            proxyId: allocation.proxyId,
            accountId: data.accountId,
            customerId: data.customerId,
            orderId: data.orderId,
            productId: data.productId,
            family: data.family,
            ip: allocation.ip,
            ...endpointFields(allocation, data.allocatedAt),
            country: data.country,
            city: allocation.city,
            asn: allocation.asn,
            asnOrg: allocation.asnOrg,
            carrierId: allocation.carrierId,
            service: allocation.service,
            rotationMinutes: allocation.rotationMinutes,
            periodDays: data.periodDays,
            createdAt: data.allocatedAt,
            expiresAt: data.expiresAt,
            releasedAt: null,
          })
        return
      }
      case 'AddressesExtended': {
        for (const { proxyId, expiresAt } of event.data.extensions)
          change(proxyId, { expiresAt, periodDays: event.data.periodDays })
        return
      }
      case 'AddressReplaced': {
        const { proxyId, reason, former, address, replacedAt } = event.data
        const { ip, city, asn, asnOrg } = address
        change(proxyId, { ip, city, asn, asnOrg, ...endpointFields(address, replacedAt) })
        rows.insert(replacementsTable, {
          proxyId,
          replacedAt,
          reason,
          formerIp: former.ip,
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
        for (const { proxyId } of event.data.releases) change(proxyId, { releasedAt: event.data.releasedAt })
        return
      }
    }
  },
})

/** A time during which a rental had an address. */
export type AddressRental = Pick<ProxyRow, 'proxyId' | 'accountId' | 'orderId'> & {
  readonly from: string
  readonly until: string
  readonly current: boolean
}

/** The largest number of rentals in the history of an address. */
const maxRentals = 50

/** The rentals of an address, of any account, newest first. A shared address has several at a time. */
export const rentalsOfAddress = async (db: Db, ip: string): Promise<readonly AddressRental[]> => {
  const rentals = await db
    .selectFrom('read.proxies as p')
    .selectAll('p')
    .where((eb) =>
      eb.or([
        eb('p.ip', '=', ip),
        eb(
          'p.proxyId',
          'in',
          eb.selectFrom('read.replacements').select('proxyId').where('formerIp', '=', ip),
        ),
      ]),
    )
    .orderBy('p.createdAt', 'desc')
    .limit(maxRentals)
    .execute()
  const replacements = await db
    .selectFrom('read.replacements')
    .select(['proxyId', 'replacedAt', 'formerIp'])
    .where('proxyId', '=', sql<string>`any (${rentals.map(({ proxyId }) => proxyId)}::text[])`)
    .orderBy('replacedAt')
    .execute()
  const replacementsOf = Map.groupBy(replacements, ({ proxyId }) => proxyId)
  return rentals.flatMap(({ proxyId, accountId, orderId, ip: lastIp, createdAt, releasedAt, expiresAt }) => {
    const replaced = replacementsOf.get(proxyId) ?? []
    const starts = [createdAt, ...replaced.map(({ replacedAt }) => replacedAt)]
    const addresses = [...replaced.map(({ formerIp }) => formerIp), lastIp]
    return addresses.flatMap((address, at) =>
      address === ip
        ? {
            proxyId,
            accountId,
            orderId,
            from: starts[at] ?? createdAt,
            until: starts[at + 1] ?? releasedAt ?? expiresAt,
            current: at === replaced.length && releasedAt === null,
          }
        : [],
    )
  })
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

const proxiesOf = (db: Db, scope: ListScope, filter: ProxyFilter, nowMs: number) => {
  let matching = db
    .selectFrom('read.proxies as proxy')
    .leftJoin('vault.labels as label', 'label.resourceId', 'proxy.proxyId')
    .where(inScope('proxy', scope))
  const { family, productId, orderId, country, status, expiresBeforeMs, proxyIds } = filter
  if (family !== undefined) matching = matching.where('proxy.family', '=', family)
  if (productId !== undefined) matching = matching.where('proxy.productId', '=', productId)
  if (orderId !== undefined)
    // An order that extends rentals contains the ids of rentals of other orders.
    matching = matching.where('proxy.orderId', '=', orderId).where(sql<boolean>`proxy.proxy_id = any (array(
        select unnest(proxy_ids) from read.orders where order_id = ${orderId}::text))`)
  if (country !== undefined) matching = matching.where('proxy.country', '=', country)
  if (proxyIds !== undefined) matching = matching.where('proxy.proxyId', 'in', [...proxyIds])
  if (expiresBeforeMs !== undefined)
    matching = matching.where('proxy.expiresAt', '<', isoTime(expiresBeforeMs))
  if (status === undefined) return matching
  // The same rules as in `proxyStatus`.
  const now = isoTime(nowMs)
  const soon = isoTime(nowMs + expiringMs)
  if (status === 'expired')
    return matching.where((eb) =>
      eb.or([eb('proxy.releasedAt', 'is not', null), eb('proxy.expiresAt', '<=', now)]),
    )
  const running = matching.where('proxy.releasedAt', 'is', null).where('proxy.expiresAt', '>', now)
  if (status === 'running') return running
  return status === 'expiring'
    ? running.where('proxy.expiresAt', '<=', soon)
    : running.where('proxy.expiresAt', '>', soon)
}

/** All rentals within the scope that match the filter, up to `limit`. */
export const findProxies = (
  db: Db,
  scope: Scope,
  filter: ProxyFilter,
  nowMs: number,
  limit: number,
): Promise<FoundProxy[]> =>
  proxiesOf(db, scope, filter, nowMs)
    .selectAll('proxy')
    .select('label.label')
    .orderBy('proxy.proxyId')
    .limit(limit)
    .execute() as Promise<FoundProxy[]>

/** A page of the rentals within the scope, newest first, and the number of rentals that match the filter. */
export const listProxies = async (
  db: Db,
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
      .orderBy('proxy.createdAt', 'desc')
      .orderBy('proxy.proxyId', 'desc'),
    matching.select((eb) => eb.fn.countAll<number>().as('total')),
    page,
  )
  return { proxies: rows as readonly FoundProxy[], total }
}

/**
 * A page of the rentals within the scope that match the filter.
 */
export const proxiesAfter = (
  db: Db,
  scope: Scope,
  filter: ProxyFilter,
  page: TimePage,
  nowMs: number,
): Promise<readonly FoundProxy[]> => {
  const matching = proxiesOf(db, scope, filter, nowMs).selectAll('proxy').select('label.label')
  const columns = { time: 'proxy.createdAt', id: 'proxy.proxyId' }
  return timePage(matching, columns, page).execute() as Promise<FoundProxy[]>
}
