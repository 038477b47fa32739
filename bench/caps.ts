import type { ChildProcess } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { stepsOf } from '../src/platform/cli/progress-bar.ts'
import { withBenchService } from './accounts.ts'
import { type Bench, type BenchContext, figure } from './bench.ts'
import { withClient, withDatabase } from './database.ts'
import { killServer, serverSettings, startServer, stopServer } from './orders/server.ts'
import { verify } from './orders/verified.ts'
import { startStandIn } from './scrapes/stand-in.ts'
import { scrapePath, upstreams } from './scrapes/upstreams.ts'

const requests = 10_000
const keyCount = 40
const servers = 3
const clients = 48
/** Three orders of $5.50, and some of the calls. */
const cap = { cents: 1_670, covers: 'everything' } as const
/** One server after the other is killed and started again. */
const killEveryMs = 5_000

const order = JSON.stringify({ product_id: 'residential-premium', quantity: 1 })
const scrape = upstreams.instant

type Answers = Record<string, number>

/** Sends orders and calls in turn, with every key at once, until all are answered. A request without an answer is sent again. */
const sendAll = async (
  { bar }: BenchContext,
  bases: readonly URL[],
  keys: readonly string[],
): Promise<Answers> => {
  const step = stepsOf(bar, 'orders and calls', requests, 'requests')
  const answers: Answers = {}
  let next = 0
  const send = async (n: number): Promise<string | null> => {
    const base = bases[n % bases.length]!
    const isCall = n % 2 === 0
    const headers = {
      'X-API-Key': keys[Math.floor(n / 2) % keys.length]!,
      'Content-Type': 'application/json',
      [isCall ? 'X-Request-Id' : 'Idempotency-Key']: `caps-${n}`,
    }
    try {
      const answer = await fetch(new URL(isCall ? scrapePath(scrape) : '/api/v1/orders', base), {
        method: 'POST',
        headers,
        body: isCall ? scrape.body : order,
        signal: AbortSignal.timeout(60_000),
      })
      const { code = 'paid' } = (await answer.json()) as { code?: string }
      return answer.status >= 500 ? null : `${isCall ? 'calls' : 'orders'} ${code}`
    } catch {
      // The server was killed.
      return null
    }
  }
  const client = async (): Promise<void> => {
    while (next < requests) {
      const n = next
      next += 1
      step(n, n)
      let result = await send(n)
      while (result === null) {
        await sleep(100)
        result = await send(n)
      }
      answers[result] = (answers[result] ?? 0) + 1
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
  bar.end()
  return answers
}

/** What each key spent, by the log, micro-dollars: its orders and billed calls, and what is held. */
const spentOf = (database: string): Promise<readonly number[]> =>
  withClient(database, async (client) => {
    const { rows } = await client.query<{ micros: string }>(
      `select sum((data::jsonb->>'amountMicros')::bigint * case type when 'HoldReleased' then -1 else 1 end) as micros
         from log.events where type in ('WalletDebited', 'FundsHeld', 'HoldReleased')
        group by stream`,
    )
    return rows.map(({ micros }) => Number(micros))
  })

const measure = async (context: BenchContext, database: string, directory: string): Promise<void> => {
  const standIn = await startStandIn()
  const settings = { ...serverSettings(database, directory), FAREBOX_SANDBOX_URL: standIn.url.origin }
  const running: ChildProcess[] = []
  let over = false
  try {
    await stopServer((await startServer(settings)).child) // makes the demo
    const keys = await withBenchService(settings, async ({ account }) => {
      const made: string[] = []
      for (let n = 0; n < keyCount; n += 1)
        made.push((await account(`capped-${n}@example.com`, false, cap)).key)
      return made
    })
    const bases: URL[] = []
    const start = async (at: number): Promise<void> => {
      const { child, url } = await startServer(settings)
      running[at] = child
      bases[at] = url
    }
    for (let at = 0; at < servers; at += 1) await start(at)
    let kills = 0
    const killer = async (): Promise<void> => {
      for (let at = 0; ; at = (at + 1) % servers) {
        await sleep(killEveryMs)
        if (over) return
        await killServer(running[at]!)
        kills += 1
        await start(at)
      }
    }
    const startedMs = performance.now()
    const killing = killer()
    const answers = await sendAll(context, bases, keys)
    over = true
    await killing
    const spent = await spentOf(database)
    const most = Math.max(...spent)
    const capMicros = cap.cents * 10_000
    context.print(
      `${figure(requests)} orders and scraper calls of ${keyCount} keys over ${servers} servers in ${figure((performance.now() - startedMs) / 1_000)} s, ${kills} kills: ${JSON.stringify(answers)}`,
    )
    context.print(
      `  the keys spent $${figure(Math.min(...spent) / 1e6, 4)} to $${figure(most / 1e6, 4)} of a cap of $${figure(capMicros / 1e6, 2)}`,
    )
    if (most > capMicros || spent.length !== keyCount) throw new Error('a key spent more than its cap')
    await verify(context, database, settings.FAREBOX_SEAL_KEY)
  } finally {
    over = true
    await Promise.all(running.map(stopServer))
    standIn.stop()
  }
}

/** Keys whose caps cover everything, spent by parallel orders and calls while servers are killed. */
export const caps: Bench = {
  name: 'caps',
  what: '10,000 parallel orders and scraper calls of capped keys over three servers with kills; no key spends more than its cap; ends in a verification',
  run: async (context) => {
    const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
    try {
      await withDatabase(context.url, (database) => measure(context, database, directory))
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  },
}
