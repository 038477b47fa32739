import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { demoStock } from '../../../src/app/demo/demo-stock.ts'
import type { StockedAddress } from '../../../src/domain/stock/events.ts'
import { createCatalogService } from '../../../src/features/catalog/import-catalog.ts'
import { addAddresses } from '../../../src/features/stock/add-stock.ts'
import { countStock } from '../../../src/features/stock/stock-counts.ts'
import { canonicalIp } from '../../../src/kernel/ip-address.ts'
import { addressStream, stockStream } from '../../../src/kernel/streams.ts'
import { CommandOverload, type CommandRunner } from '../../../src/platform/commands/command.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { demoCatalog, demoText } from '../../domain/catalog/samples.ts'
import { codec, runnerOver } from '../../platform/commands/purse.ts'
import { postgresWorld } from '../../platform/commands/world.ts'
import { prefixLog } from '../../support/prefix-log.ts'
import { plainAddress } from '../../support/world.ts'

const cause = { correlationId: 'run_test', actor: { kind: 'operator', name: 'test' } } as const

const addresses = (count: number, block = 0): StockedAddress[] =>
  Array.from({ length: count }, (_, n) =>
    plainAddress(`198.18.${block + Math.floor(n / 250)}.${(n % 250) + 1}`),
  )
const ispUsa = (list: readonly StockedAddress[]) => ({
  productId: 'isp-static',
  country: 'USA',
  addresses: list,
})

const eventsOf = async (log: EventLog, stream: ReturnType<typeof stockStream>) => {
  const events = []
  for await (const stored of log.readStream(stream)) events.push(codec.decode(stored))
  return events
}
/** The addresses of a stock stream in the order of the log, repeated ones twice. */
const stockedIn = async (log: EventLog, productId: string, country: string): Promise<readonly string[]> => {
  const events = await eventsOf(log, stockStream(productId, country))
  return events.flatMap(({ data }) =>
    (data as { addresses: readonly StockedAddress[] }).addresses.map(({ ip }) => ip),
  )
}

const world = async (t: TestContext) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const open = (log: EventLog): CommandRunner => {
    const runner = runnerOver(log)
    t.after(() => runner.close())
    return runner
  }
  return { log: wire, open, runner: open(wire), other: open(elsewhere) }
}

test('addresses are stocked in batches, each with its own stream before the stock stream', async (t) => {
  const { log, runner } = await world(t)
  const list = addresses(250)
  const { report, position } = await addAddresses(runner, ispUsa(list), cause)
  assert.equal(report.added.length, 250)
  assert.equal(position, await log.head())
  assert.deepEqual(
    await stockedIn(log, 'isp-static', 'USA'),
    list.map(({ ip }) => ip),
  )
  const [first] = await eventsOf(log, addressStream('198.18.0.1'))
  assert.deepEqual(first?.data, { ip: '198.18.0.1', productId: 'isp-static', country: 'USA' })
  assert.equal(first?.metadata.actor.kind, 'operator')
  const all = (await log.readAll(0, 1_000)).map(codec.decode)
  assert.equal(all.length, 250 + 3)
  for (const event of all.filter(({ type }) => type === 'AddressesStocked'))
    for (const { ip } of (event.data as { addresses: StockedAddress[] }).addresses) {
      const own = all.find(({ stream }) => stream === addressStream(ip))
      assert.ok(own !== undefined && own.position < event.position)
    }
})

test('an address is in stock once: a repeated call writes nothing, another product gets its location', async (t) => {
  const { log, runner, other } = await world(t)
  await addAddresses(runner, ispUsa(addresses(5)), cause)
  const head = await log.head()
  const again = await addAddresses(other, ispUsa(addresses(5)), cause)
  assert.deepEqual(again.report.added, [])
  assert.equal(again.report.alreadyStocked.length, 5)
  assert.equal(again.position, null)
  assert.equal(await log.head(), head)
  const ipv4 = { productId: 'ipv4-datacenter', country: 'DEU', addresses: addresses(7) }
  const { report } = await addAddresses(runner, ipv4, cause)
  assert.deepEqual(report.added, ['198.18.0.6', '198.18.0.7'])
  assert.deepEqual(
    report.elsewhere,
    addresses(5).map(({ ip }) => ({ ip, productId: 'isp-static', country: 'USA' })),
  )
  assert.deepEqual(await stockedIn(log, 'ipv4-datacenter', 'DEU'), ['198.18.0.6', '198.18.0.7'])
})

