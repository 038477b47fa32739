import { mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, constants, cpus, loadavg, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { createProgressBar } from '../src/platform/cli/progress-bar.ts'
import { startEmbeddedPostgres } from '../src/platform/postgres/embedded.ts'
import { appends } from './append.ts'
import type { Bench, Sizes } from './bench.ts'
import { callbacks } from './callbacks.ts'
import { caps } from './caps.ts'
import { commandLine } from './command-line.ts'
import { commands } from './commands.ts'
import { consolePages } from './console.ts'
import { durabilityOf } from './database.ts'
import { exportsAndImport } from './exports.ts'
import { finance } from './finance.ts'
import { freeTools } from './free-tools.ts'
import { freelist } from './freelist.ts'
import { gateway } from './gateway.ts'
import { idle } from './idle.ts'
import { invariantChecks } from './invariants.ts'
import { lag } from './lag.ts'
import { lines } from './lines.ts'
import { margins } from './margins.ts'
import { metering } from './metering.ts'
import { orders } from './orders.ts'
import { reads } from './reads.ts'
import { rebuilds } from './rebuild.ts'
import { restart } from './restart.ts'
import { scrapes } from './scrapes.ts'
import { signing } from './signing.ts'
import { verification } from './verify.ts'
import { fanOut, webhooks } from './webhooks.ts'

/** `npm run bench`: figures compared with a peer or a limit, on one Postgres with the settings that `npm start` uses. */
const all = [
  appends,
  orders,
  rebuilds,
  exportsAndImport,
  finance,
  verification,
  invariantChecks,
  signing,
  webhooks,
  fanOut,
  metering,
  callbacks,
  margins,
  lines,
  commands,
  commandLine,
  reads,
  lag,
  idle,
  restart,
  gateway,
  freelist,
  freeTools,
  scrapes,
  caps,
  consolePages,
] as const satisfies readonly Bench[]

const names = all.map(({ name }) => name)

const size = (flag: string, env: string, value: number, what: string): Option =>
  new Option(`--${flag} <n>`, what)
    .env(env)
    .default(value)
    .argParser((text) => {
      const n = Number(text)
      if (!Number.isSafeInteger(n) || n < 1) throw new InvalidArgumentError('A whole number from 1 on.')
      return n
    })

const knownParts = (given: readonly string[]): readonly Bench[] => {
  const wrong = given.filter((name) => !names.includes(name))
  if (wrong.length > 0) {
    process.stderr.write(`error: there is no benchmark ${wrong.join(', ')}; there are ${names.join(', ')}\n`)
    process.exit(2)
  }
  return given.length === 0 ? all : all.filter(({ name }) => given.includes(name))
}

class EndedBySignal extends Error {
  override readonly name = 'EndedBySignal'
  readonly exitCode: number
  constructor(signal: NodeJS.Signals) {
    super(`ended by ${signal}`)
    this.exitCode = 128 + constants.signals[signal]
  }
}

/** Rejects with the first termination signal: a run then leaves neither its Postgres nor its files. */
const endedBySignal = (): Promise<never> => {
  const { promise, reject } = Promise.withResolvers<never>()
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => reject(new EndedBySignal(signal)))
  promise.catch(() => undefined) // it may come between two benchmarks: the next one gets it
  return promise
}

const run = async (parts: readonly Bench[], sizes: Sizes): Promise<void> => {
  const print = (line: string): void => void process.stdout.write(`${line}\n`)
  const bar = createProgressBar(process.stderr)
  const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
  // All that a benchmark puts down lies in here, and is gone with it however the run ends.
  process.env.TMPDIR = directory
  const { ownerUrl: url, stop } = await startEmbeddedPostgres({
    dataDir: join(directory, 'postgres'),
    role: 'benchmark',
  })
  const signalled = endedBySignal()
  try {
    const machine = `${cpus()[0]?.model.trim()}, ${availableParallelism()} cores, ${Math.round(totalmem() / 2 ** 30)} GiB`
    const load = loadavg().map((n) => n.toFixed(1))
    print(`${machine}, Node ${process.version}, load average at the start ${load.join(' ')}`)
    const durability = await durabilityOf(url)
    for (const [at, { name, what, run: measure }] of parts.entries()) {
      const startedMs = performance.now()
      process.stderr.write(`[${at + 1}/${parts.length}] ${name}\n`)
      print(`\n## ${name}: ${what}\n${durability}`)
      await Promise.race([measure({ url, sizes, print, bar }), signalled])
      bar.end()
      process.stderr.write(
        `[${at + 1}/${parts.length}] ${name} took ${Math.round((performance.now() - startedMs) / 1000)} s\n`,
      )
    }
  } finally {
    await stop()
    // A server that is just ending may still write.
    await rm(directory, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** A reader of the first lines only, such as `head`, has what it wants. */
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  throw error
})

const program = new Command('npm run bench --')
  .description('Measures Farebox and a peer or a limit in the same run. Without a name, everything.')
  .argument('[benchmarks...]', names.join(', '))
  .addOption(
    size('seconds', 'BENCH_SECONDS', 10, 'seconds of each load on orders, in all its rounds, and of idling'),
  )
  .addOption(size('rounds', 'BENCH_ROUNDS', 4, 'rounds of the loads on orders, TPC-B before each'))
  .addOption(size('scale', 'BENCH_TPCB_SCALE', 150, 'scale of TPC-B; 150 takes about 2.2 GB'))
  .addOption(size('events', 'BENCH_EVENTS', 1_000_000, 'events of a long log; a short one has a tenth'))
  .addOption(size('deliveries', 'BENCH_DELIVERIES', 10_000, 'webhooks that are delivered'))
  .addOption(size('endpoints', 'BENCH_FAN_OUT', 100_000, 'endpoints that a notice goes to'))
  .addOption(size('callbacks', 'BENCH_CALLBACKS', 5_000, "payment providers' callbacks"))
  .addOption(size('deposits', 'BENCH_DEPOSITS', 300, 'deposits that are paid'))
  .addOption(size('plans', 'BENCH_PLANS', 10_000, 'plans that have traffic'))
  .addOption(size('commands', 'BENCH_COMMANDS', 100_000, 'commands of the command runner'))
  .addOption(size('orders', 'BENCH_ORDERS', 30_000, 'orders in the data that GETs read'))
  .addOption(size('wallet-orders', 'BENCH_WALLET_ORDERS', 100_000, 'orders of the wallet in restart'))
  .option('--parts', 'orders: print the processor time of the parts of an order instead of rates', false)
  .addHelpText(
    'after',
    `
Benchmarks:
${all.map(({ name, what }) => `  ${name.padEnd(10)} ${what}`).join('\n')}

Results go to standard output, progress to standard error.

Examples:
  npm run bench -- orders                          orders a second and TPC-B
  npm run bench -- orders --parts                  processor time of an order, by part
  npm run bench -- rebuild verify --events 100000  a shorter log`,
  )
  .showHelpAfterError('(--help shows what there is)')
  .exitOverride()
  .action((given: readonly string[], sizes: Sizes) => run(knownParts(given), sizes))

try {
  await program.parseAsync()
} catch (error) {
  // The measured program has lost its Postgres: its failure is not awaited.
  if (error instanceof EndedBySignal) process.exit(error.exitCode)
  if (!(error instanceof CommanderError)) throw error
  process.exitCode = error.exitCode === 0 ? 0 : 2
}
