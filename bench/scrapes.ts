import { mkdtemp, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { stepsOf } from '../src/platform/cli/progress-bar.ts'
import { createPool } from '../src/platform/postgres/pool.ts'
import { scrapersPath } from '../src/sandbox/scrapers/scraper-sandbox.ts'
import { until } from '../test/support/until.ts'
import { type Bench, type BenchContext, figure } from './bench.ts'
import { withDatabase } from './database.ts'
import type { LoadResult } from './orders/load-process.ts'
import { othersOf } from './orders/rounds.ts'
import { serverSettings, startServer, stopServer } from './orders/server.ts'
import { prepare } from './orders/shop.ts'
import { verify } from './orders/verified.ts'
import { type StandIn, startStandIn } from './scrapes/stand-in.ts'
import { type Job, load, type Measured, type PairedRow, paired } from './scrapes/turns.ts'
import { scrapePath, type Upstream, upstreams } from './scrapes/upstreams.ts'

const clients = 32
/** Of orders a second, at least. */
const floor = 0.5
/** Until V8 has compiled what runs much; of each load once. */
const firstLoadsMs = 3_000
const warmUpMs = 1_000
/** Calls that are repeated for their stored answers. */
const replayed = 1_024
/** Far below what a machine does, so that nothing waits for a processor only because of the load itself. */
const steadyPerSecond = 50
/** Calls of the slow platform, in flight at once. */
const slowCalls = 200

const order = JSON.stringify({ product_id: 'residential-premium', quantity: 1 })

type Place = {
  readonly context: BenchContext
  readonly measured: Measured
  readonly standIn: StandIn
  readonly keys: readonly string[]
}

const callsOf = (upstream: Upstream, keys: readonly string[]): Job => ({
  path: scrapePath(upstream),
  keys,
  bodies: [upstream.body],
  idHeader: 'X-Request-Id',
})

const pad = (value: string, width = 10): string => value.padStart(width)
const labelWidth = 34

/** Unexpected answers. One of them makes the row invalid. */
const othersText = (others: Readonly<Record<string, number>>): string =>
  Object.keys(others).length > 0 ? `  ${JSON.stringify(others)}` : ''

const pairedLine = (label: string, { perSecond, p50Ms, p99Ms, cpu, others }: PairedRow): string =>
  [
    `  ${label}`.padEnd(labelWidth),
    pad(figure(perSecond)),
    pad(figure(p50Ms, 1)),
    pad(figure(p99Ms, 1)),
    pad(figure(cpu.node)),
    pad(figure(cpu.postgres)),
    othersText(others),
  ].join('')

const measureRate = async ({ context, measured, keys }: Place): Promise<void> => {
  const { print, bar, sizes } = context
  const theirs: Job = { path: '/api/v1/orders', keys, bodies: [order] }
  const ours = callsOf(upstreams.instant, keys)
  for (const job of [theirs, ours])
    await load(measured.base, job, { connections: clients, warmUpMs: 0, measureMs: firstLoadsMs })
  const step = stepsOf(bar, 'scrapes and orders', 2 * sizes.rounds, 'loads')
  let done = 0
  const rows = await paired(
    measured,
    { ours, theirs },
    {
      connections: clients,
      rounds: sizes.rounds,
      warmUpMs,
      measureMs: (sizes.seconds * 1000) / sizes.rounds,
      onTurn: () => {
        step(done, done)
        done += 1
      },
    },
  )
  bar.end()
  print(
    `${clients} clients, ${keys.length} wallets, ${sizes.rounds} rounds of both; µs are processor time of one request\n` +
      ''.padEnd(labelWidth) +
      ['/s', 'p50 ms', 'p99 ms', 'server µs', 'PG µs'].map((head) => pad(head)).join(''),
  )
  print(pairedLine('orders', rows.theirs))
  print(pairedLine('billed scrapes, instant platform', rows.ours))
  const error = rows.error === null ? '' : ` ± ${figure(rows.error, 2)}`
  const cpu = ({ cpu: { node, postgres } }: PairedRow): number => node + postgres
  print(
    `  scrapes are ${figure(rows.ours.perSecond / rows.theirs.perSecond, 2)}${error} × orders (floor ${floor}); ` +
      `by processor time ${figure(cpu(rows.theirs) / cpu(rows.ours), 2)} ×`,
  )
}

/** The same calls again and again: none of them reaches the platform, or the row is not one of replays. */
const measureReplays = async ({ context, measured, standIn, keys }: Place): Promise<void> => {
  const { print, sizes } = context
  const job: Job = { ...callsOf(upstreams.instant, keys), ids: replayed, run: 'replayed' }
  const before = (await standIn.count()).requests
  const called = async (): Promise<number> => (await standIn.count()).requests - before
  for (let tries = 0; (await called()) < replayed && tries < 60; tries += 1)
    await load(measured.base, job, { connections: clients, warmUpMs: 0, measureMs: 1_000 })
  const times = { connections: clients, warmUpMs: 1_000, measureMs: sizes.seconds * 400 }
  const result = await load(measured.base, job, times)
  const calls = await called()
  if (calls !== replayed) throw new Error(`${replayed} ids were called ${calls} times`)
  print(
    `\nreplays of ${figure(replayed)} calls, ${clients} clients: ${figure(result.perSecond)}/s, ` +
      `p50 ${figure(result.p50Ms, 1)} ms, p99 ${figure(result.p99Ms, 1)} ms, none of them called the platform` +
      othersText(othersOf([result], '200')),
  )
}

const latencyLine = (label: string, ours: LoadResult, direct: LoadResult | null): string =>
  [
    `  ${label}`.padEnd(labelWidth),
    pad(figure(ours.perSecond)),
    pad(figure(ours.p50Ms, 1)),
    pad(figure(ours.p99Ms, 1)),
    pad(direct === null ? '–' : figure(ours.p50Ms - direct.p50Ms, 1)),
    pad(direct === null ? '–' : figure(ours.p99Ms - direct.p99Ms, 1)),
    othersText(othersOf([ours], '200')),
  ].join('')

/**
 * Calls at even distances of a platform that takes a tenth of a second: directly, through the service, and during slow calls.
 * @returns how many went straight to the platform
 */
const measureLatency = async ({ context, measured, standIn, keys }: Place): Promise<number> => {
  const { print, sizes } = context
  const steady = upstreams.steady
  const even = { perSecond: steadyPerSecond, open: true } as const
  const times = { connections: clients, warmUpMs: 1_000, measureMs: sizes.seconds * 400 }
  const path = `${scrapersPath}${steady.row.source.path}`
  const before = await standIn.count()
  const direct = await load(standIn.url, { path, keys, bodies: [], ...even }, times)
  const straight = (await standIn.count()).requests - before.requests
  const calls = { ...callsOf(steady, keys), ...even }
  const alone = await load(measured.base, calls, times)

  const { delayMs } = upstreams.slow
  const over = Promise.withResolvers<void>()
  // As many a second as keep so many in flight: they end evenly, and not all at once.
  const slow = load(
    measured.base,
    { ...callsOf(upstreams.slow, keys), perSecond: (slowCalls * 1000) / delayMs },
    { connections: slowCalls + 20, warmUpMs: 0, measureMs: 60_000 + sizes.seconds * 1000 },
    over.promise,
  )
  const isFull = async (): Promise<boolean> => (await standIn.count()).underWay >= slowCalls - 5
  await until(isFull, { everyMs: 50, what: `${slowCalls} calls in flight` })
  const duringSlowCalls = await load(measured.base, calls, times)
  const { underWay } = await standIn.count()
  over.resolve()
  const slowResult = await slow

  print(
    `\ncalls of a platform that takes ${steady.delayMs} ms, ${steadyPerSecond} a second at even distances\n` +
      ''.padEnd(labelWidth) +
      ['/s', 'p50 ms', 'p99 ms', 'added p50', 'added p99'].map((head) => pad(head)).join(''),
  )
  print(latencyLine('straight', direct, null))
  print(latencyLine('through the service', alone, direct))
  print(latencyLine(`the same during ${slowCalls} slow calls`, duringSlowCalls, direct))
  print(
    `  a platform that takes ${delayMs} ms had ${underWay} calls in flight at the end; ` +
      `${figure(slowResult.latenciesMs.length)} of them, p99 ${figure(slowResult.p99Ms)} ms` +
      othersText(othersOf([slowResult], '200')),
  )
  return straight
}

/** The calls to platforms equal the charged calls, one by one. */
const checkCharges = async (
  { context: { print }, measured, standIn }: Place,
  straight: number,
): Promise<void> => {
  const requests = (await standIn.count()).requests - straight
  const { rows } = await measured.pool.query<{ captures: number; holds: number }>(
    `select count(*) filter (where type = 'HoldCaptured')::integer as captures,
            count(*) filter (where type = 'FundsHeld')::integer as holds
       from log.events where type in ('HoldCaptured', 'FundsHeld')`,
  )
  const { captures, holds } = rows[0]!
  if (captures !== requests || holds !== captures)
    throw new Error(`${requests} calls of platforms, ${holds} holds and ${captures} captures`)
  print(`\n${figure(requests)} calls of platforms, as many holds and captures`)
}

const measure = async (context: BenchContext, database: string, directory: string): Promise<void> => {
  const standIn = await startStandIn()
  const pool = createPool({ url: database, applicationName: 'farebox-bench', max: 1, statementTimeoutMs: 0 })
  try {
    const settings = { ...serverSettings(database, directory), FAREBOX_SANDBOX_URL: standIn.url.origin }
    await stopServer((await startServer(settings)).child) // makes the demo
    const { keys } = await prepare(settings)
    const { bytes } = await standIn.count()
    context.print(`stand-in of the platforms in a process of its own, answers of ${bytes.instant} bytes`)
    const { child, url: base } = await startServer(settings)
    try {
      const place: Place = { context, measured: { base, pid: child.pid!, pool }, standIn, keys }
      await measureRate(place)
      await measureReplays(place)
      const straight = await measureLatency(place)
      await checkCharges(place, straight)
      await verify(context, database, settings.FAREBOX_SEAL_KEY)
      context.print(
        `load average at the end ${loadavg()
          .map((n) => n.toFixed(1))
          .join(' ')}`,
      )
    } finally {
      await stopServer(child)
    }
  } finally {
    await pool.end()
    standIn.stop()
  }
}

/** Scraper calls over HTTP, held, fetched, stored and charged, compared with orders on the same server in the same run. */
export const scrapes: Bench = {
  name: 'scrapes',
  what: 'billed scrapes a second compared with orders; repeats; added latency; with a slow platform; ends in a verification',
  run: async (context) => {
    const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
    try {
      await withDatabase(context.url, (database) => measure(context, database, directory))
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  },
}
