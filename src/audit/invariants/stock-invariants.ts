import type { AddressEvent, StockEvent } from '../../domain/stock/events.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { ReadModel, Rows, Table } from '../../platform/projections/read-model.ts'
import { recordViolation } from './violation.ts'

type AddressRow = {
  ip: string
  /** `product country` of its `address-{ip}` stream; null when the address is in no stock. */
  claimed_for: string | null
  /** `product country` of the stock stream that lists the address. */
  stocked_in: string | null
  /** The active rental. */
  proxy_id: string | null
  available_from: string | null
}

type RentalRow = {
  proxy_id: string
  ip: string
  order_id: string
  account_id: string
  /** The end of the rental unless it is extended. */
  expires_ms: number
  open: boolean
}

const addressesTable: Table<AddressRow> = {
  name: 'audit_addresses',
  columns: {
    ip: { type: 'text' },
    claimed_for: { type: 'text', nullable: true },
    stocked_in: { type: 'text', nullable: true },
    proxy_id: { type: 'text', nullable: true },
    available_from: { type: 'text', nullable: true },
  },
  key: ['ip'],
  indexes: [],
}

export const rentalsTable: Table<RentalRow> = {
  name: 'audit_rentals',
  columns: {
    proxy_id: { type: 'text' },
    ip: { type: 'text' },
    order_id: { type: 'text' },
    account_id: { type: 'text' },
    expires_ms: { type: 'bigint' },
    open: { type: 'boolean' },
  },
  key: ['proxy_id'],
  indexes: [],
}

type Known = RecordedEvent<AddressEvent | StockEvent>
type Say = (rule: string, problem: string) => void

const addressOf = (rows: Rows, ip: string): AddressRow =>
  rows.get(addressesTable, [ip]) ?? {
    ip,
    claimed_for: null,
    stocked_in: null,
    proxy_id: null,
    available_from: null,
  }

const placeName = ({
  productId,
  country,
}: {
  readonly productId: string
  readonly country: string
}): string => `${productId} ${country}`

const stock = (event: Extract<Known, { type: 'AddressesStocked' }>, rows: Rows, say: Say): void => {
  const place = placeName(event.data)
  for (const { ip } of event.data.addresses) {
    const row = addressOf(rows, ip)
    if (row.stocked_in === place) say('stocked-twice', `${ip} is in this stock already`)
    if (row.claimed_for !== place)
      say('stocked-elsewhere', `${ip} belongs to ${row.claimed_for ?? 'no stock'}, not to ${place}`)
    rows.put(addressesTable, { ...row, stocked_in: place })
  }
}

const allocate = (event: Extract<Known, { type: 'AddressesAllocated' }>, rows: Rows, say: Say): void => {
  const { orderId, accountId, allocations, allocatedAt, expiresAt } = event.data
  const place = placeName(event.data)
  for (const { ip, proxyId } of allocations) {
    const row = addressOf(rows, ip)
    if (row.proxy_id !== null)
      say('address-twice', `${ip} went to order ${orderId} while its rental ${row.proxy_id} runs`)
    if (row.stocked_in !== place) say('not-in-stock', `${ip} is not in the stock of ${place}`)
    if (row.available_from !== null && row.available_from > allocatedAt)
      say('address-rests', `${ip} rests until ${row.available_from} and was sold at ${allocatedAt}`)
    if (rows.get(rentalsTable, [proxyId]) !== undefined)
      say('rental-twice', `rental ${proxyId} was made before`)
    rows.put(addressesTable, { ...row, proxy_id: proxyId, available_from: null })
    rows.put(rentalsTable, {
      proxy_id: proxyId,
      ip,
      order_id: orderId,
      account_id: accountId,
      expires_ms: Date.parse(expiresAt),
      open: true,
    })
  }
}

const release = (event: Extract<Known, { type: 'AddressesReleased' }>, rows: Rows, say: Say): void => {
  const { reason, releases, releasedAt, availableFrom } = event.data
  for (const { ip, proxyId } of releases) {
    const rental = rows.get(rentalsTable, [proxyId])
    const row = addressOf(rows, ip)
    if (rental === undefined || !rental.open || rental.ip !== ip || row.proxy_id !== proxyId)
      say('release-of-none', `${ip} has no rental ${proxyId} that runs`)
    else if (reason === 'expired' && rental.expires_ms > Date.parse(releasedAt))
      say(
        'release-early',
        `rental ${proxyId} runs until ${new Date(rental.expires_ms).toISOString()}, and expired at ${releasedAt}`,
      )
    if (rental !== undefined) rows.put(rentalsTable, { ...rental, open: false })
    rows.put(addressesTable, { ...row, proxy_id: null, available_from: availableFrom })
  }
}

