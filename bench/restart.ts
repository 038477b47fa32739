import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stepsOf } from '../src/platform/cli/progress-bar.ts'
import { withBenchService } from './accounts.ts'
import { type Bench, type BenchContext, figure } from './bench.ts'
import { withClient, withDatabase } from './database.ts'
import { runLoad } from './orders/load.ts'
import { killServer, serverSettings, startServer, stopServer } from './orders/server.ts'

/** What a first order after a restart may take, milliseconds. */
const limitMs = 1_000
const connections = 64
const chunkMs = 5_000
const order = JSON.stringify({ product_id: 'residential-premium', quantity: 1 })

/** Where the log lives, when not in the Postgres of the run: a server that holds no log yet. */
const eventStore = process.env.BENCH_EVENTSTORE_URL

/** Orders from one wallet, as many at once as are answered, until there are so many. */
const fill = async ({ bar, sizes }: BenchContext, base: URL, key: string): Promise<number> => {
  const step = stepsOf(bar, 'orders of one wallet', sizes.walletOrders, 'orders')
  let placed = 0
  for (let run = 0; placed < sizes.walletOrders; run += 1) {
    step(placed, placed)
    const { statuses } = await runLoad({
      host: base.hostname,
      port: Number(base.port),
      connections,
      warmUpMs: 0,
      measureMs: chunkMs,
      path: '/api/v1/orders',
      keys: [key],
      bodies: [order],
      run: `restart-${run}`,
    })
    const { 201: made = 0, ...others } = statuses
    if (made === 0) throw new Error(`no order was placed: ${JSON.stringify(others)}`)
    placed += made
  }
  bar.end()
  return placed
}

const place = async (base: URL, key: string, idempotencyKey: string, expected: number): Promise<number> => {
  const startedMs = performance.now()
  const answer = await fetch(new URL('/api/v1/orders', base), {
    method: 'POST',
    headers: { 'X-API-Key': key, 'Content-Type': 'application/json', 'Idempotency-Key': idempotencyKey },
    body: order,
  })
  const text = await answer.text()
  const tookMs = performance.now() - startedMs
  if (answer.status !== expected) throw new Error(`an order was answered ${answer.status}: ${text}`)
  return tookMs
}

/** How far the wallet's newest snapshot is behind its last event. */
const tailOf = (database: string): Promise<string> =>
  withClient(database, async (client) => {
    const { rows } = await client.query<{ revision: number; bytes: number }>(
      `select revision, length(state) as bytes from engine.snapshots where fold = 'ledger' order by revision desc limit 1`,
    )
    const [row] = rows
    if (row === undefined) return 'no snapshot'
    return `snapshot of ${figure(Number(row.bytes) / 1e6, 1)} MB as of event ${figure(Number(row.revision))}`
  })

/** How long a wallet of many orders keeps the first buyer waiting after a stop and after a kill. */
export const restart: Bench = {
  name: 'restart',
  what: 'the first order of a wallet with many orders after a stop and after a kill; limit one second; BENCH_EVENTSTORE_URL names an EventStoreDB without a log',
  run: async (context) => {
    const { url, print } = context
    const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
    try {
      await withDatabase(url, async (database) => {
        const settings = {
          ...serverSettings(database, directory),
          ...(eventStore !== undefined && { EVENTSTORE_URL: eventStore }),
        }
        await stopServer((await startServer(settings)).child)
        const { key } = await withBenchService(settings, ({ account }) => account('busy@example.com', false))
        let { child, url: base } = await startServer(settings)
        try {
          let placed = await fill(context, base, key)
          for (const [how, end] of [
            ['kill -9', killServer],
            ['stop', stopServer],
          ] as const) {
            const endedMs = performance.now()
            await end(child)
            const startedMs = performance.now()
            const snapshot = await tailOf(database)
            ;({ child, url: base } = await startServer(settings))
            const readyMs = performance.now() - startedMs
            const firstMs = await place(base, key, `first-after-${how}`, 201)
            const replayMs = await place(base, key, 'restart-0-0', 200)
            placed += 1
            print(
              `log in ${eventStore === undefined ? 'Postgres' : 'EventStoreDB'}, ${figure(placed)} orders, ${how}: ended in ${figure((startedMs - endedMs) / 1000, 1)} s, ${snapshot}, ready after ${figure(readyMs / 1000, 1)} s, first order ${figure(firstMs)} ms, ${figure(firstMs / limitMs, 2)} of what it may take; a repeated older order ${figure(replayMs)} ms`,
            )
          }
        } finally {
          await stopServer(child)
        }
      })
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  },
}
