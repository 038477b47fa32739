import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { after, describe, test } from 'node:test'
import { orderPoints } from '../../src/kernel/crash-points.ts'
import { call, dataDirectory, type FareboxProcess, startFarebox } from '../support/farebox.ts'
import { operate } from '../support/operator.ts'
import { logInPostgres, serviceEnv } from '../support/service-env.ts'
import { until } from '../support/until.ts'

const soak = process.env.FAREBOX_SOAK === '1'
const randomKills = soak ? 200 : 2
const inFlight = soak ? 32 : 16
const dayMs = 86_400_000
const counts = { kills: 0, acknowledged: 0, unanswered: 0, refused: 0 }

const tell = (): void => void process.stdout.write(`# crash test: ${JSON.stringify(counts)}\n`)

after(tell)

/** Everything that survives a kill: settings, and the answers that clients received. */
type Bench = {
  readonly env: NodeJS.ProcessEnv
  readonly key: string
  readonly startCents: number
  /** The request of each key, and the acknowledged order, if there is one. */
  readonly requests: Map<string, { readonly body: unknown; orderId: string | null; refused: boolean }>
}

const bodies = [
  { product_id: 'residential-premium', quantity: 1 },
  { product_id: 'residential-premium', quantity: 1 },
  { product_id: 'residential-premium', quantity: 1 },
  { product_id: 'isp-static', quantity: 1, fulfillment_meta: { country: 'USA', period_days: 30 } },
]

const setUp = async (t: TestContext): Promise<Bench> => {
  const dataDir = await dataDirectory(t)
  const env = await serviceEnv(t, dataDir)
  const first = await startFarebox(t, env)
  const demo = JSON.parse(await readFile(join(dataDir, 'demo.json'), 'utf8'))
  const credit = [
    'wallet',
    'credit',
    '--kind=payment',
    '--account',
    demo.buyer.accountId,
    '--cents',
    '100000000',
    '--reference',
    'crash',
  ]
  const credited = await operate([...credit, '--json'], env)
  assert.equal(credited.code, 0, credited.err)
  const startCents = (await call(`${first.baseUrl}/api/v1/wallet`, demo.buyer.key)).body.balanceCents
  await first.stop()
  return { env, key: demo.buyer.key, startCents, requests: new Map() }
}

const order = async (bench: Bench, baseUrl: string, idempotencyKey: string): Promise<void> => {
  const request = bench.requests.get(idempotencyKey)
  assert.ok(request)
  const { status, body } = await call(`${baseUrl}/api/v1/orders`, bench.key, {
    body: request.body,
    headers: { 'Idempotency-Key': idempotencyKey },
  })
  if (status === 201 || status === 200) {
    if (request.orderId === null) counts.acknowledged += 1
    assert.equal(request.orderId ?? body.orderId, body.orderId, 'one key gave two orders')
    request.orderId = body.orderId
    return
  }
  assert.ok(status === 503 || body.code === 'out_of_stock', JSON.stringify(body))
  // A refusal is final for this test: an order that was out of stock was not charged, which the audit checks.
  request.refused = body.code === 'out_of_stock'
  counts.refused += 1
}

/** Keeps `inFlight` requests going until the process is gone. */
const load = async (bench: Bench, running: FareboxProcess): Promise<void> => {
  let over = false
  void running.ended.then(() => {
    over = true
  })
  const client = async (): Promise<void> => {
    for (let n = 0; !over && n < 2_000; n += 1) {
      const key = randomBytes(8).toString('hex')
      bench.requests.set(key, { body: bodies[n % bodies.length], orderId: null, refused: false })
      try {
        await order(bench, running.baseUrl, key)
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error
        counts.unanswered += 1
      }
    }
  }
  await Promise.all(Array.from({ length: inFlight }, client))
}

/** Repeats every request without an answer; each key must end with one order. */
const retryUnanswered = async (bench: Bench, baseUrl: string): Promise<void> => {
  const open = [...bench.requests].filter(([, { orderId, refused }]) => orderId === null && !refused)
  const retry = async (): Promise<void> => {
    for (let next = open.pop(); next; next = open.pop()) await order(bench, baseUrl, next[0])
  }
  await Promise.all(Array.from({ length: inFlight }, retry))
}

const allOrders = async (bench: Bench, baseUrl: string) => {
  const orders: { orderId: string; status: string; amountCents: number; refundedCents: number }[] = []
  for (;;) {
    const page = await call(`${baseUrl}/api/v1/orders?limit=100&offset=${orders.length}`, bench.key)
    assert.equal(page.status, 200, JSON.stringify(page.body))
    orders.push(...page.body.orders)
    if (orders.length >= page.body.total) return orders
  }
}

