import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { stepsOf } from '../src/platform/cli/progress-bar.ts'
import type { Bench, BenchContext } from './bench.ts'
import { withDatabase, withLogOf } from './database.ts'
import { watchLag } from './orders/lag.ts'
import { runLoad } from './orders/load.ts'
import type { LoadResult } from './orders/load-process.ts'
import { serverSettings, startServer, stopServer } from './orders/server.ts'
import { percentile } from './percentile.ts'
import { type CpuSpent, cpuSpent } from './process-cpu.ts'
import { fill, type Get, makeAccounts, type ReadOf, readsOf, type World } from './reads/world.ts'

const getsPerSecond = 1_000
const connections = 100
const ordersPerSecond = 200
/** Until the server has compiled what it runs, and what piled up meanwhile is answered. */
const warmUpMs = 9_000
/** What all GETs together may take, milliseconds. */
const limit = { p50Ms: 5, p99Ms: 25 } as const
/** How far the read models may be behind the orders during the load, milliseconds at the 99th percentile. */
const lagLimitMs = 1_000
const lagPauseMs = 250
/** How long each GET is sent alone, one after another, for what it costs. */
const aloneMs = 500
const order = JSON.stringify({ product_id: 'residential-premium', quantity: 1 })

type Subject = { readonly url: URL; readonly pid: number; readonly pool: pg.Pool }
type Cost = { readonly ms: number; readonly main: number; readonly postgres: number }

const column = (value: number, digits = 0): string => value.toFixed(digits).padStart(9)
const rising = (times: readonly number[]): readonly number[] => times.toSorted((a, b) => a - b)
const ofAccounts = ({ template }: ReadOf): boolean => template.startsWith('/api/')

/** The cost of a GET without other load: its median in milliseconds, and microseconds of processor time. */
const costOf = async ({ url, pid, pool }: Subject, { gets }: ReadOf): Promise<Cost> => {
  const closedLoop = (measureMs: number) =>
    runLoad({
      host: url.hostname,
      port: Number(url.port),
      connections: 1,
      warmUpMs: 0,
      measureMs,
      run: '',
      path: gets.map(({ path }) => path),
      keys: gets.map(({ key }) => key),
      bodies: [],
    })
  await closedLoop(aloneMs / 2)
  const before = await cpuSpent(pid, pool)
  const { p50Ms, latenciesMs } = await closedLoop(aloneMs)
  const after = await cpuSpent(pid, pool)
  const each = (part: keyof CpuSpent): number => (after[part] - before[part]) / latenciesMs.length
  return { ms: p50Ms, main: each('mainThread'), postgres: each('postgres') }
}

/** One request of each GET in turn, so that every GET has the same share of the load. */
const spread = (reads: readonly ReadOf[]): readonly (Get & { readonly name: string })[] => {
  const rounds = Math.max(...reads.map(({ gets }) => gets.length))
  return Array.from({ length: rounds }, (_, n) =>
    reads.map(({ name, gets }) => ({ name, ...gets[n % gets.length]! })),
  ).flat()
}

const load = async (subject: Subject, reads: readonly ReadOf[], { callers }: World, seconds: number) => {
  const { url, pid, pool } = subject
  const measureMs = seconds * 1000
  const ordering = runLoad({
    host: url.hostname,
    port: Number(url.port),
    connections: 16,
    warmUpMs,
    measureMs,
    run: randomBytes(4).toString('hex'),
    path: '/api/v1/orders',
    keys: callers.map(({ key }) => key),
    bodies: [order],
    perSecond: ordersPerSecond,
  })
  const gets = spread(reads)
  const reading = runLoad({
    host: url.hostname,
    port: Number(url.port),
    connections,
    warmUpMs,
    measureMs,
    run: '',
    path: gets.map(({ path }) => path),
    keys: gets.map(({ key }) => key),
    names: gets.map(({ name }) => name),
    bodies: [],
    perSecond: getsPerSecond,
    open: true,
  })
  await sleep(warmUpMs)
  const watched = watchLag(url, lagPauseMs)
  const before = await cpuSpent(pid, pool)
  const startedMs = performance.now()
  const [read, placed] = await Promise.all([reading, ordering])
  const after = await cpuSpent(pid, pool)
  const elapsedMicros = (performance.now() - startedMs) * 1000
  const share = (part: keyof CpuSpent): number => ((after[part] - before[part]) / elapsedMicros) * 100
  const lags = rising((await watched()).map((look) => look.get('hot') ?? 0))
  return { read, placed, lags, node: share('node'), postgres: share('postgres') }
}

const tell = (
  { print }: BenchContext,
  reads: readonly ReadOf[],
  costs: ReadonlyMap<string, Cost>,
  { byName }: LoadResult,
): void => {
  print(
    `\n  GET${' '.repeat(46)}  p50 ms   p99 ms  answers │ alone ms  µs main µs Postg.\n  (under the load, all GETs at once)`,
  )
  for (const { name } of reads) {
    const times = rising(byName[name] ?? [])
    const { ms, main, postgres } = costs.get(name)!
    const loaded =
      times.length === 0
        ? ' '.repeat(27)
        : `${column(percentile(times, 0.5), 1)}${column(percentile(times, 0.99), 1)}${column(times.length)}`
    print(`  ${name.padEnd(47)}${loaded} │${column(ms, 1)}${column(main)}${column(postgres)}`)
  }
}

