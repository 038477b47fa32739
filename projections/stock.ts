import type { LiveStock, StockCount } from '../src/domain/catalog/availability.ts'
import type { StockEvent, StockedAddress } from '../src/domain/stock/events.ts'
import { type Clock, isoTime } from '../src/kernel/clock.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { type Db, sql } from '../src/platform/postgres/kysely.ts'
import {
  column,
  type RowOf,
  type Rows,
  readModel,
  readTable,
} from '../src/platform/projections/read-model.ts'

/**
 * The stock that can be sold now: the addresses that are not rented, minus the resting ones. Few addresses rest, so
 * counting them is cheap.
 */
export const createLiveStock = ({ db, clock }: { readonly db: Db; readonly clock: Clock }): LiveStock => {
  const counts = async (productId: string | null) => {
    const { rows } = await sql<StockCount & { readonly productId: string }>`
        with resting as (
          select product_id, country, carrier_id, service, count(*) as count
          from read.resting_addresses where available_from > ${isoTime(clock())}::timestamptz
          group by product_id, country, carrier_id, service)
        select l.product_id, l.country, nullif(l.carrier_id, '') as carrier_id, nullif(l.service, '') as service,
               l.total - l.rented - coalesce(r.count, 0) as available
        from read.stock_levels l left join resting r using (product_id, country, carrier_id, service)
        where ${productId}::text is null or l.product_id = ${productId}::text
        order by l.product_id, l.country, l.carrier_id, l.service`.execute(db)
    return rows
  }
  const countOf = ({ productId: _, ...count }: StockCount & { readonly productId: string }): StockCount =>
    count
  return {
    of: async (productId) => (await counts(productId)).map(countOf),
    all: async () =>
      new Map(
        [...Map.groupBy(await counts(null), (row) => row.productId)].map(([id, rows]) => [
          id,
          rows.map(countOf),
        ]),
      ),
  }
}

/**
 * An address that was returned: it rests until `available_from` and cannot be sold before. The row remains when the
 * address is sold again, and is replaced when the address is returned again.
 */
const restingAddressesTable = readTable({
  name: 'resting_addresses',
  columns: {
    ip: column.text(),
    productId: column.text(),
    country: column.text(),
    /** Empty for all families but mobile, as in a stock level. */
    carrierId: column.text(),
    service: column.text(),
    availableFrom: column.timestamptz(),
  },
  key: ['ip'],
  // Resting addresses are found by time. Available: the level minus the rented and the resting addresses.
  indexes: ['available_from'],
  rewritten: true,
})

/** The number of addresses that are equivalent for a buyer, and how many of them are rented. */
const stockLevelsTable = readTable({
  name: 'stock_levels',
  columns: {
    productId: column.text(),
    country: column.text(),
    /** Empty for all families but mobile, not null, so that it can be part of a key. */
    carrierId: column.text(),
    service: column.text(),
    total: column.bigint(),
    rented: column.bigint(),
  },
  key: ['productId', 'country', 'carrierId', 'service'],
  rewritten: true,
})

export type StockLevelRow = RowOf<typeof stockLevelsTable>

/** The properties that distinguish the addresses of one product and country for a buyer. */
type PoolFields = Pick<StockedAddress, 'carrierId' | 'service'>
type Pool = Pick<StockLevelRow, 'productId' | 'country' | 'carrierId' | 'service'>
const levelKey = (pool: Pool) => [pool.productId, pool.country, pool.carrierId, pool.service]
const poolOf = (productId: string, country: string, address: PoolFields): Pool => ({
  productId,
  country,
  carrierId: address.carrierId ?? '',
  service: address.service ?? '',
})

const change = (rows: Rows, pool: Pool, total: number, rented: number): void => {
  const level = rows.get(stockLevelsTable, levelKey(pool)) ?? { ...pool, total: 0, rented: 0 }
  rows.put(stockLevelsTable, { ...level, total: level.total + total, rented: level.rented + rented })
}

const streamParts = /^stock-(.+)-([A-Z]{3})$/

/** A release contains its addresses and their properties. Their product and country are in the name of the stream. */
const releasedPoolOf = (stream: string, release: PoolFields): Pool => {
  const [, productId, country] = streamParts.exec(stream) ?? []
  if (productId === undefined || country === undefined) throw new Error(`${stream} is no stock stream`)
  return poolOf(productId, country, release)
}

/** The pools that an event changes. */
const poolsOf = (event: RecordedEvent<StockEvent>): readonly Pool[] => {
  switch (event.type) {
    case 'AddressesStocked': {
      const { productId, country, addresses } = event.data
      return addresses.map((address) => poolOf(productId, country, address))
    }
    case 'AddressesAllocated': {
      const { productId, country, allocations } = event.data
      return allocations.map((address) => poolOf(productId, country, address))
    }
    case 'AddressesReleased':
      return event.data.releases.map((release) => releasedPoolOf(event.stream, release))
    default:
      return []
  }
}

/**
 * The stock, counted by addresses that are equivalent for a buyer, and the resting addresses. The rentals of each
 * address are in `proxies`. A sale changes a count here and no address.
 */
export const stock = readModel({
  name: 'stock',
  version: 4,
  tables: [restingAddressesTable, stockLevelsTable],
  formerTables: ['stock_addresses'],
  reads: (recorded) =>
    poolsOf(recorded as RecordedEvent<StockEvent>).map((pool) => ({
      table: stockLevelsTable.name,
      key: levelKey(pool),
    })),
  apply: (recorded, rows) => {
    const event = recorded as RecordedEvent<StockEvent>
    switch (event.type) {
      case 'AddressesStocked':
        for (const pool of poolsOf(event)) change(rows, pool, 1, 0)
        return
      case 'AddressesAllocated':
        for (const pool of poolsOf(event)) change(rows, pool, 0, 1)
        return
      case 'AddressesReleased': {
        const { releases, availableFrom } = event.data
        for (const release of releases) {
          const pool = releasedPoolOf(event.stream, release)
          rows.put(restingAddressesTable, { ip: release.ip, ...pool, availableFrom })
          change(rows, pool, 0, -1)
        }
        return
      }
      // The number of rented addresses does not change.
      case 'AddressReplaced': {
        const { former, availableFrom } = event.data
        const pool = releasedPoolOf(event.stream, former)
        rows.put(restingAddressesTable, { ip: former.ip, ...pool, availableFrom })
        return
      }
    }
  },
})
