import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { backUpLog, putLogBack } from '../backup/eventstore-files.ts'
import { scratch } from '../exports/books.ts'
import { demoEnv } from '../support/demo-env.ts'
import {
  eventStoreDirectory,
  skipWithoutEventStore,
  startEventStoreCluster,
} from '../support/eventstore-server.ts'
import { call, dataDirectory, type FareboxProcess, farebox, startFarebox } from '../support/farebox.ts'
import { emptyDatabase } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const buyers = 16
const traffic = { product_id: 'residential-premium', quantity: 1 }

/** How long a refusal may take: what is on its way is waited for two seconds, what waits in the queue five, a read ten. */
const refusalMs = 16_000

const succeeds = async (t: TestContext, env: NodeJS.ProcessEnv, ...args: string[]) => {
  const { code, out, err } = await farebox(t, [...args, '--json'], env)
  assert.equal(code, 0, `${args.join(' ')}: ${out}${err}`)
  return JSON.parse(out)
}

const place = (process: FareboxProcess, key: string, idempotencyKey: string) =>
  call(`${process.baseUrl}/api/v1/orders`, key, {
    body: traffic,
    headers: { 'Idempotency-Key': idempotencyKey },
  })

const balanceOf = async (process: FareboxProcess, key: string): Promise<number> =>
  (await call(`${process.baseUrl}/api/v1/wallet`, key)).body.balanceCents

/** Buyers of both processes, each of whom asks again under its key until its order is acknowledged. */
const startLoad = (processes: readonly FareboxProcess[], key: string) => {
  const acknowledged = new Map<string, { readonly orderId: string; readonly amountCents: number }>()
  const refused: number[] = []
  let on = true
  let lastMs = performance.now()
  let longestGapMs = 0

  const buy = async (process: FareboxProcess): Promise<void> => {
    const idempotencyKey = randomUUID()
    for (;;) {
      const askedMs = performance.now()
      const { status, headers, body } = await place(process, key, idempotencyKey)
      if (status === 201 || status === 200) {
        acknowledged.set(idempotencyKey, body)
        const nowMs = performance.now()
        longestGapMs = Math.max(longestGapMs, nowMs - lastMs)
        lastMs = nowMs
        return
      }
      assert.equal(status, 503, JSON.stringify(body))
      assert.match(headers.get('retry-after') ?? '', /^[1-9]\d*$/)
      refused.push(performance.now() - askedMs)
      await sleep(50)
    }
  }
  const buyer = async (n: number): Promise<void> => {
    while (on) await buy(processes[n % processes.length]!)
  }
  const over = Promise.all(Array.from({ length: buyers }, (_, n) => buyer(n)))
  return {
    acknowledged,
    refused,
    /** The longest time without an acknowledged order since the last call. */
    gapMs: () => {
      const gap = Math.round(longestGapMs)
      longestGapMs = 0
      return gap
    },
    more: (count: number) => {
      const wanted = acknowledged.size + count
      return until(() => acknowledged.size >= wanted, {
        timeoutMs: 120_000,
        what: `${count} more orders`,
      })
    },
    end: async () => {
      on = false
      await over
    },
  }
}

