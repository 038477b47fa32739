import type { RecordedEvent } from '../src/eventstore/event.ts'
import type { StockEvent } from '../src/stock/events.ts'
import type { ReadModel, RowKey, Rows, Table } from './engine/read-model.ts'

/** One stocked address. It can be sold when it is not rented and `available_from` is past or null. */
export type StockAddressRow = {
  readonly ip: string
  readonly product_id: string
  readonly country: string
  /** Empty but for mobile, so that it can stand in a key. */
  readonly carrier_id: string
  readonly service: string
  readonly rented: boolean
  /** The end of the rest after its last rental; null when it was never rented. */
  readonly available_from: string | null
}

/** How many addresses that are alike to a buyer there are, and how many of them are rented. */
export type StockLevelRow = {
  readonly product_id: string
  readonly country: string
  readonly carrier_id: string
  readonly service: string
  readonly total: number
  readonly rented: number
}

export const stockAddressesTable: Table<StockAddressRow> = {
  name: 'stock_addresses',
  columns: {
    ip: { type: 'text' },
    product_id: { type: 'text' },
    country: { type: 'text' },
    carrier_id: { type: 'text' },
    service: { type: 'text' },
    rented: { type: 'boolean' },
    available_from: { type: 'timestamptz', nullable: true },
  },
  key: ['ip'],
  // Those that rest now are found by time; what can be sold is the level less the rented and the resting.
  indexes: ['available_from'],
  rewritten: true,
}

export const stockLevelsTable: Table<StockLevelRow> = {
  name: 'stock_levels',
  columns: {
    product_id: { type: 'text' },
    country: { type: 'text' },
    carrier_id: { type: 'text' },
    service: { type: 'text' },
    total: { type: 'bigint' },
    rented: { type: 'bigint' },
  },
  key: ['product_id', 'country', 'carrier_id', 'service'],
  indexes: [],
  rewritten: true,
}

type Pool = Pick<StockLevelRow, 'product_id' | 'country' | 'carrier_id' | 'service'>
const levelKey = (pool: Pool) => [pool.product_id, pool.country, pool.carrier_id, pool.service]
const poolOf = (
  productId: string,
  country: string,
  address: { readonly carrierId: string | null; readonly service: string | null },
): Pool => ({
  product_id: productId,
  country,
  carrier_id: address.carrierId ?? '',
  service: address.service ?? '',
})

const change = (rows: Rows, pool: Pool, total: number, rented: number): void => {
  const level = rows.get(stockLevelsTable, levelKey(pool)) ?? { ...pool, total: 0, rented: 0 }
  rows.put(stockLevelsTable, { ...level, total: level.total + total, rented: level.rented + rented })
}

const streamParts = /^stock-(.+)-([A-Z]{3})$/

/** Every pool of a stock stream's product and country that an event of it can touch is read from its addresses. */
const poolsOf = (event: RecordedEvent<StockEvent>): RowKey[] => {
  switch (event.type) {
    case 'AddressesStocked': {
      const { productId, country, addresses } = event.data
      return addresses.map((address) => ({
        table: stockLevelsTable.name,
        key: levelKey(poolOf(productId, country, address)),
      }))
    }
    case 'AddressesAllocated': {
      const { productId, country, allocations } = event.data
      return allocations.map((address) => ({
        table: stockLevelsTable.name,
        key: levelKey(poolOf(productId, country, address)),
      }))
    }
    default:
      return []
  }
}

/** What is in stock: by address, and counted by what is alike to a buyer. */
export const stock: ReadModel = {
  name: 'stock',
  version: 3,
  tables: [stockAddressesTable, stockLevelsTable],
  reads: (recorded) => {
    const event = recorded as RecordedEvent<StockEvent>
    const address = ({ ip }: { readonly ip: string }): RowKey => ({
      table: stockAddressesTable.name,
      key: [ip],
    })
    if (event.type === 'AddressesReleased')
      return event.data.releases.flatMap((release) => [
        address(release),
        {
          table: stockLevelsTable.name,
          key: levelKey({ ...streamPool(event.stream), ...linePool(release) }),
        },
      ])
    return poolsOf(event)
  },
  apply: (recorded, rows) => {
    const event = recorded as RecordedEvent<StockEvent>
    switch (event.type) {
      case 'AddressesStocked': {
        const { productId, country, addresses } = event.data
        for (const address of addresses) {
          const pool = poolOf(productId, country, address)
          rows.put(stockAddressesTable, { ip: address.ip, ...pool, rented: false, available_from: null })
          change(rows, pool, 1, 0)
        }
        return
      }
      case 'AddressesAllocated': {
        const { productId, country, allocations } = event.data
        // An allocation says all that the row holds, so that the hottest event of stock reads no address.
        for (const address of allocations) {
          const pool = poolOf(productId, country, address)
          rows.put(stockAddressesTable, { ip: address.ip, ...pool, rented: true, available_from: null })
          change(rows, pool, 0, 1)
        }
        return
      }
      case 'AddressesReleased': {
        for (const { ip } of event.data.releases) {
          const address = rows.get(stockAddressesTable, [ip])
          if (!address) throw new Error(`address ${ip} was released and never stocked`)
          rows.put(stockAddressesTable, {
            ...address,
            rented: false,
            available_from: event.data.availableFrom,
          })
          change(rows, address, 0, -1)
        }
        return
      }
    }
  },
}

const streamPool = (stream: string): Pick<Pool, 'product_id' | 'country'> => {
  const [, productId, country] = streamParts.exec(stream) ?? []
  if (productId === undefined || country === undefined) throw new Error(`${stream} is no stock stream`)
  return { product_id: productId, country }
}

const linePool = (release: {
  readonly carrierId: string | null
  readonly service: string | null
}): Pick<Pool, 'carrier_id' | 'service'> => ({
  carrier_id: release.carrierId ?? '',
  service: release.service ?? '',
})
