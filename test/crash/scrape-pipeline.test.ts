import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { scraperOf } from '../../src/domain/scrapers/scraper-table.ts'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { scrapingAccount } from '../features/scrapers/account.ts'
import { openStandIn } from '../features/scrapers/provider-world.ts'
import { openLog } from '../platform/eventstore/open-postgres.ts'
import { atEnd } from '../support/cleanup.ts'
import { dataDirectory, startFarebox } from '../support/farebox.ts'
import { seededDatabase } from '../support/seeded.ts'
import { skipWithoutPostgresLog } from '../support/service-env.ts'
import { until } from '../support/until.ts'
import { assertVerified } from '../support/verify.ts'

const priceMicros = scraperOf('tiktok', 'profile')!.priceMicros
const startCents = 1_000
const singles = 300
const batchSize = 16
const batches = 8
const atOnce = 16

/** What a target comes to. The words control the stand-in. */
const kinds = ['', '', 'missing-', 'agegate-', 'flaky-1-', 'html-', 'slow-300-'] as const
const targetOf = (n: number): string => `${kinds[n % kinds.length]}target${n}`

// biome-ignore lint/suspicious/noExplicitAny: the test names the fields that it reads
type Body = any
type Answer = { readonly status: number; readonly headers: Headers; readonly body: Body }

/** A request of the pipeline, and what it came to; null: not known yet. */
type Call = { readonly id: string; readonly handle: string; readonly query: string; answer: Answer | null }
type Batch = { readonly id: string; readonly handles: readonly string[]; body: Body }

/**
 * Every third single call repeats an earlier target and accepts its answer, but not for a missing target: if the first
 * answer is lost, its repeat does not say whether it was cached.
 */
const callsOf = (): Call[] =>
  Array.from({ length: singles }, (_, n) => {
    const isAgain = n % 3 === 2 && !targetOf(n - 2).startsWith('missing-')
    return {
      id: `single-${n}`,
      handle: targetOf(isAgain ? n - 2 : n),
      query: isAgain ? '?cacheMaxAge=1d' : '',
      answer: null,
    }
  })

/** Half of the inputs of a batch are equal to the other half. */
const batchesOf = (): Batch[] =>
  Array.from({ length: batches }, (_, b) => ({
    id: `batch-${b}`,
    handles: Array.from({ length: batchSize }, (_, n) => {
      const target = targetOf(10_000 + b * batchSize + (n >> 1))
      return n % 2 === 0 ? target : `@${target}`
    }),
    body: null,
  }))

const isResult = ({ status, body }: Answer): boolean =>
  status === 200 || body.code === 'target_not_found' || body.code === 'target_restricted'