const measureAll = async (
  context: BenchContext,
  subject: Subject,
  world: World,
  reads: readonly ReadOf[],
): Promise<void> => {
  const { print, bar, sizes } = context
  const step = stepsOf(bar, 'reads', reads.length, 'GETs')
  const costs = new Map<string, Cost>()
  for (const [at, read] of reads.entries()) {
    step(at, at)
    costs.set(read.name, await costOf(subject, read))
  }
  bar.end()
  const loaded = reads.filter(ofAccounts)
  const machine = loadavg()[0]!.toFixed(1)
  const { read, placed, lags, node, postgres } = await load(subject, loaded, world, sizes.seconds)
  tell(context, reads, costs, read)
  const all = read.latenciesMs
  const failed = all.length - (read.statuses['200'] ?? 0)
  const [p50Ms, p99Ms] = [percentile(all, 0.5), percentile(all, 0.99)]
  const lagMs = percentile(lags, 0.99)
  const met =
    p50Ms < limit.p50Ms &&
    p99Ms < limit.p99Ms &&
    lagMs < lagLimitMs &&
    failed === 0 &&
    read.perSecond > getsPerSecond * 0.99
  print(
    `\n  ${loaded.length} GETs at ${(all.length / sizes.seconds).toFixed(0)} a second, open loop:  p50 ${p50Ms.toFixed(1)} ms (limit ${limit.p50Ms}), p99 ${p99Ms.toFixed(1)} ms (limit ${limit.p99Ms}, × ${(p99Ms / limit.p99Ms).toFixed(2)}), ${failed} failed`,
  )
  print(
    `  orders at the same time: ${placed.perSecond.toFixed(0)} a second, p50 ${placed.p50Ms.toFixed(1)} ms, p99 ${placed.p99Ms.toFixed(1)} ms; read models behind by ${percentile(lags, 0.5).toFixed(0)} ms at the median, ${lagMs.toFixed(0)} at p99 (limit ${lagLimitMs})`,
  )
  print(
    `  of a core: process ${node.toFixed(0)} %, Postgres ${postgres.toFixed(0)} %; load average of the machine before it ${machine}; limits ${met ? 'met' : 'MISSED'}`,
  )
}

/** What the interface description has and this benchmark does not read. */
const leftOut = async (base: URL, reads: readonly ReadOf[]): Promise<readonly string[]> => {
  const document = (await (await fetch(new URL('/openapi.json', base))).json()) as {
    paths: Record<string, { get?: object }>
  }
  const read = new Set(reads.map(({ template }) => template))
  return Object.entries(document.paths).flatMap(([path, { get }]) => (get && !read.has(path) ? [path] : []))
}

const serving = async <Value>(
  settings: NodeJS.ProcessEnv,
  work: (server: { readonly url: URL; readonly pid: number }) => Promise<Value>,
): Promise<Value> => {
  const { child, url } = await startServer(settings)
  try {
    return await work({ url, pid: child.pid ?? 0 })
  } finally {
    await stopServer(child)
  }
}

/**
 * All GETs of accounts with hundreds of orders, and of one with thousands, at once in an open loop, while orders are
 * placed. It also prints the cost of each GET alone, those of finance too.
 */
export const reads: Bench = {
  name: 'reads',
  what: `${getsPerSecond} GETs a second over all operations; limits ${limit.p50Ms} ms at the median and ${limit.p99Ms} ms at the 99th percentile, while ${ordersPerSecond} orders a second are placed`,
  run: async (context) => {
    const { url, print, sizes } = context
    const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
    try {
      await withDatabase(url, async (database) => {
        const settings: NodeJS.ProcessEnv = {
          ...serverSettings(database, directory),
          FAREBOX_WEBHOOK_ALLOW_LOOPBACK: 'on',
          LOG_LEVEL: process.env.LOG_LEVEL ?? 'error',
        }
        await serving(settings, async () => undefined) // makes the demo: catalogue and stock
        const world = await makeAccounts(settings)
        const found = await serving(settings, async ({ url: base }) => {
          const startedMs = performance.now()
          await fill(base, world.callers, sizes.orders)
          const seconds = (performance.now() - startedMs) / 1000
          print(`${world.callers.length} accounts, ${sizes.orders} orders, placed in ${seconds.toFixed(0)} s`)
          const all = await readsOf(base, world)
          const missing = await leftOut(base, all)
          if (missing.length > 0) print(`not read here: ${missing.join(', ')}`)
          return all
        })
        await serving(settings, (server) =>
          withLogOf(database, async ({ pool }) => {
            await pool.query('vacuum analyze')
            await sleep(2_000) // the last seals and snapshots
            await measureAll(context, { ...server, pool }, world, found)
          }),
        )
      })
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  },
}
