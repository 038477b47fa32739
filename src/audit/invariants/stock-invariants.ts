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

type StockRuleEvent = RecordedEvent<AddressEvent | StockEvent>
type Report = (rule: string, problem: string) => void

const addressOf = (rows: Rows, ip: string): AddressRow =>
  rows.get(addressesTable, [ip]) ?? {
    ip,
    claimed_for: null,
    stocked_in: null,
    proxy_id: null,
    available_from: null,
  }

const stockNameOf = ({
  productId,
  country,
}: {
  readonly productId: string
  readonly country: string
}): string => `${productId} ${country}`

const applyStocked = (
  event: Extract<StockRuleEvent, { type: 'AddressesStocked' }>,
  rows: Rows,
  report: Report,
): void => {
  const stockName = stockNameOf(event.data)
  for (const { ip } of event.data.addresses) {
    const row = addressOf(rows, ip)
    if (row.stocked_in === stockName) report('stocked-twice', `${ip} is in this stock already`)
    if (row.claimed_for !== stockName)
      report('stocked-elsewhere', `${ip} belongs to ${row.claimed_for ?? 'no stock'}, not to ${stockName}`)
    rows.put(addressesTable, { ...row, stocked_in: stockName })
  }
}

const applyAllocated = (
  event: Extract<StockRuleEvent, { type: 'AddressesAllocated' }>,
  rows: Rows,
  report: Report,
): void => {
  const { orderId, accountId, allocations, allocatedAt, expiresAt } = event.data
  const stockName = stockNameOf(event.data)
  for (const { ip, proxyId } of allocations) {
    const row = addressOf(rows, ip)
    if (row.proxy_id !== null)
      report('address-twice', `${ip} went to order ${orderId} while its rental ${row.proxy_id} runs`)
    if (row.stocked_in !== stockName) report('not-in-stock', `${ip} is not in the stock of ${stockName}`)
    if (row.available_from !== null && row.available_from > allocatedAt)
      report('address-rests', `${ip} rests until ${row.available_from} and was sold at ${allocatedAt}`)
    if (rows.get(rentalsTable, [proxyId]) !== undefined)
      report('rental-twice', `rental ${proxyId} was made before`)
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

const applyReleased = (
  event: Extract<StockRuleEvent, { type: 'AddressesReleased' }>,
  rows: Rows,
  report: Report,
): void => {
  const { reason, releases, releasedAt, availableFrom } = event.data
  for (const { ip, proxyId } of releases) {
    const rental = rows.get(rentalsTable, [proxyId])
    const row = addressOf(rows, ip)
    if (rental === undefined || !rental.open || rental.ip !== ip || row.proxy_id !== proxyId)
      report('release-of-none', `${ip} has no rental ${proxyId} that runs`)
    else if (reason === 'expired' && rental.expires_ms > Date.parse(releasedAt))
      report(
        'release-early',
        `rental ${proxyId} runs until ${new Date(rental.expires_ms).toISOString()}, and expired at ${releasedAt}`,
      )
    if (rental !== undefined) rows.put(rentalsTable, { ...rental, open: false })
    rows.put(addressesTable, { ...row, proxy_id: null, available_from: availableFrom })
  }
}

const applyReplaced = (
  event: Extract<StockRuleEvent, { type: 'AddressReplaced' }>,
  rows: Rows,
  report: Report,
): void => {
  const { proxyId, former, address, replacedAt, availableFrom } = event.data
  const rental = rows.get(rentalsTable, [proxyId])
  const formerRow = addressOf(rows, former.ip)
  const newRow = addressOf(rows, address.ip)
  if (!rental?.open || rental.ip !== former.ip || formerRow.proxy_id !== proxyId)
    report('replacement-of-none', `${former.ip} has no rental ${proxyId} that runs`)
  if (newRow.proxy_id !== null)
    report(
      'address-twice',
      `${address.ip} went to rental ${proxyId} while its rental ${newRow.proxy_id} runs`,
    )
  if (newRow.stocked_in === null || newRow.stocked_in !== formerRow.stocked_in)
    report('not-in-stock', `${address.ip} is not in the stock of ${formerRow.stocked_in ?? 'the rental'}`)
  if (newRow.available_from !== null && newRow.available_from > replacedAt)
    report(
      'address-rests',
      `${address.ip} rests until ${newRow.available_from} and was given at ${replacedAt}`,
    )
  rows.put(addressesTable, { ...formerRow, proxy_id: null, available_from: availableFrom })
  rows.put(addressesTable, { ...newRow, proxy_id: proxyId, available_from: null })
  if (rental !== undefined) rows.put(rentalsTable, { ...rental, ip: address.ip })
}

const applyExtended = (
  event: Extract<StockRuleEvent, { type: 'AddressesExtended' }>,
  rows: Rows,
  report: Report,
): void => {
  for (const { proxyId, expiresAt } of event.data.extensions) {
    const rental = rows.get(rentalsTable, [proxyId])
    if (!rental?.open) report('extension-of-none', `no rental ${proxyId} runs that could be extended`)
    if (rental !== undefined) rows.put(rentalsTable, { ...rental, expires_ms: Date.parse(expiresAt) })
  }
}

const keysOf = (
  event: StockRuleEvent,
): { readonly ips: readonly string[]; readonly proxyIds: readonly string[] } => {
  const noKeys = { ips: [], proxyIds: [] }
  switch (event.type) {
    case 'AddressStocked':
    case 'AddressRetired':
      return { ...noKeys, ips: [event.data.ip] }
    case 'AddressesStocked':
      return { ...noKeys, ips: event.data.addresses.map(({ ip }) => ip) }
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
      return { ...noKeys, proxyIds: event.data.extensions.map(({ proxyId }) => proxyId) }
    default:
      return noKeys
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
    const { ips, proxyIds } = keysOf(event as StockRuleEvent)
    return [
      ...ips.map((ip) => ({ table: addressesTable.name, key: [ip] })),
      ...proxyIds.map((id) => ({ table: rentalsTable.name, key: [id] })),
    ]
  },
  apply: (recorded, rows) => {
    const event = recorded as StockRuleEvent
    const report: Report = (rule, problem) => recordViolation(rows, event, rule, problem)
    switch (event.type) {
      case 'AddressStocked': {
        const row = addressOf(rows, event.data.ip)
        if (row.claimed_for !== null)
          report('stocked-twice', `${event.data.ip} is in the stock of ${row.claimed_for}`)
        rows.put(addressesTable, { ...row, claimed_for: stockNameOf(event.data) })
        return
      }
      case 'AddressRetired': {
        const row = addressOf(rows, event.data.ip)
        if (row.claimed_for === null) report('retired-twice', `${event.data.ip} is in no stock`)
        rows.put(addressesTable, { ...row, claimed_for: null })
        return
      }
      case 'AddressesStocked':
        return applyStocked(event, rows, report)
      case 'AddressesAllocated':
        return applyAllocated(event, rows, report)
      case 'AddressesReleased':
        return applyReleased(event, rows, report)
      case 'AddressReplaced':
        return applyReplaced(event, rows, report)
      case 'AddressesExtended':
        return applyExtended(event, rows, report)
      default:
    }
  },
}