test('a pipeline of calls and batches agrees with the log and the API to the micro-dollar, across a kill', {
  skip: skipWithoutPostgresLog,
}, async (t) => {
  const standIn = await openStandIn(t)
  const env = {
    ...(await seededDatabase(t, await dataDirectory(t))),
    FAREBOX_SANDBOX_URL: standIn.baseUrl.replace('/scrapecreators', ''),
  }
  const pool = createPool({ url: env.DATABASE_URL!, applicationName: 'farebox-test' })
  atEnd(t, () => pool.end())
  const { key, accountId } = await scrapingAccount(env, startCents)
  let server = await startFarebox(t, env)

  const send = async (path: string, headers: Readonly<Record<string, string>> = {}, json?: object) => {
    const response = await fetch(`${server.baseUrl}${path}`, {
      headers: { 'X-API-Key': key, 'Content-Type': 'application/json', ...headers },
      ...(json && { method: 'POST', body: JSON.stringify(json) }),
    })
    return { status: response.status, headers: response.headers, body: await response.json() } as Answer
  }
  const call = ({ id, handle, query }: Call) =>
    send(`/v1/scrape/tiktok/profile${query}`, { 'X-Request-Id': id }, { handle })
  const post = ({ id, handles }: Batch) =>
    send(
      '/v1/scrape/batch',
      { 'Idempotency-Key': id },
      { platform: 'tiktok', operation: 'profile', inputs: handles.map((handle) => ({ handle })) },
    )

  const calls = callsOf()
  const sent = batchesOf()
  let isKilled = false
  /** Works through a list, several at once. A broken connection leaves its entry for the next run. */
  const workThrough = async <Entry>(entries: readonly Entry[], work: (entry: Entry) => Promise<void>) => {
    const left = [...entries]
    const worker = async (): Promise<void> => {
      for (let next = left.shift(); next !== undefined && !isKilled; next = left.shift())
        await work(next).catch((error: unknown) => {
          if (!(error instanceof TypeError)) throw error
        })
    }
    await Promise.all(Array.from({ length: atOnce }, worker))
  }
  /** Calls as its answers say: a failure is repeated after its Retry-After, twice at most. */
  const callUntilOver = async (entry: Call): Promise<void> => {
    for (let tries = 0; tries < 3; tries += 1) {
      const answer = await call(entry)
      if (!isResult(answer) && tries < 2 && answer.headers.has('retry-after')) {
        await sleep(20)
        continue
      }
      entry.answer = answer
      return
    }
  }
  const runAll = async (): Promise<void> => {
    await workThrough(
      sent.filter(({ body }) => body === null),
      async (batch) => {
        const { status, body } = await post(batch)
        assert.ok(status === 202 || status === 200, JSON.stringify(body))
        batch.body = body
      },
    )
    await workThrough(
      calls.filter(({ answer }) => answer === null),
      callUntilOver,
    )
  }

  const first = runAll()
  await until(() => calls.filter(({ answer }) => answer !== null).length >= singles / 3, {
    timeoutMs: 60_000,
    what: 'a third of the calls',
  })
  isKilled = true
  await server.kill()
  await first
  isKilled = false
  const unanswered = calls.filter(({ answer }) => answer === null).length
  assert.ok(unanswered > 0)
  const openCalls = async () => (await pool.query('select from read.open_scrapes')).rowCount
  const interrupted = await openCalls()
  const killedMs = performance.now()
  server = await startFarebox(t, env)
  await until(async () => (await openCalls()) === 0 || null, {
    timeoutMs: 30_000,
    what: 'the end of the killed calls',
  })
  t.diagnostic(
    `${interrupted} calls were under way at the kill, and over ${((performance.now() - killedMs) / 1000).toFixed(1)} s later, with the start`,
  )
  await runAll()
  assert.ok(calls.every(({ answer }) => answer !== null))
  for (const batch of sent)
    batch.body = await until(
      async () => {
        const { body } = await send(`/v1/scrape/batch/${batch.body.batchId}`)
        return body.status === 'finished' ? body : null
      },
      { timeoutMs: 120_000, what: 'the end of a batch' },
    )

  // The pipeline's own records: what each reference cost.
  const own = new Map<string, number>()
  for (const { id, answer } of calls) {
    const isBilled =
      answer!.status === 200 ? answer!.body.billing.billed : answer!.body.code === 'target_not_found'
    if (isBilled) own.set(id, priceMicros)
  }
  for (const { body } of sent)
    for (const { requestId, billed } of body.items) if (billed) own.set(requestId, priceMicros)

  // The log: what was captured. Every call has its record.
  await until(async () => (await openCalls()) === 0, { timeoutMs: 30_000, what: 'the end of every call' })
  const { rows: captures } = await pool.query<{ id: string; micros: number }>(
    `select data::jsonb ->> 'requestId' as id, (data::jsonb ->> 'amountMicros')::integer as micros
       from log.events where type = 'HoldCaptured' and stream = $1`,
    [`ledger-${accountId}`],
  )
  const logged = new Map(captures.map(({ id, micros }) => [id, micros]))
  assert.equal(logged.size, captures.length, 'nothing is charged twice')
  const { rows: started } = await pool.query<{ id: string }>(
    `select distinct data::jsonb ->> 'requestId' as id from log.events where type = 'ScrapeStarted'`,
  )
  const recorded = new Set(started.map(({ id }) => id))
  const wanted = [
    ...calls.map(({ id }) => id),
    ...sent.flatMap(({ body }) => body.items.map((item: { requestId: string }) => item.requestId)),
  ]
  assert.deepEqual(
    wanted.filter((id) => !recorded.has(id)),
    [],
  )

  // The API: holds less releases, by reference.
  const charged = new Map<string, number>()
  let balanceMicros: number | null = null
  for (let offset = 0, total = 1; offset < total; offset += 100) {
    const { body } = await send(`/api/v1/wallet/transactions?limit=100&offset=${offset}`)
    total = body.total
    balanceMicros ??= body.transactions[0].balanceAfterMicros
    for (const { type, reference, amountMicros } of body.transactions)
      if (type !== 'credit') charged.set(reference, (charged.get(reference) ?? 0) - amountMicros)
  }
  const paid = new Map([...charged].filter(([, micros]) => micros !== 0))
  const sorted = (sums: ReadonlyMap<string, number>) => [...sums].sort(([a], [b]) => (a < b ? -1 : 1))
  assert.deepEqual(sorted(logged), sorted(own))
  assert.deepEqual(sorted(paid), sorted(own))
  const costMicros = [...own.values()].reduce((sum, micros) => sum + micros, 0)
  assert.equal(balanceMicros, startCents * 10_000 - costMicros)
  const usage = (await send('/api/v1/scrapes?group_by=scraper')).body
  assert.equal(usage.totals.chargedUsd, (costMicros / 1_000_000).toFixed(4))

  // Every charge has a readable result, and reading it costs nothing.
  const byId = new Map(calls.map((entry) => [entry.id, entry]))
  const read = async (id: string): Promise<Answer> => {
    const single = byId.get(id)
    if (single !== undefined) return call(single)
    const [batchId, n] = id.split('.')
    return send(`/v1/scrape/batch/${batchId}/results/${n}`)
  }
  for (const id of own.keys()) {
    const { status, body, headers } = await read(id)
    assert.ok(status === 200 || body.code === 'target_not_found', `${id} ${JSON.stringify(body)}`)
    assert.equal(headers.get('x-billed'), 'false', id)
  }
  for (const { body } of sent)
    for (const { n, outcome } of body.items)
      if (outcome === 'found')
        assert.equal((await send(`/v1/scrape/batch/${body.batchId}/results/${n}`)).status, 200)
  assert.equal(
    (await send('/api/v1/wallet/transactions?limit=1')).body.transactions[0].balanceAfterMicros,
    balanceMicros,
  )

  t.diagnostic(
    `${calls.length} calls and ${sent.length} batches of ${batchSize}, ${unanswered} calls unanswered at the kill: ${own.size} charges, $${(costMicros / 1_000_000).toFixed(4)}`,
  )
  const log = await openLog(env.DATABASE_URL!)
  t.after(() => log.close())
  await assertVerified({ pool, log, sealKey: Buffer.from(env.FAREBOX_SEAL_KEY!, 'base64') })
  await server.stop()
})
