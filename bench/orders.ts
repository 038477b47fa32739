import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stepsOf } from '../src/cli/progress-bar.ts'
import { assertVerified } from '../test/support/verify.ts'
import type { Bench, BenchContext } from './bench.ts'
import { withDatabase, withLogOf } from './database.ts'
import { sampleLag } from './orders/lag.ts'
import { runLoad } from './orders/load.ts'
import { hasPgbench, initialisePgbench, runTpcB, type TpcB } from './orders/pgbench.ts'
import { serverSettings, startServer, stopServer } from './orders/server.ts'
import { customer, prepare } from './orders/shop.ts'

const clientsAtOnce = [32, 128]
const readers = 50
/** What a GET may take with 50 clients, milliseconds (design section 10). */
const getP50Ms = 5
const getP99Ms = 25

const plan = JSON.stringify({ product_id: 'residential-premium', quantity: 1 })
const address = JSON.stringify({
  product_id: 'isp-static',
  quantity: 1,
  fulfillment_meta: { country: 'USA', period_days: 30 },
})

const figure = (value: number, digits = 0): string => value.toFixed(digits).padStart(9)
const ratio = (ours: number, theirs: number | undefined): string =>
  theirs === undefined ? '        –' : figure(ours / theirs, 2)

/** TPC-B of pgbench on this server, by the number of clients; empty without pgbench. */
const measureTpcB = async (
  { url, print, bar, sizes: { seconds, scale } }: BenchContext,
  directory: string,
): Promise<ReadonlyMap<number, TpcB>> => {
  const results = new Map<number, TpcB>()
  if (!(await hasPgbench())) {
    print('pgbench is not on the path: TPC-B is left out (Debian has it in postgresql-contrib)')
    return results
  }
  print(`TPC-B, prepared, scale ${scale}:`)
  await withDatabase(url, async (peer) => {
    const step = stepsOf(bar, 'TPC-B', clientsAtOnce.length + 1, 'runs')
    step(0, 0)
    await initialisePgbench(peer, scale)
    bar.end()
    print('  clients    tx/s       p50 ms    p99 ms')
    for (const n of clientsAtOnce) {
      step(results.size + 1, results.size + 1)
      const result = await runTpcB(peer, n, seconds, directory)
      results.set(n, result)
      bar.end()
      print(
        `  ${String(n).padStart(7)}${figure(result.perSecond)}${figure(result.p50Ms, 1)}${figure(result.p99Ms, 1)}`,
      )
    }
  })
  return results
}

type Shop = {
  readonly base: URL
  readonly keys: readonly string[]
  readonly resellerKeys: readonly string[]
}

const measureOrders = async (
  { print, bar, sizes: { seconds } }: BenchContext,
  { base, keys, resellerKeys }: Shop,
  tpcB: ReadonlyMap<number, TpcB>,
): Promise<void> => {
  print('\norders over HTTP:                      /s   × TPC-B   p50 ms   p99 ms  × TPC-B  lag p99 ms')
  const scenarios = [
    { name: 'plans, 64 wallets', keys, bodies: [plan] },
    { name: 'plans for customers, 64 wallets', keys: resellerKeys, bodies: [plan], customer },
    { name: 'plans, one hot wallet', keys: keys.slice(0, 1), bodies: [plan] },
    { name: 'plans and addresses, 64 wallets', keys, bodies: [plan, address] },
    { name: 'plans and addresses, one hot wallet', keys: keys.slice(1, 2), bodies: [plan, address] },
  ]
  const loads = clientsAtOnce.flatMap((n) => scenarios.map((scenario) => ({ n, ...scenario })))
  const step = stepsOf(bar, 'orders', loads.length, 'loads')
  const perSecond = new Map<string, number>()
  for (const [at, { n, name, ...what }] of loads.entries()) {
    step(at, at)
    const lag = sampleLag(base)
    const result = await runLoad({
      host: base.hostname,
      port: Number(base.port),
      connections: n,
      warmUpMs: 2_000,
      measureMs: seconds * 1000,
      path: '/api/v1/orders',
      run: randomBytes(4).toString('hex'),
      ...what,
    })
    const { p99Ms } = lag()
    perSecond.set(`${name}, ${n} clients`, result.perSecond)
    const peer = tpcB.get(n)
    const others = Object.entries(result.statuses).filter(([status]) => status !== '201')
    bar.end()
    print(
      `  ${`${name}, ${n} clients`.padEnd(33)}${figure(result.perSecond)}${ratio(result.perSecond, peer?.perSecond)}${figure(result.p50Ms, 1)}${figure(result.p99Ms, 1)}${ratio(result.p99Ms, peer?.p99Ms)}${figure(p99Ms, 0)}${others.length > 0 ? `  ${JSON.stringify(others)}` : ''}`,
    )
  }
  for (const n of clientsAtOnce) {
    const at = (name: string) => perSecond.get(`${name}, 64 wallets, ${n} clients`) ?? Number.NaN
    print(
      `  orders for customers are ${(at('plans for customers') / at('plans')).toFixed(2)} × plain ones, ${n} clients`,
    )
  }
}

const measureReads = async ({ print, bar }: BenchContext, { base, keys }: Shop): Promise<void> => {
  print(
    `\nreads, ${readers} clients:                     /s              p50 ms   p99 ms  × ${getP99Ms} ms (at most 1; p50 at most ${getP50Ms} ms)`,
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
      `  ${`GET ${path}`.padEnd(33)}${figure(result.perSecond)}         ${figure(result.p50Ms, 1)}${figure(result.p99Ms, 1)}${figure(result.p99Ms / getP99Ms, 2)}`,
    )
  }
}

/** Reads the whole log again and holds it against its seals, its laws and every read table. */
const verify = async ({ print }: BenchContext, database: string, sealKey: Buffer): Promise<void> => {
  const startedMs = performance.now()
  const { events, groups, seals } = await withLogOf(database, ({ pool, log }) =>
    assertVerified({ pool, log, sealKey }, { timeoutMs: 120_000 }),
  )
  const rows = groups.reduce((sum, group) => sum + group.rows, 0)
  print(
    `\nverified in ${((performance.now() - startedMs) / 1000).toFixed(1)} s, nothing is wrong: ${events} events in ${seals.seals} seals (${seals.unsealed} not sealed yet), ${rows} rows of read tables`,
  )
}

/**
 * Orders a second over HTTP, durable, with projections keeping up, beside TPC-B of pgbench on the same server in the
 * same run (design section 10).
 */
export const orders: Bench = {
  name: 'orders',
  what: 'orders a second over HTTP beside TPC-B of pgbench; reads; projection lag; ends in a verification',
  run: async (context) => {
    const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
    try {
      const tpcB = await measureTpcB(context, directory)
      await withDatabase(context.url, async (database) => {
        const settings = serverSettings(database, directory)
        await stopServer((await startServer(settings)).child)
        const shop = await prepare(settings)
        const { child, url: base } = await startServer(settings)
        try {
          await measureOrders(context, { base, ...shop }, tpcB)
          await measureReads(context, { base, ...shop })
          await verify(context, database, Buffer.from(settings.FAREBOX_SEAL_KEY, 'base64'))
        } finally {
          await stopServer(child)
        }
      })
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  },
}
