import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createCatalog, orderable, productOfOrder, quotable } from '../../../src/domain/catalog/catalog.ts'
import { parseCatalog } from '../../../src/domain/catalog/catalog-file.ts'
import { problemText } from '../../../src/domain/catalog/catalog-rules.ts'
import {
  type CatalogDecision,
  decideImport,
  decideState,
  maxCatalogBytes,
} from '../../../src/domain/catalog/decide.ts'
import { catalogFold } from '../../../src/domain/catalog/fold.ts'
import type { CatalogState, ProductState } from '../../../src/domain/catalog/product.ts'
import { decider } from '../../support/decider.ts'
import { demoJson, importedAtMs } from './samples.ts'

const later = importedAtMs + 60_000
const fileOf = (text: string) => {
  const parsed = parseCatalog(text)
  assert.ok(parsed.ok, JSON.stringify(parsed))
  return parsed.file
}
const importing =
  (file: unknown, neverOrderedIds?: ReadonlySet<string>) => (state: CatalogState, nowMs: number) =>
    decideImport(state, fileOf(JSON.stringify(file)), nowMs, neverOrderedIds)
const setting =
  (productId: string, to: ProductState, successorId: string | null = null) =>
  (state: CatalogState, nowMs: number) =>
    decideState(state, { productId, state: to, successorId }, nowMs)
const imported = decider(catalogFold).at(importedAtMs).given(importing(demoJson())).at(later)
const before = imported.state
const problemsOf = (decide: (state: CatalogState, nowMs: number) => CatalogDecision<unknown>): string => {
  const { result } = imported.when(decide)
  assert.ok(result.outcome === 'refused')
  return result.refusal.map(problemText).join('\n')
}
const refusedText = (file: unknown): string => problemsOf(importing(file))

test('importing the same catalogue again adds no event', () => {
  const { digest, products } = before
  const again = { outcome: 'decided', events: [], digest, products: products.length }
  assert.deepEqual(imported.when(importing(demoJson())).result, again)
})

test('an import replaces the whole catalogue, and an unchanged state keeps its date', () => {
  const file = demoJson()
  file.products[0].tiers[0].unitPriceMicros = 5_400_000
  file.products[1].state = 'parked'
  const after = imported.given(importing(file)).state
  assert.notEqual(after.digest, before.digest)
  assert.equal(after.products[0]!.since, '2026-11-21T02:30:00.000Z')
  assert.equal(after.products[1]!.since, '2026-11-21T02:31:00.000Z')
})

test('a product cannot be left out', () => {
  const file = demoJson()
  file.products.shift()
  assert.match(
    refusedText(file),
    /found "residential-premium"; expected product residential-premium to stay: .* retire it with a successorId/,
  )
})

test('a product without orders can be left out, with its old ids', () => {
  const file = demoJson()
  const gone = file.products.find(({ id }: { id: string }) => id === 'ipv4-datacenter')
  file.products = file.products.filter((product: unknown) => product !== gone)
  assert.match(refusedText(file), /product ipv4-datacenter to stay: what was ordered never vanishes/)
  file.products.find(({ id }: { id: string }) => id === 'isp-static').aliases.push(...gone.aliases)
  imported.when(importing(file, new Set(['ipv4-datacenter']))).thenEvents('CatalogImported')
  assert.match(problemsOf(importing(file, new Set(['isp-static']))), /product ipv4-datacenter to stay/)
})

test('an old id cannot be left out', () => {
  const file = demoJson()
  file.products[0].aliases = []
  assert.match(refusedText(file), /expected resi-premium to stay: old ids always resolve/)
})

test('an old id names its product permanently; no other product can take it', () => {
  const moved = demoJson()
  const aliases = moved.products[0].aliases.splice(0)
  moved.products[1].aliases = ['resi-new', ...aliases]
  const at = moved.products[1].aliases.indexOf('resi-premium')
  const expected =
    'expected a new id: resi-premium is an old id of residential-premium and always names it; ' +
    'leave it in the aliases of residential-premium'
  assert.ok(
    refusedText(moved).split('\n').includes(`products[1].aliases[${at}]: found "resi-premium"; ${expected}`),
    refusedText(moved),
  )
  const promoted = demoJson()
  promoted.products[0].aliases.splice(promoted.products[0].aliases.indexOf('resi-premium'), 1)
  const last = promoted.products.push({ ...promoted.products[0], id: 'resi-premium', aliases: [] }) - 1
  assert.equal(refusedText(promoted), `products[${last}].id: found "resi-premium"; ${expected}`)
})