test('an address named twice in one call is stocked once', async (t) => {
  const { log, runner } = await world(t)
  await addAddresses(runner, ispUsa([...addresses(3), ...addresses(3)]), cause)
  assert.equal((await stockedIn(log, 'isp-static', 'USA')).length, 3)
})

test('two operators who stock the same addresses for two products at once never share one', async (t) => {
  const { log, runner, other } = await world(t)
  const [isp, ipv4] = await Promise.all([
    addAddresses(runner, ispUsa(addresses(300)), cause),
    addAddresses(other, { productId: 'ipv4-datacenter', country: 'USA', addresses: addresses(300) }, cause),
  ])
  const stocked = [
    ...(await stockedIn(log, 'isp-static', 'USA')),
    ...(await stockedIn(log, 'ipv4-datacenter', 'USA')),
  ]
  assert.equal(stocked.length, 300)
  assert.equal(new Set(stocked).size, 300)
  assert.equal(isp.report.added.length + ipv4.report.added.length, 300)
  assert.equal(isp.report.elsewhere.length + ipv4.report.elsewhere.length, 300)
})

/** A log that writes this many appends and is then gone. */
const goneAfter = (log: EventLog, appends: number): EventLog => {
  let count = 0
  return prefixLog(log, () => (count++ < appends ? null : { kind: 'unavailable' }))
}

// Appends 0 to 9 are addresses, 10 is the stock stream.
for (const written of [0, 1, 5, 10])
  test(`a run that ended after ${written} of 11 appends is completed by the next one`, async (t) => {
    const { log, open, other } = await world(t)
    const list = addresses(10)
    await assert.rejects(addAddresses(open(goneAfter(log, written)), ispUsa(list), cause), CommandOverload)
    assert.equal(await log.head(), written)
    assert.deepEqual(await stockedIn(log, 'isp-static', 'USA'), [])
    const { report } = await addAddresses(other, ispUsa(list), cause)
    assert.equal(report.added.length, 10)
    assert.deepEqual(
      await stockedIn(log, 'isp-static', 'USA'),
      list.map(({ ip }) => ip),
    )
    for (const { ip } of list) assert.equal((await eventsOf(log, addressStream(ip))).length, 1)
  })

test('the demo stock has some thousand addresses, each once, and fills every pool of the demo catalogue in order', async (t) => {
  const { runner } = await world(t)
  await createCatalogService(runner).import(demoText, cause)
  const all = demoStock(demoCatalog.products)
  const ips = all.flatMap((stocking) => stocking.addresses.map(({ ip }) => ip))
  assert.ok(ips.length > 2_000)
  assert.equal(new Set(ips).size, ips.length)
  // This machine answers on all of its loopback addresses, which no operator may stock.
  const onLoopback = (ip: string) => canonicalIp(ip) === null && ip.startsWith('127.')
  assert.ok(ips.every((ip) => (ip.includes(':') ? canonicalIp(ip) === ip : onLoopback(ip))))
  for (const stocking of all) await addAddresses(runner, stocking, cause)
  const catalog = await createCatalogService(runner).read(cause)
  const pools = await countStock(runner, catalog, {}, cause)
  assert.equal(
    pools.reduce((sum, pool) => sum + pool.available, 0),
    ips.length,
  )
  assert.ok(pools.every((pool) => pool.available === pool.total && pool.rented === 0 && pool.resting === 0))
  const mobile = await countStock(runner, catalog, { productId: 'mobile-dedicated', country: 'USA' }, cause)
  assert.deepEqual(
    mobile.map(({ carrierId, service }) => `${carrierId} ${service}`),
    ['att-us', 'tmobile-us', 'verizon-us'].flatMap((carrier) => [
      `${carrier} dedicated`,
      `${carrier} shared`,
    ]),
  )
})