/** The account's orders, its wallet, and the expected balance. */
const booksOf = async (bench: Bench, baseUrl: string) => {
  const orders = await allOrders(bench, baseUrl)
  const paid = orders.reduce((sum, item) => sum + item.amountCents - item.refundedCents, 0)
  const { body: wallet } = await call(`${baseUrl}/api/v1/wallet`, bench.key)
  return { orders, walletCents: wallet.balanceCents, leftCents: bench.startCents - paid }
}

/** On EventStoreDB, whose items are not atomic: after the completion of half-written orders. */
const settledBooksOf = (bench: Bench, baseUrl: string): ReturnType<typeof booksOf> =>
  logInPostgres
    ? booksOf(bench, baseUrl)
    : until(
        async () => {
          const books = await booksOf(bench, baseUrl)
          return books.walletCents === books.leftCents ? books : null
        },
        { timeoutMs: 60_000, what: 'a wallet that matches the orders' },
      )

/** Without atomic items an order that loses a race for the last address is refunded, and answered as that order. */
const ends = logInPostgres ? ['completed'] : ['completed', 'refunded']

/** Every acknowledged order exists once and is paid once; nothing is charged without an order. */
const audit = async (bench: Bench, baseUrl: string): Promise<void> => {
  const { orders, walletCents, leftCents } = await settledBooksOf(bench, baseUrl)
  const byId = new Map(orders.map((item) => [item.orderId, item]))
  assert.equal(byId.size, orders.length, 'an order is listed twice')
  for (const [key, { orderId }] of bench.requests) {
    if (orderId === null) continue
    const status = byId.get(orderId)?.status
    assert.ok(status !== undefined && ends.includes(status), `the order of ${key} is ${status ?? 'gone'}`)
  }
  assert.ok(orders.length <= bench.requests.size, 'there are orders without a request')
  assert.equal(walletCents, leftCents, 'the wallet does not match the orders')
}

describe('a killed server', () => {
  test('keeps every acknowledged order and charges nothing without one, wherever it is killed', async (t) => {
    const bench = await setUp(t)
    let days = 0
    const start = (crashAt?: string, mayEnd = false): Promise<FareboxProcess> => {
      const env = { ...bench.env, FAREBOX_CLOCK_OFFSET_MS: String(days * dayMs) }
      return startFarebox(t, crashAt === undefined ? env : { ...env, FAREBOX_CRASH_AT: crashAt }, [], {
        mayEnd,
      })
    }
    const [snapshots, others] = [true, false].map((wanted) =>
      orderPoints.filter((point) => point.endsWith('-snapshot') === wanted),
    )
    const killed = async (running: FareboxProcess, point: string): Promise<void> => {
      const loading = load(bench, running)
      const timer = setTimeout(() => void running.stop(), 60_000)
      const [, { signal }] = await Promise.all([loading, running.ended])
      clearTimeout(timer)
      assert.equal(signal, 'SIGKILL', `nothing came by ${point}`)
      counts.kills += 1
    }
    const auditAndRetry = async ({ baseUrl }: FareboxProcess): Promise<void> => {
      await audit(bench, baseUrl)
      await retryUnanswered(bench, baseUrl)
      await audit(bench, baseUrl)
    }
    for (const point of others!) {
      // It audits what the one before it left, then dies of the load: the retries do not pass a point so often.
      const running = await start(`${point}:${4 * inFlight}`)
      await auditAndRetry(running)
      await killed(running, point)
    }
    for (const point of snapshots!) {
      // A wallet is due once it has more new events than it remembers orders: of those of last week it forgets two an event.
      days += 8
      // Busy wallets are read before the server is ready: it may take a snapshot, and die of it, before any request.
      await killed(await start(`${point}:1`, true), point)
      const again = await start()
      await auditAndRetry(again)
      await again.stop()
    }
  })

  test(`keeps them over ${randomKills} kills at random moments with ${inFlight} requests in flight`, async (t) => {
    const bench = await setUp(t)
    let running = await startFarebox(t, bench.env)
    for (let kill = 0; kill < randomKills; kill += 1) {
      const delayMs = Math.floor(Math.random() * 400)
      const loading = load(bench, running)
      await new Promise((resolve) => setTimeout(resolve, delayMs))
      await running.kill()
      await loading
      counts.kills += 1
      running = await startFarebox(t, bench.env)
      await audit(bench, running.baseUrl)
      if (kill % 20 === 19) tell()
    }
    await retryUnanswered(bench, running.baseUrl)
    await audit(bench, running.baseUrl)
    await running.stop()
  })
})
