import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import pg from 'pg'
import { call, dataDirectory, farebox, startFarebox, surroundings } from '../support/farebox.ts'
import { emptyDatabase } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const root = join(import.meta.dirname, '../..')
const page = readFileSync(join(root, 'docs/operations/catalog.md'), 'utf8')
const example = /^```json\n([\s\S]*?)^```$/m.exec(page)?.[1] ?? ''
const commands = [...page.matchAll(/^npx farebox .*$/gm)].map(([line]) => line)

const openDemo = async (t: Parameters<typeof emptyDatabase>[0]) => {
  const { url } = await emptyDatabase(t)
  const directory = await dataDirectory(t)
  const secret = () => randomBytes(32).toString('base64')
  const secrets = { FAREBOX_MASTER_KEY: secret(), FAREBOX_SEAL_KEY: secret() }
  const env = { ...surroundings(), FAREBOX_DATA: directory, DATABASE_URL: url, ...secrets }
  const server = await startFarebox(t, env)
  const { buyer } = JSON.parse(readFileSync(join(directory, 'demo.json'), 'utf8'))
  const products = async (): Promise<readonly string[]> =>
    (await call(`${server.baseUrl}/api/v1/products`, buyer.key)).body.products.map(
      ({ id }: { id: string }) => id,
    )
  const file = join(directory, 'catalog.json')
  await writeFile(file, example)
  return { server, env, directory, file, buyer, products }
}

test('the example and every command of the catalogue page run on a new demo', async (t) => {
  const { env, directory, products } = await openDemo(t)
  await writeFile(join(directory, 'addresses.txt'), '# free\n198.19.251.1\n198.19.251.2\n')
  assert.ok(commands.length >= 7, `${commands.length} commands`)
  const before = await products()
  assert.ok(before.includes('ipv4-datacenter'))
  for (const [n, line] of commands.entries()) {
    const runnable = line.replace('npx farebox', `'${process.execPath}' '${join(root, 'src/cli.ts')}'`)
    await promisify(execFile)('bash', ['-euc', runnable], { cwd: directory, env }).catch((error) =>
      assert.fail(`${line}\n${error.stdout}${error.stderr}`),
    )
    if (n !== commands.findIndex((each) => each.includes('catalog import'))) continue
    const sold = JSON.parse(example).products.map(({ id }: { id: string }) => id)
    await until(async () => (await products()).length === sold.length, { what: 'the four products' })
    assert.deepEqual([...(await products())].sort(), sold.sort())
  }
})

test('the example is refused on a demo with an order of another product, whatever the tables contain', async (t) => {
  const { server, env, buyer, file } = await openDemo(t)
  const order = { product_id: 'dc-ipv4', quantity: 1, fulfillment_meta: { country: 'USA', period_days: 30 } }
  const placed = await call(`${server.baseUrl}/api/v1/orders`, buyer.key, { body: order })
  assert.equal(placed.status, 201, JSON.stringify(placed.body))
  const hosted = { product_id: 'residential-basic', quantity: 1, method: 'card' }
  const awaits = await call(`${server.baseUrl}/api/v1/orders`, buyer.key, { body: hosted })
  assert.equal(awaits.status, 201, JSON.stringify(awaits.body))
  const refusedFor = async () => {
    const { code, out } = await farebox(t, ['catalog', 'import', file, '--json'], env)
    assert.equal(code, 2)
    return JSON.parse(out).problems.map(({ value }: { value: string }) => value)
  }
  assert.deepEqual(await refusedFor(), ['residential-basic', 'ipv4-datacenter'])
  await server.stop()
  // The same from the log alone, as before a server created the tables.
  const client = new pg.Client({ connectionString: env.DATABASE_URL })
  await client.connect()
  await client.query('drop table read.orders')
  await client.end()
  assert.deepEqual(await refusedFor(), ['residential-basic', 'ipv4-datacenter'])
})
