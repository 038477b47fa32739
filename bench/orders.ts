import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { createAccounts } from '../src/accounts/service.ts'
import { readConfig } from '../src/config.ts'
import { openCore } from '../src/core.ts'
import { createCustomers } from '../src/customers/service.ts'
import { openPostgresLog } from '../src/eventstore/postgres/log.ts'
import { createLogger } from '../src/http/logging.ts'
import { createWallets } from '../src/ledger/service.ts'
import { clientConfig, createPool } from '../src/postgres/pool.ts'
import { addAddresses } from '../src/stock/stocking.ts'
import { assertVerified } from '../test/support/verify.ts'
import { runLoad } from './orders/load.ts'
import { hasPgbench, initialisePgbench, runTpcB, type TpcB } from './orders/pgbench.ts'

export type OrderBenchOptions = {
  /** A Postgres where databases may be made. */
  readonly url: string
  readonly print: (line: string) => void
  /** Seconds of each load; default 10. */
  readonly seconds?: number
  /** Scale of TPC-B; default 150. */
  readonly scale?: number
  readonly clients?: readonly number[]
}

const root = join(import.meta.dirname, '..')
const wallets = 64
const addressesInStock = 60_000

const makeDatabase = async (url: string, name: string): Promise<string> => {
  const admin = new pg.Client({ connectionString: url })
  await admin.connect()
  await admin.query(`create database ${name}`)
  await admin.end()
  const made = new URL(url)
  made.pathname = `/${name}`
  return made.toString()
}

const cause = { actor: { kind: 'operator', name: 'bench' }, correlationId: 'bench' } as const

/** Whom a reseller's orders are for; each reseller has its own customer of this name. */
const customer = 'customer-1'

/**
 * Accounts with full wallets, their keys, and addresses enough for every order of the run; as many resellers, each with
 * a customer whose credit is as full.
 */
export const prepare = async (
  env: NodeJS.ProcessEnv,
): Promise<{ readonly keys: readonly string[]; readonly resellerKeys: readonly string[] }> => {
  const core = await openCore({
    config: readConfig(env),
    role: 'command',
    systemClock: Date.now,
    logger: createLogger('error'),
    hooks: { at: () => undefined },
  })
  try {
    const accounts = createAccounts(core)
    const ledger = createWallets(core)
    const customers = createCustomers({ pool: core.pool, master: core.keys.master })
    const account = async (email: string, reseller: boolean) => {
      const made = await accounts.create({ email, reseller }, cause)
      if (made.outcome !== 'done') throw new Error(`no account: ${JSON.stringify(made)}`)
      const { accountId } = made
      const issued = await accounts.issueKey({ accountId, scopes: ['buy'], dailyCapCents: null }, cause)
      if (issued.outcome !== 'done') throw new Error(`no key: ${JSON.stringify(issued)}`)
      await ledger.credit({ accountId, amountCents: 500_000_000, reference: 'bench' }, cause)
      return { accountId, key: issued.key }
    }
    const keys: string[] = []
    const resellerKeys: string[] = []
    for (let n = 0; n < wallets; n += 1) {
      keys.push((await account(`bench-${n}@example.com`, false)).key)
      const { accountId, key } = await account(`reseller-${n}@example.com`, true)
      resellerKeys.push(key)
      const customerId = await customers.ensure(accountId, customer)
      const payment = {
        reason: 'payment',
        gateway: null,
        reference: 'bench',
        amountCents: 500_000_000,
      } as const
      await ledger.adjustCustomer({ accountId, customerId, ...payment }, cause)
    }
    const addresses = Array.from({ length: addressesInStock }, (_, n) => ({
      ip: `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`,
      city: null,
      asn: null,
      asnOrg: null,
      carrierId: null,
      service: null,
    }))
    await addAddresses(core.runner, { productId: 'isp-static', country: 'USA', addresses }, cause)
    return { keys, resellerKeys }
  } finally {
    await core.close()
  }
}