test('a product can get more old ids, and a retired one keeps its own with its successor', () => {
  const file = demoJson()
  const [first, second] = file.products
  first.aliases.unshift('resi-first')
  Object.assign(first, { state: 'retired', successorId: second.id })
  const catalog = createCatalog(imported.given(importing(file)).state)
  for (const name of ['resi-first', 'resi-premium', first.id]) {
    assert.equal(catalog.resolve(name)?.id, first.id)
    const ordered = productOfOrder(catalog, name)
    assert.ok(!ordered.ok)
    assert.equal(ordered.refusal.successorId, second.id)
  }
})

test('a product keeps its kind', () => {
  const file = demoJson()
  file.products[0].family = 'isp'
  file.products[1].renewal = 'repurchase'
  assert.match(
    refusedText(file),
    /products\[0\]\.family: found "isp"; expected residential, which never changes/,
  )
  assert.match(refusedText(file), /products\[1\]\.renewal: found "repurchase"; expected topup/)
})

test('a catalogue that exceeds one append is refused', () => {
  const file = demoJson()
  const [first] = file.products
  for (let n = 0; n < 500; n += 1)
    file.products.push({ ...first, id: `copy-${n}`, aliases: [], description: 'x'.repeat(2_000) })
  const text = refusedText(file)
  assert.match(text, new RegExp(`expected at most ${maxCatalogBytes} bytes`))
})

test('old ids are resolved, and products are listed by family and id', () => {
  const catalog = createCatalog(before)
  assert.equal(catalog.resolve('resi-premium')?.id, 'residential-premium')
  assert.equal(catalog.resolve('residential')?.id, 'residential-classic')
  assert.equal(catalog.resolve('nothing'), undefined)
  const keys = catalog.products.map(({ family, id }) => `${family} ${id}`)
  assert.deepEqual(keys, [...keys].sort())
})

test('a parked product has quotes but no orders; a retired one has neither, and names its successor', () => {
  const catalog = createCatalog(before)
  const parked = catalog.resolve('isp-gateway')!
  const retired = catalog.resolve('residential')!
  assert.ok(quotable(parked).ok)
  assert.deepEqual(orderable(parked), {
    ok: false,
    refusal: {
      code: 'product_unavailable',
      message: 'isp-gateway is parked and cannot be ordered until it is back',
      successorId: null,
    },
  })
  for (const check of [quotable(retired), orderable(retired), productOfOrder(catalog, 'residential')]) {
    assert.ok(!check.ok)
    assert.equal(check.refusal.code, 'product_unavailable')
    assert.equal(check.refusal.successorId, 'residential-basic')
  }
  const unknown = productOfOrder(catalog, 'nothing')
  assert.ok(!unknown.ok)
  assert.equal(unknown.refusal.code, 'unknown_product')
})

test('a product is parked, retired and reactivated between imports; the digest stays the same', () => {
  const park = setting('isp-static', 'parked')
  const parked = imported.given(park)
  assert.equal(parked.state.digest, before.digest)
  const standing = ({ products }: CatalogState) => {
    const product = products.find(({ id }) => id === 'isp-static')!
    return [product.state, product.successorId, product.since]
  }
  assert.deepEqual(standing(parked.state), ['parked', null, '2026-11-21T02:31:00.000Z'])
  const next = parked.at(later + 1)
  next.when(park).thenEvents()
  const retired = next.given(setting('isp-static', 'retired', 'ipv4-datacenter'))
  assert.deepEqual(standing(retired.state), ['retired', 'ipv4-datacenter', '2026-11-21T02:31:00.001Z'])
  // The file that was imported last is no news, so a state that was set by hand stays.
  parked.when(importing(demoJson())).thenEvents()
})

test('a reactivated product has no expected date of return', () => {
  const { products } = imported.given(setting('isp-gateway', 'active')).state
  assert.equal(products.find(({ id }) => id === 'isp-gateway')!.parkedUntil, null)
})

for (const [name, decide, expected] of [
  ['an unknown product', setting('x', 'parked'), /the id of a product/],
  ['a retirement without a successor', setting('isp-static', 'retired'), /the product to buy instead/],
  ['a retirement in favour of itself', setting('isp-static', 'retired', 'isp-static'), /does not lead back/],
  [
    'a retirement that leads back through another',
    setting('residential-basic', 'retired', 'residential-classic'),
    /does not lead back/,
  ],
  [
    'a successor of a parked product',
    setting('isp-static', 'parked', 'ipv4-datacenter'),
    /only a retired product has one/,
  ],
] as const)
  test(`a change of state is refused: ${name}`, () => assert.match(problemsOf(decide), expected))
