import { JsonBytes } from '../../platform/http/json-bytes.ts'
import { noStock, type StockCount } from './availability.ts'
import type { Catalog } from './catalog.ts'
import type { Product } from './product.ts'
import { productView } from './views.ts'

type View = ReturnType<typeof productView>
type List = { readonly products: View[] }
type Stock = ReadonlyMap<string, readonly StockCount[]>

type WrittenList = { readonly stock: Stock; readonly json: JsonBytes<List> }

/** What a list is asked for: products in one state, or all that are not retired. */
type Listed = Product['state'] | undefined

/**
 * Products as they are answered, rendered and written once for each state of the catalogue and its stock: with hundreds
 * of rates that costs more than all else of a request. What is kept goes with the catalogue that it shows.
 */
export const createProductViews = () => {
  const shown = new WeakMap<
    Product,
    { readonly stock: readonly StockCount[]; readonly view: View; json: JsonBytes<View> | null }
  >()
  const lists = new WeakMap<Catalog, Map<Listed, WrittenList>>()

  const show = (product: Product, stock: readonly StockCount[]) => {
    const known = shown.get(product)
    if (known?.stock === stock) return known
    const made = { stock, view: productView(product, stock), json: null }
    shown.set(product, made)
    return made
  }

  const listOf = ({ products }: Catalog, listed: Listed, stock: Stock): List => ({
    products: products
      .filter(({ state }) => (listed === undefined ? state !== 'retired' : state === listed))
      .map((product) => show(product, stock.get(product.id) ?? noStock).view),
  })

  return {
    product: (product: Product, stock: readonly StockCount[]): JsonBytes<View> => {
      const known = show(product, stock)
      known.json ??= JsonBytes.of(known.view)
      return known.json
    },
    /** In the catalogue's order. */
    list: (catalog: Catalog, listed: Listed, stock: Stock): JsonBytes<List> => {
      const kept = lists.get(catalog) ?? new Map<Listed, WrittenList>()
      const known = kept.get(listed)
      if (known?.stock === stock) return known.json
      const json = JsonBytes.of(listOf(catalog, listed, stock))
      lists.set(catalog, kept.set(listed, { stock, json }))
      return json
    },
  }
}
