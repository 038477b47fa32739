import type { StockEvent, StockedAddress, StockedEndpoint } from '../src/market/stock/events.ts'
import type { RecordedEvent } from '../src/platform/eventstore/event.ts'
import type { ReadModel, Table } from './engine/read-model.ts'

/** One address under one order. Expiring and expired are computed at read. */
export type ProxyRow = {
  readonly proxy_id: string
  readonly account_id: string
  /** The reseller's customer who holds it; null for the account itself. */
  readonly customer_id: string | null
  readonly order_id: string
  readonly product_id: string
  readonly family: string
  readonly ip: string
  /** The supplier's proxy that it goes out through; null: the address is one of our machines'. */
  readonly endpoint: StockedEndpoint | null
  /** Since when the rental has such an address: the gateway learns its username from then on; null: it has none. */
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
  /** When the address went back to stock; null while it is rented. */
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
  // Those of an order are found by the ids in its row. As with orders, those of one millisecond are sorted when they are
  // read: an index without their ids is half as large.
  indexes: [
    'account_id, created_at desc',
    // The rentals of one customer of a reseller; an account's own are not in it.
    'account_id, customer_id, created_at desc where customer_id is not null',
    'expires_at where released_at is null',
    // The gateway finds a rental by the address that was dialled.
    'ip where released_at is null',
    'endpoint_since where endpoint_since is not null',
  ],
}

/** One replacement of a rental's address. A renter's comment on it stands in the vault. */
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

const row = (proxyId: string) => ({ table: proxiesTable.name, key: [proxyId] })

/** Rentals of dedicated addresses. */
export const proxies: ReadModel = {
  name: 'proxies',
  version: 6,
  tables: [proxiesTable, replacementsTable],
  reads: (recorded) => {
    const event = recorded as RecordedEvent<StockEvent>
    if (event.type === 'AddressesExtended') return event.data.extensions.map(({ proxyId }) => row(proxyId))
    if (event.type === 'AddressesReleased') return event.data.releases.map(({ proxyId }) => row(proxyId))
    if (event.type === 'AddressReplaced') return [row(event.data.proxyId)]
    if (event.type === 'EndpointsChanged')
      return event.data.changes.flatMap(({ proxyId }) => (proxyId === null ? [] : [row(proxyId)]))
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
