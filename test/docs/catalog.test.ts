import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { operate } from '../support/operator.ts'
import { pageOf, pageShell } from '../support/page-shell.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'

const page = pageOf('docs/operations/catalog.md')
const example = /^```json\n([\s\S]*?)^```$/m.exec(page)?.[1] ?? ''
const commands = [...page.matchAll(/^bin\/farebox .*$/gm)].map(([line]) => line)

const openDemo = async (t: TestContext) => {
  const app = await testApp(t, { own: true })
  const products = async (): Promise<readonly string[]> =>
    (await app.buyer.get('/api/v1/products')).body.products.map(({ id }: { id: string }) => id)
  return { ...app, imported: await app.file('catalog.json', example), products }
}

test('the example and every command of the catalogue page run on a new demo', async (t) => {
  const app = await openDemo(t)
  const { env, products } = app
  await app.file('addresses.txt', '# free\n198.19.251.1\n198.19.251.2\n')
  const shell = await pageShell(t, { env, cwd: env.FAREBOX_DATA })
  assert.ok(commands.length >= 7, `${commands.length} commands`)
  const before = await products()
  assert.ok(before.includes('ipv4-datacenter'))
  const imports = 1 + commands.findIndex((line) => line.includes('catalog import'))
  await shell(commands.slice(0, imports).join('\n'))
  const sold = JSON.parse(example).products.map(({ id }: { id: string }) => id)
  await until(async () => (await products()).length === sold.length, { what: 'the four products' })
  assert.deepEqual([...(await products())].sort(), sold.sort())
  await shell(commands.slice(imports).join('\n'))
})

test('the example is refused on a demo with an order of another product, whatever the tables contain', async (t) => {
  const { env, buyer, core, imported, close } = await openDemo(t)
  const order = { product_id: 'dc-ipv4', quantity: 1, fulfillment_meta: { country: 'USA', period_days: 30 } }
  const placed = await buyer.post('/api/v1/orders', order)
  assert.equal(placed.status, 201, placed.text)
  const hosted = { product_id: 'residential-basic', quantity: 1, method: 'card' }
  const awaits = await buyer.post('/api/v1/orders', hosted)
  assert.equal(awaits.status, 201, awaits.text)
  const refusedFor = async () => {
    const { code, out } = await operate(['catalog', 'import', imported, '--json'], env)
    assert.equal(code, 2)
    return JSON.parse(out).problems.map(({ value }: { value: string }) => value)
  }
  assert.deepEqual(await refusedFor(), ['residential-basic', 'ipv4-datacenter'])
  // The same from the log alone, as before a server created the tables.
  await core.pool.query('drop table read.orders')
  await close()
  assert.deepEqual(await refusedFor(), ['residential-basic', 'ipv4-datacenter'])
})
