import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stepsOf } from '../src/platform/cli/progress-bar.ts'
import { createPool } from '../src/platform/postgres/pool.ts'
import type { Bench, BenchContext } from './bench.ts'
import { withDatabase } from './database.ts'
import { runLoad } from './orders/load.ts'
import { partsOf, profileFlags, readProfile } from './orders/parts.ts'
import { hasPgbench, initialisePgbench, runTpcB } from './orders/pgbench.ts'
import { measureRounds, order, type Peer, type Row, type Scenario } from './orders/rounds.ts'
import { serverSettings, startServer, stopServer } from './orders/server.ts'
import { customer, prepare } from './orders/shop.ts'
import { verify } from './orders/verified.ts'
import { childrenCpuMicros, cpuSpent } from './process-cpu.ts'

const clientsAtOnce = [32, 128] as const
const readers = 50
/** What a GET may take with 50 clients, milliseconds. */
const getP50Ms = 5
const getP99Ms = 25

const plan = JSON.stringify({ product_id: 'residential-premium', quantity: 1 })
const address = JSON.stringify({
  product_id: 'isp-static',
  quantity: 1,
  fulfillment_meta: { country: 'USA', period_days: 30 },
})

const figure = (value: number, digits = 0): string => value.toFixed(digits).padStart(10)
const absent = '–'.padStart(10)
/** What a row is about, then columns of ten. */
const labelWidth = 49
const head = (label: string, columns: readonly string[]): string =>
  label.padEnd(labelWidth) + columns.map((column) => column.padStart(10)).join('')

/** Makes the tables of TPC-B; null without pgbench. */
const preparePeer = async (
  { print, bar, sizes: { scale } }: BenchContext,
  database: string,
  directory: string,
): Promise<Peer | null> => {
  if (!(await hasPgbench())) {
    print('pgbench is not on the path: TPC-B is left out (Debian has it in postgresql-contrib)')
    return null
  }
  const step = stepsOf(bar, 'tables of TPC-B', 1, 'databases')
  step(0, 0)
  await initialisePgbench(database, scale)
  bar.end()
  return (clients, times) => runTpcB(database, clients, times, directory)
}

type Shop = {
  readonly base: URL
  readonly keys: readonly string[]
  readonly resellerKeys: readonly string[]
}

/**
 * Every load runs for so long before the first figure: a process that serves has been up for days. V8 still compiles
 * after twenty seconds of load, with 6 % of both cores.
 */
const firstLoadsMs = 6_000
/** How long each turn of either runs before it counts: until then the other one had the memory of Postgres. */
const warmUpMs = 3_000

const rowOf = (
  clients: number,
  { name, perSecond, p50Ms, p99Ms, tpcB, ratioError, lagP99Ms, others }: Row,
): string =>
  [
    `  ${name}, ${clients} clients`.padEnd(labelWidth),
    figure(perSecond),
    tpcB ? figure(tpcB.perSecond) : absent,
    tpcB ? figure(perSecond / tpcB.perSecond, 2) : absent,
    ratioError === null ? absent : figure(ratioError, 2),
    figure(p50Ms, 1),
    figure(p99Ms, 1),
    tpcB ? figure(tpcB.p99Ms, 1) : absent,
    tpcB ? figure(p99Ms / tpcB.p99Ms, 2) : absent,
    `  lag p99 ms: ${[...lagP99Ms].map(([group, ms]) => `${group} ${ms.toFixed(0)}`).join(', ')}`,
    Object.keys(others).length > 0 ? `  ${JSON.stringify(others)}` : '',
  ].join('')

/** Of orders a second: more than a quick machine does. */
const ordersPerSecondAtMost = 7_000

/** What the two rows that order addresses may sell, each other order one, for as many clients, and their first loads. */
const addressesToSell = ({ seconds, rounds }: BenchContext['sizes']): number => {
  const rowMs = seconds * 1000 + rounds * warmUpMs
  const loadedMs = 2 * (clientsAtOnce.length * rowMs + firstLoadsMs)
  return Math.ceil((loadedMs / 1000) * (ordersPerSecondAtMost / 2))
}

const measureOrders = async (
  { print, bar, sizes: { seconds, rounds, scale } }: BenchContext,
  { base, keys, resellerKeys }: Shop,
  peer: Peer | null,
): Promise<void> => {
  print(
    `orders over HTTP in ${rounds} rounds of all rows, TPC-B (prepared, scale ${scale}) before each turn:`,
  )
  print(head('', ['/s', 'TPC-B/s', '× TPC-B', '±', 'p50 ms', 'p99 ms', 'its p99', '× TPC-B']))
  const plain: Scenario = { name: 'plans, 64 wallets', keys, bodies: [plan] }
  const forCustomers: Scenario = {
    name: 'plans for customers, 64 wallets',
    keys: resellerKeys,
    bodies: [plan],
    customer,
  }
  const scenarios = [
    plain,
    forCustomers,
    { name: 'plans, one hot wallet', keys: keys.slice(0, 1), bodies: [plan] },
    { name: 'plans and addresses, 64 wallets', keys, bodies: [plan, address] },
    { name: 'plans and addresses, one hot wallet', keys: keys.slice(1, 2), bodies: [plan, address] },
  ]
  const turns = clientsAtOnce.length * rounds * scenarios.length
  const step = stepsOf(bar, 'orders', scenarios.length + turns, 'loads')
  let done = 0
  const next = (): void => {
    step(done, done)
    done += 1
  }
  for (const scenario of scenarios) {
    next()
    await order(base, scenario, clientsAtOnce[0], { warmUpMs: 0, measureMs: firstLoadsMs })
  }
  for (const clients of clientsAtOnce) {
    const rows = await measureRounds(base, scenarios, peer, {
      clients,
      rounds,
      times: { warmUpMs, measureMs: (seconds * 1000) / rounds },
      onTurn: next,
    })
    bar.end()
    for (const row of rows) print(rowOf(clients, row))
    const rateOf = (scenario: Scenario): number =>
      rows.find(({ name }) => name === scenario.name)?.perSecond ?? Number.NaN
    print(
      `  orders for customers are ${(rateOf(forCustomers) / rateOf(plain)).toFixed(2)} × plain ones, ${clients} clients`,
    )
  }
}

