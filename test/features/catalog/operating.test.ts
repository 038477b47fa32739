import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { demoJson } from '../../domain/catalog/samples.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const cliFile = new URL('../../../src/cli.ts', import.meta.url).pathname

type Printed = {
  readonly code: number
  // biome-ignore lint/suspicious/noExplicitAny: the output of a command is read freely
  readonly json: any
  readonly err: string
}

/** A command in a separate process, while the service runs. */
const command =
  ({ env }: TestApp) =>
  (...args: string[]): Promise<Printed> =>
    new Promise((resolve, reject) => {
      execFile(
        process.execPath,
        [cliFile, ...args, '--json'],
        { env: { ...process.env, ...env } },
        (error, stdout, stderr) => {
          if (error && typeof error.code !== 'number') return reject(error)
          resolve({ code: Number(error?.code ?? 0), json: JSON.parse(stdout), err: stderr })
        },
      )
    })

const scratch = async (t: TestContext) => {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-catalog-'))
  t.after(() => rm(directory, { recursive: true, force: true }))
  return async (name: string, content: unknown): Promise<string> => {
    const path = join(directory, name)
    await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
    return path
  }
}

test('stock is added while a server runs and can be sold at once', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const farebox = command(app)
  const file = await scratch(t)
  const path = await file('addresses.txt', '# rack 7\n198.19.250.1\n198.19.250.2\n')
  const inUsa = ['stock', 'add', '--product', 'static-residential', '--country', 'usa']
  const added = await farebox(...inUsa, '--file', path, '--city', 'Chicago')
  assert.deepEqual(added.json, {
    productId: 'isp-static',
    country: 'USA',
    added: 2,
    changed: [],
    alreadyStocked: [],
    elsewhere: [],
  })
  const again = await farebox(...inUsa, '--addresses', '198.19.250.1,198.19.250.3')
  assert.deepEqual([again.code, again.json.added, again.json.alreadyStocked], [0, 1, ['198.19.250.1']])
  const elsewhere = await farebox(
    ...['stock', 'add', '--product', 'ipv4-datacenter', '--country', 'USA', '--addresses', '198.19.250.1'],
  )
  assert.deepEqual([elsewhere.code, elsewhere.json.code, elsewhere.json.added], [1, 'duplicate_addresses', 0])
  assert.deepEqual(elsewhere.json.elsewhere, [
    { ip: '198.19.250.1', productId: 'isp-static', country: 'USA' },
  ])
  assert.match(elsewhere.json.error, /^added 0 addresses to ipv4-datacenter in USA\n/)
  const one = await farebox(
    ...['stock', 'add', '--product', 'ipv4-datacenter', '--country', 'USA'],
    ...['--addresses', '198.19.250.1,198.19.250.4'],
  )
  assert.match(one.json.error, /^added 1 address to ipv4-datacenter in USA\n/)
  const wrong = await farebox(...inUsa, '--addresses', 'nonsense')
  assert.deepEqual([wrong.code, wrong.json.code], [2, 'invalid_addresses'])
  const listed = await farebox('stock', 'list', '--product', 'isp-static', '--country', 'USA')
  assert.deepEqual(listed.json.stock, [
    {
      productId: 'isp-static',
      country: 'USA',
      carrierId: null,
      service: null,
      total: 63,
      available: 63,
      resting: 0,
      rented: 0,
    },
  ])
  await until(async () => {
    const { body } = await app.buyer.get('/api/v1/products/isp-static/price?quantity=63')
    return body.available
  })
})

test('a sold-out country leaves the options and the price list at once', async (t) => {
  const { buyer } = await testApp(t, { own: 'file' })
  const ordered = await buyer.post('/api/v1/orders', {
    product_id: 'isp-static',
    quantity: 60,
    fulfillment_meta: { country: 'SGP', period_days: 7 },
  })
  assert.equal(ordered.status, 201, ordered.text)
  const options = await buyer.get('/api/v1/products/isp-static/options')
  assert.ok(!options.body.countries.some((country: { alpha3: string }) => country.alpha3 === 'SGP'))
  const list = await buyer.get('/api/v1/products/isp-static/price-list?country=SGP')
  assert.ok(list.body.lines.every((line: { available: boolean }) => !line.available))
})

// The last one: it parks a product of the others.
test('a catalogue is checked, imported and changed while a server runs, and takes effect at once', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const farebox = command(app)
  const file = await scratch(t)
  const price = async () => {
    const { body } = await app.buyer.get('/api/v1/products/residential-premium/price?quantity=1')
    return body.amountCents
  }
  assert.equal(await price(), 550)

  const dearer = demoJson()
  dearer.products[0].tiers[0].unitPriceMicros = 6_000_000
  const path = await file('dearer.json', dearer)
  const checked = await farebox('catalog', 'check', path)
  assert.deepEqual([checked.code, checked.json.status, checked.json.imported], [0, 'valid', false])
  assert.equal(await price(), 550)
  const imported = await farebox('catalog', 'import', path)
  assert.deepEqual([imported.code, imported.json.status, imported.json.products], [0, 'imported', 11])
  assert.equal(imported.json.digest, checked.json.digest)
  await until(async () => (await price()) === 600, { everyMs: 25 })
  assert.equal((await farebox('catalog', 'import', path)).json.status, 'unchanged')

  const broken = demoJson()
  broken.products[0].tiers[0].unitPriceMicros = 1.5
  broken.products.pop()
  const refused = await farebox('catalog', 'import', await file('broken.json', broken))
  assert.deepEqual([refused.code, refused.json.code], [2, 'invalid_catalog'])
  assert.match(refused.json.error, /products\[0\]\.tiers\[0\]\.unitPriceMicros: found 1\.5/)
  assert.deepEqual(refused.json.problems[0].path, 'products[0].tiers[0].unitPriceMicros')

  const parked = await farebox('catalog', 'set-state', 'isp-static', 'parked')
  assert.deepEqual([parked.json.status, parked.json.state], ['changed', 'parked'])
  const order = {
    product_id: 'isp-static',
    quantity: 1,
    fulfillment_meta: { country: 'USA', period_days: 30 },
  }
  await until(async () => {
    const { body } = await app.buyer.get('/api/v1/products/isp-static')
    return body.state === 'parked'
  })
  const answer = await app.buyer.post('/api/v1/orders', order)
  assert.deepEqual([answer.status, answer.body.code], [409, 'product_unavailable'])
  const options = await app.buyer.get('/api/v1/products/isp-static/options')
  assert.deepEqual(options.body.countries, [])
})
