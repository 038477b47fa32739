import { isoTime } from '../../kernel/clock.ts'
import { type Decision, decided, refused } from '../../kernel/decider.ts'
import type { CatalogFile } from './catalog-file.ts'
import { type Problem, successorProblem } from './catalog-rules.ts'
import type { CatalogEvent, CatalogImported, ProductStateChanged } from './events.ts'
import { inState } from './fold.ts'
import type { CatalogState, Product, ProductState, ProductTerms } from './product.ts'

/** An append may have 1 MiB. The rest is for metadata and growth. */
export const maxCatalogBytes = 900 * 1024

/** The digest of a catalogue, and its number of products. */
export type Imported = { readonly digest: string; readonly products: number }

/** Refused with all problems found. */
export type CatalogDecision<Value> = Decision<CatalogEvent, readonly Problem[], Value>

const fixedFields = ['family', 'shape', 'renewal'] as const

/** Existing orders may have an old id, and their retries must still mean the same product. */
const aliasProblem = (
  alias: string,
  owner: { readonly product: ProductTerms; readonly path: string },
  takenPath: string | null,
): Problem =>
  takenPath === null
    ? {
        path: `${owner.path}.aliases`,
        value: owner.product.aliases,
        expected: `${alias} to stay: old ids always resolve`,
      }
    : {
        path: takenPath,
        value: alias,
        expected: `a new id: ${alias} is an old id of ${owner.product.id} and always names it; leave it in the aliases of ${owner.product.id}`,
      }

const continuityProblems = (
  before: readonly Product[],
  after: readonly ProductTerms[],
  neverOrderedIds: ReadonlySet<string>,
): readonly Problem[] => {
  const afterById = new Map(after.map((product) => [product.id, product]))
  const pathById = new Map(
    after.flatMap((product, at) => [
      [product.id, `products[${at}].id`] as const,
      ...product.aliases.map((alias, n) => [alias, `products[${at}].aliases[${n}]`] as const),
    ]),
  )
  return before.flatMap((product): Problem[] => {
    const next = afterById.get(product.id)
    if (next === undefined && neverOrderedIds.has(product.id)) return []
    if (next === undefined)
      return [
        {
          path: 'products',
          value: product.id,
          expected: `product ${product.id} to stay: what was ordered never vanishes, retire it with a successorId`,
        },
      ]
    const at = `products[${after.indexOf(next)}]`
    return [
      ...fixedFields
        .filter((field) => next[field] !== product[field])
        .map((field) => ({
          path: `${at}.${field}`,
          value: next[field],
          expected: `${product[field]}, which never changes; make a new product and retire ${product.id}`,
        })),
      ...product.aliases
        .filter((alias) => !next.aliases.includes(alias))
        .map((alias) => aliasProblem(alias, { product: next, path: at }, pathById.get(alias) ?? null)),
    ]
  })
}

/**
 * Replaces the whole catalogue with a checked file. The same digest gives no event, so states that changed since then
 * stay.
 *
 * The whole file is refused if another product or an old id of a product is missing, if an old id names another
 * product, if a product's family, shape or renewal changes, or above 900 KiB. A product in `neverOrderedIds` may be
 * missing.
 */
export const decideImport = (
  state: CatalogState,
  file: CatalogFile,
  nowMs: number,
  neverOrderedIds: ReadonlySet<string> = new Set(),
): CatalogDecision<Imported> => {
  const { digest } = file
  const summary: Imported = { digest, products: file.products.length }
  if (state.digest === digest) return { ...decided(), ...summary }
  const problems = continuityProblems(state.products, file.products, neverOrderedIds)
  if (problems.length > 0) return refused(problems)
  const now = isoTime(nowMs)
  const before = new Map(state.products.map((product) => [product.id, product]))
  const products = file.products.map((product): Product => {
    const previous = before.get(product.id)
    return { ...product, since: previous?.state === product.state ? previous.since : now }
  })
  const event: CatalogImported = { type: 'CatalogImported', data: { digest, importedAt: now, products } }
  const bytes = Buffer.byteLength(JSON.stringify(event.data))
  if (bytes > maxCatalogBytes)
    return refused([
      { path: '', value: `${bytes} bytes`, expected: `at most ${maxCatalogBytes} bytes in one catalogue` },
    ])
  return { ...decided(event), ...summary }
}

/**
 * Changes one product's state between imports. An unchanged state gives no event. It is refused for an unknown product,
 * and for a retirement without a successor that can be bought.
 */
export const decideState = (
  state: CatalogState,
  change: { readonly productId: string; readonly state: ProductState; readonly successorId: string | null },
  nowMs: number,
): CatalogDecision<{ readonly product: Product }> => {
  const findProduct = (id: string) => state.products.find((product) => product.id === id)
  const refuseField = (path: string, value: unknown, expected: string) => refused([{ path, value, expected }])
  const product = findProduct(change.productId)
  if (product === undefined) return refuseField('product', change.productId, 'the id of a product')
  if (product.state === change.state && product.successorId === change.successorId)
    return { ...decided(), product }
  if (change.state === 'retired') {
    const expected = successorProblem({ id: product.id, successorId: change.successorId }, findProduct)
    if (expected !== null) return refuseField('successor', change.successorId, expected)
  } else if (change.successorId !== null)
    return refuseField('successor', change.successorId, 'none: only a retired product has one')
  const { productId, ...newState } = change
  const since = product.state === change.state ? product.since : isoTime(nowMs)
  const event: ProductStateChanged = { type: 'ProductStateChanged', data: { productId, ...newState, since } }
  return { ...decided(event), product: inState(product, { ...newState, since }) }
}