const measureReads = async ({ print, bar }: BenchContext, { base, keys }: Shop): Promise<void> => {
  print(
    `\n${head(`reads, ${readers} clients; p50 at most ${getP50Ms} ms`, ['/s', 'p50 ms', 'p99 ms', `× ${getP99Ms} ms`])}`,
  )
  const paths = [
    '/api/v1/wallet',
    '/api/v1/orders?limit=10',
    '/api/v1/plans',
    '/api/v1/proxies?limit=10',
    '/api/v1/products',
  ]
  const step = stepsOf(bar, 'reads', paths.length, 'loads')
  for (const [at, path] of paths.entries()) {
    step(at, at)
    const result = await runLoad({
      host: base.hostname,
      port: Number(base.port),
      connections: readers,
      warmUpMs: 1_000,
      measureMs: 4_000,
      path,
      run: '',
      keys,
      bodies: [],
    })
    bar.end()
    print(
      `  GET ${path}`.padEnd(labelWidth) +
        figure(result.perSecond) +
        figure(result.p50Ms, 1) +
        figure(result.p99Ms, 1) +
        figure(result.p99Ms / getP99Ms, 2),
    )
  }
}

/** The processor time of one order of the default scenario, by part. */
const measureParts = async (
  { print, url, sizes: { seconds } }: BenchContext,
  directory: string,
): Promise<void> =>
  withDatabase(url, async (database) => {
    const settings = serverSettings(database, directory)
    await stopServer((await startServer(settings)).child)
    const { keys } = await prepare(settings)
    const profiles = join(directory, 'profiles')
    const { child, url: base } = await startServer(settings, profileFlags(profiles))
    const pid = child.pid!
    const pool = createPool({ url: database, applicationName: 'farebox-bench', max: 1 })
    const scenario: Scenario = { name: 'plans', keys, bodies: [plan] }
    const spent = async () => ({ ...(await cpuSpent(pid, pool)), auditor: await childrenCpuMicros(pid) })
    const nowMicros = (): number => Number(process.hrtime.bigint() / 1000n)
    try {
      await order(base, scenario, clientsAtOnce[0], { warmUpMs: 0, measureMs: firstLoadsMs })
      const [fromMicros, before] = [nowMicros(), await spent()]
      const { perSecond } = await order(base, scenario, clientsAtOnce[0], {
        warmUpMs: 0,
        measureMs: seconds * 1000,
      })
      const [toMicros, after] = [nowMicros(), await spent()]
      await stopServer(child)
      const parts = partsOf(await readProfile(profiles), fromMicros, toMicros)
      const orderCount = perSecond * seconds
      const line = (part: string, micros: number): void =>
        print(`  ${part.padEnd(labelWidth)}${figure(micros / orderCount, 1)}`)
      print(
        `${perSecond.toFixed(0)} orders a second with ${clientsAtOnce[0]} clients while the profile is taken; µs of an order:`,
      )
      for (const [part, micros] of parts) line(`server, main thread: ${part}`, micros)
      line('server, other threads', after.node - before.node - (after.mainThread - before.mainThread))
      line('auditor', after.auditor - before.auditor)
      line('Postgres', after.postgres - before.postgres)
    } finally {
      await stopServer(child)
      await pool.end()
    }
  })

/**
 * Orders a second over HTTP, durable, with projections keeping up, compared with TPC-B of pgbench on the same server in the
 * same run.
 */
export const orders: Bench = {
  name: 'orders',
  what: 'orders a second over HTTP, compared with TPC-B of pgbench; reads; projection lag; ends in a verification',
  run: async (context) => {
    const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
    try {
      if (context.sizes.parts) return await measureParts(context, directory)
      await withDatabase(context.url, (tables) =>
        withDatabase(context.url, async (database) => {
          const peer = await preparePeer(context, tables, directory)
          const settings = serverSettings(database, directory)
          await stopServer((await startServer(settings)).child)
          const shop = await prepare(settings, { addressesInStock: addressesToSell(context.sizes) })
          const { child, url: base } = await startServer(settings)
          try {
            await measureOrders(context, { base, ...shop }, peer)
            await measureReads(context, { base, ...shop })
            await verify(context, database, settings.FAREBOX_SEAL_KEY)
          } finally {
            await stopServer(child)
          }
        }),
      )
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  },
}
