import { isDedicated, type ProductTerms, type Tier } from './product.ts'

/** A problem in an operator's input: the path, the value there and what is expected instead. */
export type Problem = { readonly path: string; readonly value: unknown; readonly expected: string }

const valueText = (value: unknown): string => {
  const text = value === undefined ? 'nothing' : JSON.stringify(value)
  return text.length > 80 ? `${text.slice(0, 77)}...` : text
}

/** One line per problem, e.g. `products[0].unit: found 5; expected of type string`. */
export const problemText = ({ path, value, expected }: Problem): string =>
  `${path === '' ? 'the input' : path}: found ${valueText(value)}; expected ${expected}`

const centMicros = 10_000
/** $10 million per order. With this limit every figure is far below the largest safe integer. */
const maxAmountMicros = 10_000_000_000_000
const minIpv6Quantity = 10

const problem = (path: string, value: unknown, expected: string): Problem => ({ path, value, expected })

const tierProblems = (path: string, tiers: readonly Tier[], product: ProductTerms): Problem[] => {
  const problems: Problem[] = []
  const first = tiers[0]!
  if (first.from !== 1) problems.push(problem(`${path}[0].from`, first.from, '1: the first tier prices all'))
  for (const [index, tier] of tiers.entries()) {
    const earlier = tiers[index - 1]
    const at = `${path}[${index}]`
    if (earlier && tier.from <= earlier.from)
      problems.push(problem(`${at}.from`, tier.from, `more than ${earlier.from}, the tier before it`))
    if (earlier && tier.unitPriceMicros > earlier.unitPriceMicros)
      problems.push(
        problem(
          `${at}.unitPriceMicros`,
          tier.unitPriceMicros,
          `at most ${earlier.unitPriceMicros}, the tier before it: more units never cost more each`,
        ),
      )
    if (tier.unitPriceMicros * product.maxQuantity > maxAmountMicros)
      problems.push(
        problem(
          `${at}.unitPriceMicros`,
          tier.unitPriceMicros,
          `at most ${Math.floor(maxAmountMicros / product.maxQuantity)}: an order is at most $10,000,000`,
        ),
      )
    const smallestQuantity = Math.max(tier.from, product.minQuantity)
    if (tier.unitPriceMicros * smallestQuantity < centMicros)
      problems.push(
        problem(
          `${at}.unitPriceMicros`,
          tier.unitPriceMicros,
          `at least ${Math.ceil(centMicros / smallestQuantity)}: the smallest order is at least one cent`,
        ),
      )
  }
  return problems
}

/** The combinations that have two prices. */
const duplicateProblems = (keys: readonly { readonly path: string; readonly key: string }[]): Problem[] => {
  const first = new Map<string, string>()
  return keys.flatMap(({ path, key }) => {
    const earlier = first.get(key)
    if (earlier === undefined) {
      first.set(key, path)
      return []
    }
    return [problem(path, key, `one price for each combination; ${earlier} prices this one already`)]
  })
}

const rateProblems = (path: string, product: ProductTerms): Problem[] => {
  if (product.shape === 'addresses')
    return duplicateProblems(
      product.rates.flatMap((rate, index) =>
        rate.countries.flatMap((country) =>
          rate.periodDays.map((days) => ({
            path: `${path}.rates[${index}]`,
            key: `${country} ${days} days`,
          })),
        ),
      ),
    )
  if (product.shape !== 'addresses_mobile') return []
  const carrierIds = new Set(product.carriers.map((carrier) => carrier.id))
  const pricedCarriers = new Set(product.rates.flatMap((rate) => rate.carriers))
  const unknown = product.rates.flatMap((rate, index) =>
    rate.carriers.flatMap((carrier, at) =>
      carrierIds.has(carrier)
        ? []
        : [
            problem(
              `${path}.rates[${index}].carriers[${at}]`,
              carrier,
              `one of the product's carriers: ${[...carrierIds].join(', ')}`,
            ),
          ],
    ),
  )
  const unpricedProblems = product.carriers.flatMap((carrier, index) =>
    pricedCarriers.has(carrier.id)
      ? []
      : [problem(`${path}.carriers[${index}].id`, carrier.id, 'a carrier that some rate prices')],
  )
  const combinationProblems = duplicateProblems([
    ...product.carriers.map((carrier, index) => ({
      path: `${path}.carriers[${index}]`,
      key: `carrier ${carrier.id}`,
    })),
    ...product.rates.flatMap((rate, index) =>
      rate.carriers.flatMap((carrier) =>
        rate.rotationMinutes.flatMap((minutes) =>
          rate.periodDays.map((days) => ({
            path: `${path}.rates[${index}]`,
            key: `${carrier} ${rate.service} ${minutes} minutes ${days} days`,
          })),
        ),
      ),
    ),
  ])
  return [...unknown, ...unpricedProblems, ...combinationProblems]
}