const replace = (event: Extract<Known, { type: 'AddressReplaced' }>, rows: Rows, say: Say): void => {
  const { proxyId, former, address, replacedAt, availableFrom } = event.data
  const rental = rows.get(rentalsTable, [proxyId])
  const left = addressOf(rows, former.ip)
  const taken = addressOf(rows, address.ip)
  if (!rental?.open || rental.ip !== former.ip || left.proxy_id !== proxyId)
    say('replacement-of-none', `${former.ip} has no rental ${proxyId} that runs`)
  if (taken.proxy_id !== null)
    say('address-twice', `${address.ip} went to rental ${proxyId} while its rental ${taken.proxy_id} runs`)
  if (taken.stocked_in === null || taken.stocked_in !== left.stocked_in)
    say('not-in-stock', `${address.ip} is not in the stock of ${left.stocked_in ?? 'the rental'}`)
  if (taken.available_from !== null && taken.available_from > replacedAt)
    say('address-rests', `${address.ip} rests until ${taken.available_from} and was given at ${replacedAt}`)
  rows.put(addressesTable, { ...left, proxy_id: null, available_from: availableFrom })
  rows.put(addressesTable, { ...taken, proxy_id: proxyId, available_from: null })
  if (rental !== undefined) rows.put(rentalsTable, { ...rental, ip: address.ip })
}

const extend = (event: Extract<Known, { type: 'AddressesExtended' }>, rows: Rows, say: Say): void => {
  for (const { proxyId, expiresAt } of event.data.extensions) {
    const rental = rows.get(rentalsTable, [proxyId])
    if (!rental?.open) say('extension-of-none', `no rental ${proxyId} runs that could be extended`)
    if (rental !== undefined) rows.put(rentalsTable, { ...rental, expires_ms: Date.parse(expiresAt) })
  }
}

const keysOf = (event: Known): { readonly ips: readonly string[]; readonly proxyIds: readonly string[] } => {
  const none = { ips: [], proxyIds: [] }
  switch (event.type) {
    case 'AddressStocked':
    case 'AddressRetired':
      return { ...none, ips: [event.data.ip] }
    case 'AddressesStocked':
      return { ...none, ips: event.data.addresses.map(({ ip }) => ip) }
    case 'AddressesAllocated': {
      const { allocations } = event.data
      return { ips: allocations.map(({ ip }) => ip), proxyIds: allocations.map(({ proxyId }) => proxyId) }
    }
    case 'AddressesReleased': {
      const { releases } = event.data
      return { ips: releases.map(({ ip }) => ip), proxyIds: releases.map(({ proxyId }) => proxyId) }
    }
    case 'AddressReplaced': {
      const { proxyId, former, address } = event.data
      return { ips: [former.ip, address.ip], proxyIds: [proxyId] }
    }
    case 'AddressesExtended':
      return { ...none, proxyIds: event.data.extensions.map(({ proxyId }) => proxyId) }
    default:
      return none
  }
}

/** An address is in stock once, across products, and never in two rentals at a time (docs/architecture.md, 3). */
export const stockRules: ReadModel = {
  name: 'audit-stock',
  version: 2,
  tables: [addressesTable, rentalsTable],
  takes: {
    types: new Set([
      'AddressStocked',
      'AddressRetired',
      'AddressesStocked',
      'AddressesAllocated',
      'AddressesReleased',
      'AddressReplaced',
      'AddressesExtended',
    ]),
  },
  reads: (event) => {
    const { ips, proxyIds } = keysOf(event as Known)
    return [
      ...ips.map((ip) => ({ table: addressesTable.name, key: [ip] })),
      ...proxyIds.map((id) => ({ table: rentalsTable.name, key: [id] })),
    ]
  },
  apply: (recorded, rows) => {
    const event = recorded as Known
    const say: Say = (rule, problem) => recordViolation(rows, event, rule, problem)
    switch (event.type) {
      case 'AddressStocked': {
        const row = addressOf(rows, event.data.ip)
        if (row.claimed_for !== null)
          say('stocked-twice', `${event.data.ip} is in the stock of ${row.claimed_for}`)
        rows.put(addressesTable, { ...row, claimed_for: placeName(event.data) })
        return
      }
      case 'AddressRetired': {
        const row = addressOf(rows, event.data.ip)
        if (row.claimed_for === null) say('retired-twice', `${event.data.ip} is in no stock`)
        rows.put(addressesTable, { ...row, claimed_for: null })
        return
      }
      case 'AddressesStocked':
        return stock(event, rows, say)
      case 'AddressesAllocated':
        return allocate(event, rows, say)
      case 'AddressesReleased':
        return release(event, rows, say)
      case 'AddressReplaced':
        return replace(event, rows, say)
      case 'AddressesExtended':
        return extend(event, rows, say)
      default:
    }
  },
}
