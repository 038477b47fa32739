import type { Rows } from '../../platform/projections/read-model.ts'
import {
  bigint,
  boolean,
  type Context,
  eventRules,
  nullable,
  type Recorded,
  type Report,
  type RowOf,
  rowKey,
  ruleTable,
  text,
} from './invariant.ts'

const addressesTable = ruleTable('audit_addresses', {
  ip: text,
  /** `product country` of its `address-{ip}` stream; null when the address is in no stock. */
  claimed_for: nullable(text),
  /** `product country` of the stock stream that lists the address. */
  stocked_in: nullable(text),
  /** The active rental. */
  proxy_id: nullable(text),
  available_from: nullable(text),
})

export const rentalsTable = ruleTable('audit_rentals', {
  proxy_id: text,
  ip: text,
  order_id: text,
  account_id: text,
  /** The end of the rental unless it is extended. */
  expires_ms: bigint,
  open: boolean,
})

type AddressRow = RowOf<typeof addressesTable>

const addressOf = (rows: Rows, ip: string): AddressRow =>
  rows.get(addressesTable, [ip]) ?? {
    ip,
    claimed_for: null,
    stocked_in: null,
    proxy_id: null,
    available_from: null,
  }

const stockName = (data: { readonly productId: string; readonly country: string }): string =>
  `${data.productId} ${data.country}`

/** Checks that an address can be given to a rental: it is in the stock, in no other rental, and does not rest. */
const checkFree = (
  row: AddressRow,
  given: { readonly to: string; readonly stock: string | null; readonly at: string; readonly as: string },
  report: Report,
): void => {
  if (row.proxy_id !== null)
    report('address-twice', `${row.ip} went to ${given.to} while its rental ${row.proxy_id} runs`)
  if (row.stocked_in === null || row.stocked_in !== given.stock)
    report('not-in-stock', `${row.ip} is not in the stock of ${given.stock ?? 'the rental'}`)
  if (row.available_from !== null && row.available_from > given.at)
    report('address-rests', `${row.ip} rests until ${row.available_from} and was ${given.as} at ${given.at}`)
}

const checkStocked = ({ data }: Recorded<'AddressesStocked'>, { rows, report }: Context): void => {
  const stock = stockName(data)
  for (const { ip } of data.addresses) {
    const row = addressOf(rows, ip)
    if (row.stocked_in === stock) report('stocked-twice', `${ip} is in this stock already`)
    if (row.claimed_for !== stock)
      report('stocked-elsewhere', `${ip} belongs to ${row.claimed_for ?? 'no stock'}, not to ${stock}`)
    rows.put(addressesTable, { ...row, stocked_in: stock })
  }
}

const checkAllocated = ({ data }: Recorded<'AddressesAllocated'>, { rows, report }: Context): void => {
  const { orderId, accountId, allocations, allocatedAt, expiresAt } = data
  const given = { to: `order ${orderId}`, stock: stockName(data), at: allocatedAt, as: 'sold' }
  for (const { ip, proxyId } of allocations) {
    const row = addressOf(rows, ip)
    checkFree(row, given, report)
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

const checkReleased = ({ data }: Recorded<'AddressesReleased'>, { rows, report }: Context): void => {
  const { reason, releases, releasedAt, availableFrom } = data
  for (const { ip, proxyId } of releases) {
    const rental = rows.get(rentalsTable, [proxyId])
    const row = addressOf(rows, ip)
    if (!rental?.open || rental.ip !== ip || row.proxy_id !== proxyId)
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

const checkReplaced = ({ data }: Recorded<'AddressReplaced'>, { rows, report }: Context): void => {
  const { proxyId, former, address, replacedAt, availableFrom } = data
  const rental = rows.get(rentalsTable, [proxyId])
  const formerRow = addressOf(rows, former.ip)
  const newRow = addressOf(rows, address.ip)
  if (!rental?.open || rental.ip !== former.ip || formerRow.proxy_id !== proxyId)
    report('replacement-of-none', `${former.ip} has no rental ${proxyId} that runs`)
  const given = { to: `rental ${proxyId}`, stock: formerRow.stocked_in, at: replacedAt, as: 'given' }
  checkFree(newRow, given, report)
  rows.put(addressesTable, { ...formerRow, proxy_id: null, available_from: availableFrom })
  rows.put(addressesTable, { ...newRow, proxy_id: proxyId, available_from: null })
  if (rental !== undefined) rows.put(rentalsTable, { ...rental, ip: address.ip })
}

const checkExtended = ({ data }: Recorded<'AddressesExtended'>, { rows, report }: Context): void => {
  for (const { proxyId, expiresAt } of data.extensions) {
    const rental = rows.get(rentalsTable, [proxyId])
    if (!rental?.open) report('extension-of-none', `no rental ${proxyId} runs that could be extended`)
    if (rental !== undefined) rows.put(rentalsTable, { ...rental, expires_ms: Date.parse(expiresAt) })
  }
}

const addressKeys = (ips: readonly string[]) => ips.map((ip) => rowKey(addressesTable, ip))
const rentalKeys = (list: readonly { readonly proxyId: string; readonly ip?: string }[]) =>
  list.flatMap(({ proxyId, ip }) => [
    rowKey(rentalsTable, proxyId),
    ...addressKeys(ip === undefined ? [] : [ip]),
  ])

/** An address is in stock once, across products, and never in two rentals at a time (docs/architecture.md, 3). */
export const stockRules = eventRules({
  name: 'audit-stock',
  version: 3,
  tables: [addressesTable, rentalsTable],
  reads: ({ type, data }) => {
    switch (type) {
      case 'AddressStocked':
      case 'AddressRetired':
        return addressKeys([data.ip])
      case 'AddressesStocked':
        return addressKeys(data.addresses.map(({ ip }) => ip))
      case 'AddressesAllocated':
        return rentalKeys(data.allocations)
      case 'AddressesReleased':
        return rentalKeys(data.releases)
      case 'AddressReplaced':
        return [...addressKeys([data.former.ip, data.address.ip]), rowKey(rentalsTable, data.proxyId)]
      default:
        return data.extensions.map(({ proxyId }) => rowKey(rentalsTable, proxyId))
    }
  },
  on: {
    AddressStocked: ({ data }, { rows, report }) => {
      const row = addressOf(rows, data.ip)
      if (row.claimed_for !== null)
        report('stocked-twice', `${data.ip} is in the stock of ${row.claimed_for}`)
      rows.put(addressesTable, { ...row, claimed_for: stockName(data) })
    },
    AddressRetired: ({ data }, { rows, report }) => {
      const row = addressOf(rows, data.ip)
      if (row.claimed_for === null) report('retired-twice', `${data.ip} is in no stock`)
      rows.put(addressesTable, { ...row, claimed_for: null })
    },
    AddressesStocked: checkStocked,
    AddressesAllocated: checkAllocated,
    AddressesReleased: checkReleased,
    AddressReplaced: checkReplaced,
    AddressesExtended: checkExtended,
  },
})
