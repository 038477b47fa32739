import type { Target } from '../../terms/order-details.ts'
import type { DedicatedProduct, Tier } from './product.ts'

/** What is asked for; null where the choice is left open, which only mobile lines know. */
export type Wanted = {
  readonly country: string
  readonly periodDays: number
  readonly carrierId: string | null
  readonly service: string | null
  readonly rotationMinutes: number | null
}

/** One thing that can be bought: where, how long, on which mobile line, and its prices by quantity. */
export type Rate = { readonly target: Target; readonly tiers: readonly Tier[] }

const sorted = (values: Iterable<number>): number[] => [...new Set(values)].sort((a, b) => a - b)

/** What is worked out of a product once, for as long as the product is used: every order asks for it. */
const oncePerProduct = <Made>(make: (product: DedicatedProduct) => Made) => {
  const made = new WeakMap<DedicatedProduct, Made>()
  return (product: DedicatedProduct): Made => {
    const known = made.get(product)
    if (known !== undefined) return known
    const fresh = make(product)
    made.set(product, fresh)
    return fresh
  }
}

/** The countries that the product has prices for, alpha-3, in order of their codes. */
export const countriesOf = oncePerProduct((product): readonly string[] =>
  [
    ...new Set(
      product.shape === 'addresses'
        ? product.rates.flatMap((rate) => rate.countries)
        : product.carriers.map((carrier) => carrier.country),
    ),
  ].sort(),
)

const ratesByCountry = oncePerProduct(
  (product): ReadonlyMap<string, readonly Rate[]> =>
    new Map(countriesOf(product).map((country) => [country, listRates(product, country)])),
)

/** All rates of a product in one country, in the file's order; none where it is not sold. */
export const ratesIn = (product: DedicatedProduct, country: string): readonly Rate[] =>
  ratesByCountry(product).get(country) ?? []

const listRates = (product: DedicatedProduct, country: string): readonly Rate[] => {
  if (product.shape === 'addresses')
    return product.rates
      .filter((rate) => rate.countries.includes(country))
      .flatMap((rate) =>
        rate.periodDays.map((periodDays) => ({
          target: { country, periodDays, carrierId: null, service: null, rotationMinutes: null },
          tiers: rate.tiers,
        })),
      )
  const local = new Set(product.carriers.filter((c) => c.country === country).map((c) => c.id))
  return product.rates.flatMap(
    ({ carriers, service, rotationMinutes: rotations, periodDays: periods, tiers }) =>
      carriers
        .filter((carrier) => local.has(carrier))
        .flatMap((carrierId) =>
          rotations.flatMap((rotationMinutes) =>
            periods.map((periodDays) => ({
              target: { country, periodDays, carrierId, service, rotationMinutes },
              tiers,
            })),
          ),
        ),
  )
}

/** The periods, in days, that the product is rented for in a country, or anywhere. */
export const periodsOf = (product: DedicatedProduct, country?: string): readonly number[] =>
  sorted(
    country === undefined
      ? product.rates.flatMap((rate) => rate.periodDays)
      : ratesIn(product, country).map((rate) => rate.target.periodDays),
  )

/** The price of one unit at a quantity: micro-dollars. Tiers start at 1, so there always is one. */
export const unitPriceMicros = (tiers: readonly Tier[], quantity: number): number => {
  const tier = tiers.findLast(({ from }) => from <= quantity)
  if (tier === undefined) throw new Error(`no tier prices a quantity of ${quantity}`)
  return tier.unitPriceMicros
}