const boundProblems = (path: string, product: ProductTerms): Problem[] => {
  const problems: Problem[] = []
  if (product.maxQuantity < product.minQuantity)
    problems.push(
      problem(`${path}.maxQuantity`, product.maxQuantity, `at least minQuantity, ${product.minQuantity}`),
    )
  const smallestQuantity = product.family === 'ipv6' ? minIpv6Quantity : 1
  if (isDedicated(product) && product.minQuantity < smallestQuantity)
    problems.push(
      problem(`${path}.minQuantity`, product.minQuantity, `at least ${smallestQuantity} for IPv6`),
    )
  if ((product.family === 'mobile') !== (product.shape === 'addresses_mobile') && isDedicated(product))
    problems.push(
      problem(
        `${path}.shape`,
        product.shape,
        'addresses_mobile for dedicated IPs of family mobile, and only for them',
      ),
    )
  if (product.billing.subscription !== product.billing.intervals.length > 0)
    problems.push(
      problem(
        `${path}.billing.intervals`,
        product.billing.intervals,
        'month, year or both with a subscription, and none without',
      ),
    )
  return problems
}

const nameProblems = (products: readonly ProductTerms[]): Problem[] => {
  const pathByName = new Map<string, string>()
  const problems: Problem[] = []
  const claimName = (name: string, path: string) => {
    const earlier = pathByName.get(name)
    if (earlier === undefined) pathByName.set(name, path)
    else problems.push(problem(path, name, `a name of its own; ${earlier} has this one`))
  }
  products.forEach((product, index) => {
    claimName(product.id, `products[${index}].id`)
  })
  products.forEach((product, index) => {
    product.aliases.forEach((alias, at) => {
      claimName(alias, `products[${index}].aliases[${at}]`)
    })
  })
  return problems
}

/**
 * Follows the successors of a retired product. Returns null if they end at a product that is not retired, else what is
 * expected.
 */
export const successorProblem = (
  product: Pick<ProductTerms, 'id' | 'successorId'>,
  find: (id: string) => Pick<ProductTerms, 'id' | 'state' | 'successorId'> | undefined,
): string | null => {
  const seen = new Set([product.id])
  let id = product.successorId
  while (id !== null) {
    const next = find(id)
    if (next === undefined) return 'the id of a product of this catalogue'
    if (seen.has(next.id)) return 'a successor that does not lead back to this product'
    if (next.state !== 'retired') return null
    seen.add(next.id)
    id = next.successorId
  }
  return 'the product to buy instead: a retired product names one'
}

const stateProblems = (products: readonly ProductTerms[]): Problem[] => {
  const byId = new Map(products.map((product) => [product.id, product]))
  return products.flatMap((product, index) => {
    const at = `products[${index}]`
    const problems: Problem[] = []
    if (product.state === 'retired') {
      const expected = successorProblem(product, (id) => byId.get(id))
      if (expected) problems.push(problem(`${at}.successorId`, product.successorId, expected))
    } else if (product.successorId !== null)
      problems.push(problem(`${at}.successorId`, product.successorId, 'null: only a retired product has one'))
    if (product.state !== 'parked' && product.parkedUntil !== null)
      problems.push(problem(`${at}.parkedUntil`, product.parkedUntil, 'null: only a parked product has one'))
    return problems
  })
}

/**
 * The problems that no single field shows: duplicate names, tiers out of order, duplicate prices, successors that do
 * not end at a product for sale.
 */
export const catalogProblems = (products: readonly ProductTerms[]): readonly Problem[] => [
  ...nameProblems(products),
  ...stateProblems(products),
  ...products.flatMap((product, index) => {
    const path = `products[${index}]`
    const tables =
      product.shape === 'addresses' || product.shape === 'addresses_mobile'
        ? product.rates.map((rate, at) => ({ path: `${path}.rates[${at}].tiers`, tiers: rate.tiers }))
        : [{ path: `${path}.tiers`, tiers: product.tiers }]
    return [
      ...boundProblems(path, product),
      ...rateProblems(path, product),
      ...tables.flatMap((table) => tierProblems(table.path, table.tiers, product)),
    ]
  }),
]