test('a cluster that loses its leader, and its quorum, costs two processes under load no order and no process', {
  skip: skipWithoutEventStore,
}, async (t) => {
  const cluster = await startEventStoreCluster(t)
  const { url } = await emptyDatabase(t)
  const dataDir = await dataDirectory(t)
  const env = { ...demoEnv(url, dataDir), FAREBOX_RATE_LIMIT: 'off', EVENTSTORE_URL: cluster.url }
  const first = await startFarebox(t, env)
  const { buyer } = JSON.parse(await readFile(join(dataDir, 'demo.json'), 'utf8'))
  const money = ['--account', buyer.accountId, '--cents', '90000000', '--reference', 'load']
  await succeeds(t, env, 'wallet', 'credit', ...money)
  const processes = [first, await startFarebox(t, env)]
  const startCents = await balanceOf(first, buyer.key)
  const load = startLoad(processes, buyer.key)
  const told: string[] = []
  const tell = (what: string): void => {
    told.push(`${what}: ${load.gapMs()} ms without an order`)
  }
  await load.more(30)
  tell('calm')

  const killed = await cluster.leader()
  await killed.kill()
  // A process that starts now meets the election.
  const third = await startFarebox(t, env)
  await load.more(30)
  tell('leader killed')
  assert.equal((await third.stop()).code, 0)
  killed.start()
  await until(async () => (await cluster.members()) === 3, { timeoutMs: 120_000, what: 'three nodes' })

  const frozen = await cluster.leader()
  frozen.freeze()
  await load.more(30)
  tell('leader frozen')
  frozen.thaw()
  await until(async () => (await cluster.members()) === 3, { timeoutMs: 120_000, what: 'three nodes' })

  // The leader is left alone: it gives up what is on its way bit by bit, while no other one is found.
  const alone = await cluster.leader()
  const others = cluster.nodes.filter((node) => node !== alone)
  const refusedBefore = load.refused.length
  await Promise.all(others.map((node) => node.kill()))
  await until(() => load.refused.length >= refusedBefore + 4 * buyers, {
    timeoutMs: 60_000,
    what: 'refusals without a quorum',
  })
  for (const node of others) node.start()
  await load.more(30)
  tell('quorum lost for a while')
  await until(async () => (await cluster.members()) === 3, { timeoutMs: 120_000, what: 'three nodes' })
  await load.end()
  const worst = Math.round(Math.max(...load.refused))
  t.diagnostic(
    `${load.acknowledged.size} orders acknowledged; ${load.refused.length} refusals within ${worst} ms`,
  )
  for (const line of told) t.diagnostic(line)
  assert.ok(worst < refusalMs, `a refusal took ${worst} ms`)

  const paid = [...load.acknowledged.values()].reduce((sum, { amountCents }) => sum + amountCents, 0)
  await until(async () => startCents - (await balanceOf(first, buyer.key)) === paid, {
    what: 'a wallet that lacks what the acknowledged orders cost, each once',
  })
  const { body: listed } = await call(`${first.baseUrl}/api/v1/orders?limit=1`, buyer.key)
  assert.equal(listed.total, load.acknowledged.size)
  for (const [idempotencyKey, { orderId }] of [...load.acknowledged].slice(0, 40)) {
    const { status, body } = await place(processes[1]!, buyer.key, idempotencyKey)
    assert.deepEqual([status, body.orderId], [200, orderId])
  }
  await succeeds(t, env, 'ledger', 'seal')

  // The log's copy is taken from one node, first; then Postgres.
  const copy = await scratch(t)
  await backUpLog((await cluster.leader()).dataDir, copy)
  const file = join(await scratch(t), 'farebox.backup')
  await succeeds(t, env, 'backup', 'create', '--out', file)
  for (const process of processes) assert.equal((await process.stop()).code, 0)
  await Promise.all(cluster.nodes.map((node) => node.kill()))

  const directories = await Promise.all(
    cluster.nodes.map(async () => {
      const directory = await eventStoreDirectory(t)
      await mkdir(join(directory, 'db'))
      await putLogBack(join(directory, 'db'), copy)
      return directory
    }),
  )
  const again = await startEventStoreCluster(t, directories)
  const restored = { ...env, DATABASE_URL: (await emptyDatabase(t)).url, EVENTSTORE_URL: again.url }
  await succeeds(t, restored, 'backup', 'restore', file)
  await succeeds(t, restored, 'projections', 'rebuild', 'all')
  await succeeds(t, restored, 'ledger', 'seal', '--remake-digests')
  const verified = await farebox(t, ['ledger', 'verify'], restored)
  assert.equal(verified.code, 0, verified.out + verified.err)
  const next = await startFarebox(t, restored)
  const [[idempotencyKey, { orderId }] = ['', { orderId: '' }]] = [...load.acknowledged].slice(-1)
  const repeated = await place(next, buyer.key, idempotencyKey)
  assert.deepEqual([repeated.status, repeated.body.orderId], [200, orderId])
  const order = await place(next, buyer.key, randomUUID())
  assert.equal(order.status, 201, JSON.stringify(order.body))
  assert.equal((await next.stop()).code, 0)
})
