import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import type pg from 'pg'
import { readConfig } from '../../src/app/config.ts'
import { type DemoFile, readDemoFile } from '../../src/app/demo/demo-file.ts'
import { type Farebox, openFarebox, roles } from '../../src/app/start.ts'
import type { EventLog } from '../../src/platform/eventstore/port.ts'
import { openPostgresLog } from '../../src/platform/eventstore/postgres/log.ts'
import { createLogger } from '../../src/platform/http/logging.ts'
import { clientConfig, createPool } from '../../src/platform/postgres/pool.ts'
import { atEnd } from '../support/cleanup.ts'
import { call, dataDirectory, startFarebox } from '../support/farebox.ts'
import { commandLineOf, operate } from '../support/operator.ts'
import { seededDatabase } from '../support/seeded.ts'
import { until } from '../support/until.ts'

type Shop = { readonly baseUrl: string; readonly farebox?: Farebox }

/** Two services on one database. */
export type TwoShops<Each extends Shop = Shop> = {
  readonly shops: readonly [Each, Each]
  readonly demo: DemoFile
  readonly pool: pg.Pool
  readonly env: NodeJS.ProcessEnv
  /** Runs the command line with its own core and returns its output. */
  operator(...args: readonly string[]): Promise<{ code: number | null; json: Record<string, unknown> }>
  /** A fresh account with a buying key and this much money. */
  customer(cents: number, dailyCapCents?: number): Promise<{ accountId: string; key: string }>
}

const twoOf = async <Each extends Shop>(
  t: TestContext,
  settings: Readonly<Record<string, string>>,
  start: (env: NodeJS.ProcessEnv) => Promise<Each>,
): Promise<TwoShops<Each>> => {
  const env = { ...(await seededDatabase(t, await dataDirectory(t))), ...settings }
  const pool = createPool({ url: env.DATABASE_URL, applicationName: 'farebox-test' })
  atEnd(t, () => pool.end())
  const first = await start(env)
  const demo = await readDemoFile(env.FAREBOX_DATA)
  assert.ok(demo?.sandbox)
  const second = await start({ ...env, FAREBOX_SANDBOX_URL: demo.sandbox })

  const operator: TwoShops['operator'] = async (...args) => {
    const { code, out, err } = await operate([...args, '--json'], env)
    assert.notEqual(out, '', err)
    return { code, json: JSON.parse(out) }
  }
  const { farebox }: Shop = first
  const run = farebox ? commandLineOf(farebox) : operator
  const done = async (...args: readonly string[]) => {
    const { code, json } = await run(...args)
    assert.equal(code, 0, JSON.stringify(json))
    return json
  }
  const customer: TwoShops['customer'] = async (cents, dailyCapCents) => {
    const email = `${randomBytes(6).toString('hex')}@example.com`
    const accountId = (await done('accounts', 'create', '--email', email)).accountId as string
    const cap = dailyCapCents === undefined ? [] : ['--daily-cap-cents', String(dailyCapCents)]
    const { key } = await done('keys', 'create', '--account', accountId, '--scopes', 'buy', ...cap)
    await done(
      ...['wallet', 'credit', '--kind=payment', '--account', accountId],
      ...['--cents', String(cents), '--reference', 'start'],
    )
    return { accountId, key: key as string }
  }
  return { shops: [first, second], demo, pool, env, operator, customer }
}

/** Two servers in processes of their own; the second one uses the sandbox of the first. */
export const startTwo = (t: TestContext, settings: Readonly<Record<string, string>> = {}) =>
  twoOf(t, settings, (env) => startFarebox(t, env))

/** The same inside this process: each has its own core, caches and connections. */
export const openTwo = (t: TestContext, settings: Readonly<Record<string, string>> = {}) =>
  twoOf(t, settings, async (env) => {
    const farebox = await openFarebox({
      config: readConfig({ ...env, PORT: '0' }),
      roles,
      systemClock: Date.now,
      monotonicMs: () => performance.now(),
      logger: createLogger('fatal'),
      kill: () => process.kill(process.pid, 'SIGKILL'),
    })
    atEnd(t, farebox.close)
    const baseUrl = farebox.baseUrl ?? ''
    await until(async () => (await fetch(`${baseUrl}/readyz`)).ok, { timeoutMs: 60_000, what: 'readiness' })
    return { baseUrl, farebox }
  })

/** `count` answers to a request, sent to both servers in turn, all at once. */
export const askBoth = (
  { shops }: TwoShops,
  count: number,
  key: string,
  path: string,
  requestOf: (n: number) => { readonly body: unknown; readonly idempotencyKey: string },
) =>
  Promise.all(
    Array.from({ length: count }, (_, n) => {
      const { body, idempotencyKey } = requestOf(n)
      const headers = { 'Idempotency-Key': idempotencyKey }
      return call(`${shops[n % 2]!.baseUrl}${path}`, key, { body, headers })
    }),
  )

/** How many answers there are of each kind, e.g. `{ '201': 1, '409 out_of_stock': 63 }`. */
export const counted = (
  answers: readonly { readonly status: number; readonly body: { code?: string } }[],
) => {
  const counts: Record<string, number> = {}
  for (const { status, body } of answers) {
    const kind = body.code === undefined ? `${status}` : `${status} ${body.code}`
    counts[kind] = (counts[kind] ?? 0) + 1
  }
  return counts
}

/** Both servers' view of a wallet: they must agree, and its transactions must add up to it. */
export const balanceOf = async (
  { shops }: { readonly shops: readonly Shop[] },
  key: string,
): Promise<number> => {
  const balances = await Promise.all(
    shops.map(
      async ({ baseUrl }) => (await call(`${baseUrl}/api/v1/wallet`, key)).body.balanceCents as number,
    ),
  )
  assert.equal(new Set(balances).size, 1, 'all processes show one balance')
  let sum = 0
  for (let seen = 0; ; ) {
    const { body } = await call(
      `${shops[0]!.baseUrl}/api/v1/wallet/transactions?limit=100&offset=${seen}`,
      key,
    )
    for (const { amountCents } of body.transactions) sum += amountCents
    seen += body.transactions.length
    if (seen >= body.total) break
  }
  assert.equal(sum, balances[0], 'the transactions add up to the balance')
  return sum
}

export const allOrders = async (baseUrl: string, key: string) => {
  const orders: { orderId: string; status: string; amountCents: number; refundedCents: number }[] = []
  for (;;) {
    const { status, body } = await call(`${baseUrl}/api/v1/orders?limit=100&offset=${orders.length}`, key)
    assert.equal(status, 200, JSON.stringify(body))
    orders.push(...body.orders)
    if (orders.length >= body.total) return orders
  }
}

/** The log that both write, for reading it meanwhile. */
export const logOf = async (t: TestContext, { pool, env }: TwoShops): Promise<EventLog> => {
  const log = openPostgresLog({
    pool,
    connection: clientConfig({ url: env.DATABASE_URL!, applicationName: 'farebox-test' }),
    onTrouble: (what, error) => assert.fail(`${what}: ${error}`),
  })
  t.after(() => log.close())
  return log
}