export const startServer = async (env: NodeJS.ProcessEnv): Promise<{ child: ChildProcess; url: URL }> => {
  const child = spawn(
    process.execPath,
    [...(process.env.BENCH_NODE_FLAGS ?? '--max-semi-space-size=64').split(' '), join(root, 'src/main.ts')],
    {
      cwd: root,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  const url = await new Promise<URL>((resolve, reject) => {
    let out = ''
    child.stdout?.on('data', (chunk) => {
      out += chunk
      const address = /^Farebox listens on (\S+)$/m.exec(out)?.[1]
      if (address) resolve(new URL(address))
    })
    child.once('exit', (code) => reject(new Error(`the server ended with ${code}`)))
  })
  while (!(await fetch(new URL('/readyz', url))).ok) await new Promise((resolve) => setTimeout(resolve, 100))
  return { child, url }
}

const plan = JSON.stringify({ product_id: 'residential-premium', quantity: 1 })
const address = JSON.stringify({
  product_id: 'isp-static',
  quantity: 1,
  fulfillment_meta: { country: 'USA', period_days: 30 },
})

const lagOf = async (url: URL): Promise<number> => {
  const text = await (await fetch(new URL('/metrics', url))).text()
  return Math.max(
    0,
    ...[...text.matchAll(/^farebox_projection_lag_seconds\S* (\S+)$/gm)].map(([, value]) => Number(value)),
  )
}

/** Samples the projections' lag while a load runs. */
const sampleLag = (url: URL) => {
  const samples: number[] = []
  const timer = setInterval(() => {
    lagOf(url).then(
      (seconds) => samples.push(seconds),
      () => undefined,
    )
  }, 250)
  return (): { p99Ms: number; maxMs: number } => {
    clearInterval(timer)
    samples.sort((a, b) => a - b)
    const at = (share: number) =>
      (samples[Math.min(samples.length - 1, Math.floor(samples.length * share))] ?? 0) * 1000
    return { p99Ms: at(0.99), maxMs: at(1) }
  }
}

const figure = (value: number, digits = 0): string => value.toFixed(digits).padStart(9)

/**
 * Orders a second over HTTP, durable, with projections keeping up, beside TPC-B of pgbench on the same server in the
 * same run (design section 10).
 */
export const benchOrders = async (options: OrderBenchOptions): Promise<void> => {
  const { url, print, seconds = 10, scale = 150, clients = [32, 128] } = options
  const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
  const database = await makeDatabase(url, `orders_${randomBytes(4).toString('hex')}`)
  const env = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    PORT: '0',
    DATABASE_URL: database,
    FAREBOX_DATA: directory,
    FAREBOX_DEMO: 'on',
    FAREBOX_RATE_LIMIT: 'off',
    FAREBOX_MASTER_KEY: randomBytes(32).toString('base64'),
    FAREBOX_SEAL_KEY: randomBytes(32).toString('base64'),
    LOG_LEVEL: process.env.LOG_LEVEL ?? 'warn',
  }
  const tpcB = new Map<number, TpcB>()
  if (await hasPgbench()) {
    print(`TPC-B, prepared, scale ${scale}:`)
    const peer = await makeDatabase(url, `tpcb_${randomBytes(4).toString('hex')}`)
    await initialisePgbench(peer, scale)
    print('  clients    tx/s       p50 ms    p99 ms')
    for (const n of clients) {
      const result = await runTpcB(peer, n, seconds, directory)
      tpcB.set(n, result)
      print(
        `  ${String(n).padStart(7)}${figure(result.perSecond)}${figure(result.p50Ms, 1)}${figure(result.p99Ms, 1)}`,
      )
    }
  } else print('pgbench is not on the path: TPC-B is left out (Debian has it in postgresql-contrib)')

  const seeding = await startServer(env)
  seeding.child.kill('SIGTERM')
  await new Promise((resolve) => seeding.child.once('exit', resolve))
  const { keys, resellerKeys } = await prepare(env)
  const { child, url: base } = await startServer(env)
  try {
    print('\norders over HTTP:                      /s   × TPC-B   p50 ms   p99 ms  × TPC-B  lag p99 ms')
    const scenarios = [
      { name: 'plans, 64 wallets', keys, bodies: [plan] },
      { name: 'plans for customers, 64 wallets', keys: resellerKeys, bodies: [plan], customer },
      { name: 'plans, one hot wallet', keys: keys.slice(0, 1), bodies: [plan] },
      { name: 'plans and addresses, 64 wallets', keys, bodies: [plan, address] },
      { name: 'plans and addresses, one hot wallet', keys: keys.slice(1, 2), bodies: [plan, address] },
    ]
    for (const n of clients)
      for (const { name, ...what } of scenarios) {
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
        const peer = tpcB.get(n)
        const ratio = (ours: number, theirs: number | undefined) =>
          theirs === undefined ? '        –' : figure(ours / theirs, 2)
        const others = Object.entries(result.statuses).filter(([status]) => status !== '201')
        print(
          `  ${`${name}, ${n} clients`.padEnd(33)}${figure(result.perSecond)}${ratio(result.perSecond, peer?.perSecond)}${figure(result.p50Ms, 1)}${figure(result.p99Ms, 1)}${ratio(result.p99Ms, peer?.p99Ms)}${figure(p99Ms, 0)}${others.length > 0 ? `  ${JSON.stringify(others)}` : ''}`,
        )
      }
    print('\nreads, 50 clients:                     /s              p50 ms   p99 ms')
    for (const path of [
      '/api/v1/wallet',
      '/api/v1/orders?limit=10',
      '/api/v1/plans',
      '/api/v1/proxies?limit=10',
      '/api/v1/products',
    ]) {
      const result = await runLoad({
        host: base.hostname,
        port: Number(base.port),
        connections: 50,
        warmUpMs: 1_000,
        measureMs: 4_000,
        path,
        run: '',
        keys,
        bodies: [],
      })
      print(
        `  ${`GET ${path}`.padEnd(33)}${figure(result.perSecond)}         ${figure(result.p50Ms, 1)}${figure(result.p99Ms, 1)}`,
      )
    }
    const pool = createPool({ url: database, applicationName: 'farebox-bench' })
    const log = await openPostgresLog({
      pool,
      connection: clientConfig({ url: database, applicationName: 'farebox-bench' }),
    })
    const startedMs = performance.now()
    const seed = Buffer.from(env.FAREBOX_SEAL_KEY, 'base64')
    const { events, groups, seals } = await assertVerified(
      { pool, log, sealKey: seed },
      { timeoutMs: 120_000 },
    ).finally(async () => {
      await log.close()
      await pool.end()
    })
    const rows = groups.reduce((sum, group) => sum + group.rows, 0)
    print(
      `\nverified in ${((performance.now() - startedMs) / 1000).toFixed(1)} s, nothing is wrong: ${events} events in ${seals.seals} seals (${seals.unsealed} not sealed yet), ${rows} rows of read tables`,
    )
  } finally {
    child.kill('SIGTERM')
    await new Promise((resolve) => child.once('exit', resolve))
    await rm(directory, { recursive: true, force: true })
  }
}
