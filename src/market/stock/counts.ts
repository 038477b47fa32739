import type { CommandRunner, StreamRef } from '../../platform/eventstore/commands/command.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import { stockStream } from '../../terms/streams.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { isDedicated } from '../catalog/product.ts'
import { countriesOf } from '../catalog/rates.ts'
import { type StockState, stockFold } from './fold.ts'

/** One pool of addresses that are alike to a buyer; carrier and service are null but for mobile. */
export type PoolCount = {
  readonly productId: string
  readonly country: string
  readonly carrierId: string | null
  readonly service: string | null
  readonly total: number
  readonly available: number
  /** Released less than 15 minutes ago. */
  readonly resting: number
  readonly rented: number
}

type Place = { readonly productId: string; readonly country: string }

const countPools = ({ productId, country }: Place, state: StockState, nowMs: number): PoolCount[] => {
  const totals = state.addresses.countBy(({ carrierId, service }) => JSON.stringify([carrierId, service]))
  const inOrder = [...totals].sort(([one], [other]) => (one < other ? -1 : 1))
  return inOrder.map(([key, total]) => {
    const [carrierId, service] = JSON.parse(key) as [string | null, string | null]
    const pool = state.pools.get(key)
    const rested = pool?.resting.count(({ availableFromMs }) => availableFromMs <= nowMs) ?? 0
    const resting = (pool?.resting.size ?? 0) - rested
    const available = (pool?.ready.size ?? 0) + rested
    const rented = total - available - resting
    return { productId, country, carrierId, service, total, available, resting, rented }
  })
}

/**
 * What is in stock, from the log itself: exact whatever the projections have folded. In order of products,
 * countries, carriers and services; only countries of the catalogue, so a country that lost its prices is not shown.
 */
export const countStock = async (
  runner: CommandRunner,
  catalog: Catalog,
  only: { readonly productId?: string | undefined; readonly country?: string | undefined },
  cause: Cause,
): Promise<readonly PoolCount[]> => {
  const places = catalog.products
    .filter((product) => only.productId === undefined || product.id === only.productId)
    .flatMap((product) =>
      isDedicated(product) ? countriesOf(product).map((country) => ({ productId: product.id, country })) : [],
    )
    .filter((place) => only.country === undefined || place.country === only.country)
  const streams: Record<string, StreamRef<StockState>> = Object.fromEntries(
    places.map((place, index) => [
      String(index),
      { stream: stockStream(place.productId, place.country), fold: stockFold },
    ]),
  )
  if (places.length === 0) return []
  const { answer } = await runner.run({
    name: 'count-stock',
    correlationId: cause.correlationId,
    actor: cause.actor,
    streams,
    decide: (states, { nowMs }) => ({
      appends: [],
      answer: places.flatMap((place, index) => countPools(place, states[String(index)]!, nowMs)),
    }),
  })
  return answer
}
