import type { StockCount } from './availability.ts'
import type { Product } from './product.ts'
import { productView } from './views.ts'

type View = ReturnType<typeof productView>

/**
 * `productView`, made once for each state of a product and its stock: with hundreds of rates, rendering a product costs
 * more than all else of a request. Views go with the products that they show.
 */
export const createProductViews = (): typeof productView => {
  const views = new WeakMap<Product, { readonly stock: readonly StockCount[]; readonly view: View }>()
  return (product, stock) => {
    const known = views.get(product)
    if (known?.stock === stock) return known.view
    const view = productView(product, stock)
    views.set(product, { stock, view })
    return view
  }
}
