import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StockCount } from '../../../src/domain/catalog/availability.ts'
import type { Product } from '../../../src/domain/catalog/product.ts'
import { createProductViews } from '../../../src/features/catalog/views.ts'
import { demoCatalog, demoProduct } from '../../domain/catalog/samples.ts'

const isp = demoProduct('isp-static') as Product
const inUsa: readonly StockCount[] = [{ country: 'USA', carrierId: null, service: null, available: 5 }]

type Shown = { readonly id: string; readonly state: string; readonly available: boolean }
const read = ({ bytes }: { readonly bytes: Buffer }): unknown => JSON.parse(bytes.toString())
const listed = (json: { readonly bytes: Buffer }) => (read(json) as { products: Shown[] }).products

test('a product and a list are generated once while the stock is unchanged', () => {
  const views = createProductViews()
  const stock = new Map([[isp.id, inUsa]])
  assert.equal(views.product(isp, inUsa), views.product(isp, inUsa))
  assert.equal(views.list(demoCatalog, undefined, stock), views.list(demoCatalog, undefined, stock))
})

test('a product and a list are generated again after the stock changes', () => {
  const views = createProductViews()
  assert.equal((read(views.product(isp, [])) as Shown).available, false)
  assert.equal((read(views.product(isp, inUsa)) as Shown).available, true)
  const availableOf = (stock: ReadonlyMap<string, readonly StockCount[]>) =>
    listed(views.list(demoCatalog, undefined, stock)).find(({ id }) => id === isp.id)?.available
  assert.equal(availableOf(new Map()), false)
  assert.equal(availableOf(new Map([[isp.id, inUsa]])), true)
})

test('lists of different states and catalogues are cached separately', () => {
  const views = createProductViews()
  const stock = new Map()
  const all = listed(views.list(demoCatalog, undefined, stock))
  const retired = listed(views.list(demoCatalog, 'retired', stock))
  assert.ok(retired.length > 0 && retired.every(({ state }) => state === 'retired'))
  assert.equal(
    all.some(({ state }) => state === 'retired'),
    false,
  )
  assert.deepEqual(listed(views.list(demoCatalog, undefined, stock)), all)
  assert.deepEqual(listed(views.list({ ...demoCatalog, products: [isp] }, undefined, stock)).length, 1)
})
