import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { stepsOf } from '../src/platform/cli/progress-bar.ts'
import type { Bench, BenchContext } from './bench.ts'
import { withDatabase, withLogOf } from './database.ts'
import { serverSettings, startServer, stopServer } from './orders/server.ts'
import { cpuSpent } from './process-cpu.ts'
import { chooseGenerator, type Generator } from './reads/generator.ts'
import { fill, makeAccounts, type ReadOf, readsOf } from './reads/world.ts'

const connections = 50
const warmUpS = 1
const maxSeconds = 4
/** What a GET may take with 50 clients, milliseconds (design section 10). */
const limit = { p50Ms: 5, p99Ms: 25 } as const

type Subject = { readonly url: URL; readonly pid: number; readonly pool: pg.Pool }

const column = (value: number, digits = 0): string => value.toFixed(digits).padStart(9)

const measure = async (
  generator: Generator,
  { url, pid, pool }: Subject,
  { name, gets }: ReadOf,
  seconds: number,
): Promise<{ readonly line: string; readonly met: boolean }> => {
  await generator.load({ url, gets, connections, seconds: warmUpS })
  const before = await cpuSpent(pid, pool)
  const load = await generator.load({ url, gets, connections, seconds })
  const after = await cpuSpent(pid, pool)
  const perGet = (part: keyof typeof after) => (after[part] - before[part]) / load.answered
  const met = load.p50Ms < limit.p50Ms && load.p99Ms < limit.p99Ms
  const columns = [
    column(load.perSecond),
    column(load.p50Ms, 1),
    column(load.p99Ms, 1),
    column(load.p99Ms / limit.p99Ms, 2),
    column(perGet('node')),
    column(perGet('mainThread')),
    column(perGet('postgres')),
    column(load.bytes / load.answered / 1000, 1),
  ]
  const failed = load.failed > 0 ? `  ${load.failed} failed` : ''
  return { line: `  ${`GET ${name}`.padEnd(46)}${columns.join('')}  ${met ? 'yes' : 'no'}${failed}`, met }
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

const measureAll = async (
  { print, bar, sizes }: BenchContext,
  generator: Generator,
  subject: Subject,
  reads: readonly ReadOf[],
): Promise<void> => {
  print(
    `\n  reads, ${connections} clients${' '.repeat(28)}       /s   p50 ms   p99 ms  × ${limit.p99Ms} ms  µs node  of main µs Postg.       kB  both`,
  )
  const step = stepsOf(bar, 'reads', reads.length, 'loads')
  let met = 0
  for (const [at, read] of reads.entries()) {
    step(at, at)
    const measured = await measure(generator, subject, read, Math.min(sizes.seconds, maxSeconds))
    if (measured.met) met += 1
    bar.end()
    print(measured.line)
  }
  print(
    `\n  ${met} of ${reads.length} below ${limit.p50Ms} ms at the median and ${limit.p99Ms} ms at the 99th percentile`,
  )
}

/**
 * Every GET at 50 concurrent clients, over accounts with tens of thousands of orders. The load is a closed loop: each
 * client asks again when it is answered.
 */
export const reads: Bench = {
  name: 'reads',
  what: 'every GET at 50 clients beside 5 ms at the median and 25 ms at the 99th percentile, with its processor time',
  run: async (context) => {
    const { url, print, sizes } = context
    const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
    try {
      const generator = await chooseGenerator(directory)
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
          print(
            `${world.callers.length} accounts, ${sizes.orders} orders, placed in ${seconds.toFixed(0)} s; load by ${generator.name}`,
          )
          const all = await readsOf(base, world)
          const missing = await leftOut(base, all)
          if (missing.length > 0) print(`not read here: ${missing.join(', ')}`)
          return all
        })
        await serving(settings, (server) =>
          withLogOf(database, async ({ pool }) => {
            await pool.query('vacuum analyze')
            await sleep(2_000) // the last seals and snapshots
            await measureAll(context, generator, { ...server, pool }, found)
          }),
        )
      })
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  },
}
