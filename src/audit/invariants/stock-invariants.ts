import { column, nullable, type RowOf, type Rows, readTable } from '../../platform/projections/read-model.ts'
import { type Context, eventRules, type Recorded, type Report, rowKey } from './invariant.ts'

const addressesTable = readTable({
  name: 'audit_addresses',
  columns: {
    ip: column.text(),
    /** `product country` of its `address-{ip}` stream; null when the address is in no stock. */
    claimedFor: nullable(column.text()),
    /** `product country` of the stock stream that lists the address. */
    stockedIn: nullable(column.text()),
    /** The active rental. */
    proxyId: nullable(column.text()),
    availableFrom: nullable(column.text()),
  },
  key: ['ip'],
})

export const rentalsTable = readTable({
  name: 'audit_rentals',
  columns: {
    proxyId: column.text(),
    ip: column.text(),
    orderId: column.text(),
    accountId: column.text(),
    /** The end of the rental unless it is extended. */
    expiresMs: column.bigint(),
    open: column.boolean(),
  },
  key: ['proxyId'],
})

type AddressRow = RowOf<typeof addressesTable>

const addressOf = (rows: Rows, ip: string): AddressRow =>
  rows.get(addressesTable, [ip]) ?? {
    ip,
    claimedFor: null,
    stockedIn: null,
    proxyId: null,
    availableFrom: null,
  }

const stockName = (data: { readonly productId: string; readonly country: string }): string =>
  `${data.productId} ${data.country}`

/** Checks that an address can be given to a rental: it is in the stock, in no other rental, and does not rest. */
const checkFree = (
  row: AddressRow,
  given: { readonly to: string; readonly stock: string | null; readonly at: string; readonly as: string },
  report: Report,
): void => {
  if (row.proxyId !== null)
    report('address-twice', `${row.ip} went to ${given.to} while its rental ${row.proxyId} runs`)
  if (row.stockedIn === null || row.stockedIn !== given.stock)
    report('not-in-stock', `${row.ip} is not in the stock of ${given.stock ?? 'the rental'}`)
  if (row.availableFrom !== null && row.availableFrom > given.at)
    report('address-rests', `${row.ip} rests until ${row.availableFrom} and was ${given.as} at ${given.at}`)
}

const checkStocked = ({ data }: Recorded<'AddressesStocked'>, { rows, report }: Context): void => {
  const stock = stockName(data)
  for (const { ip } of data.addresses) {
    const row = addressOf(rows, ip)
    if (row.stockedIn === stock) report('stocked-twice', `${ip} is in this stock already`)
    if (row.claimedFor !== stock)
      report('stocked-elsewhere', `${ip} belongs to ${row.claimedFor ?? 'no stock'}, not to ${stock}`)
    rows.put(addressesTable, { ...row, stockedIn: stock })
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
    rows.put(addressesTable, { ...row, proxyId, availableFrom: null })
    rows.put(rentalsTable, {
      proxyId,
      ip,
      orderId,
      accountId,
      expiresMs: Date.parse(expiresAt),
      open: true,
    })
  }
}

const checkReleased = ({ data }: Recorded<'AddressesReleased'>, { rows, report }: Context): void => {
  const { reason, releases, releasedAt, availableFrom } = data
  for (const { ip, proxyId } of releases) {
    const rental = rows.get(rentalsTable, [proxyId])
    const row = addressOf(rows, ip)
    if (!rental?.open || rental.ip !== ip || row.proxyId !== proxyId)
      report('release-of-none', `${ip} has no rental ${proxyId} that runs`)
    else if (reason === 'expired' && rental.expiresMs > Date.parse(releasedAt))
      report(
        'release-early',
        `rental ${proxyId} runs until ${new Date(rental.expiresMs).toISOString()}, and expired at ${releasedAt}`,
      )
    if (rental !== undefined) rows.put(rentalsTable, { ...rental, open: false })
    rows.put(addressesTable, { ...row, proxyId: null, availableFrom })
  }
}

const checkReplaced = ({ data }: Recorded<'AddressReplaced'>, { rows, report }: Context): void => {
  const { proxyId, former, address, replacedAt, availableFrom } = data
  const rental = rows.get(rentalsTable, [proxyId])
  const formerRow = addressOf(rows, former.ip)
  const newRow = addressOf(rows, address.ip)
  if (!rental?.open || rental.ip !== former.ip || formerRow.proxyId !== proxyId)
    report('replacement-of-none', `${former.ip} has no rental ${proxyId} that runs`)
  const given = { to: `rental ${proxyId}`, stock: formerRow.stockedIn, at: replacedAt, as: 'given' }
  checkFree(newRow, given, report)
  rows.put(addressesTable, { ...formerRow, proxyId: null, availableFrom })
  rows.put(addressesTable, { ...newRow, proxyId, availableFrom: null })
  if (rental !== undefined) rows.put(rentalsTable, { ...rental, ip: address.ip })
}

const checkExtended = ({ data }: Recorded<'AddressesExtended'>, { rows, report }: Context): void => {
  for (const { proxyId, expiresAt } of data.extensions) {
    const rental = rows.get(rentalsTable, [proxyId])
    if (!rental?.open) report('extension-of-none', `no rental ${proxyId} runs that could be extended`)
    if (rental !== undefined) rows.put(rentalsTable, { ...rental, expiresMs: Date.parse(expiresAt) })
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
      if (row.claimedFor !== null) report('stocked-twice', `${data.ip} is in the stock of ${row.claimedFor}`)
      rows.put(addressesTable, { ...row, claimedFor: stockName(data) })
    },
    AddressRetired: ({ data }, { rows, report }) => {
      const row = addressOf(rows, data.ip)
      if (row.claimedFor === null) report('retired-twice', `${data.ip} is in no stock`)
      rows.put(addressesTable, { ...row, claimedFor: null })
    },
    AddressesStocked: checkStocked,
    AddressesAllocated: checkAllocated,
    AddressesReleased: checkReleased,
    AddressReplaced: checkReplaced,
    AddressesExtended: checkExtended,
  },
})
