import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import type pg from 'pg'
import { type CrashPoint, scrapePoints } from '../../src/kernel/crash-points.ts'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { scrapingAccount } from '../features/scrapers/account.ts'
import { openStandIn, type StandIn } from '../features/scrapers/provider-world.ts'
import { openLog } from '../platform/eventstore/open-postgres.ts'
import { atEnd } from '../support/cleanup.ts'
import { dataDirectory, type FareboxProcess, startFarebox } from '../support/farebox.ts'
import { seededDatabase } from '../support/seeded.ts'
import { skipWithoutPostgresLog } from '../support/service-env.ts'
import { until } from '../support/until.ts'
import { assertVerified } from '../support/verify.ts'

const soak = process.env.FAREBOX_SOAK === '1'
const randomKills = soak ? 100 : 2
const inFlight = soak ? 32 : 8
const priceMicros = 3_000
const startMicros = 1_000_000 * 10_000
const points: readonly CrashPoint[] = [...scrapePoints, 'before-append', 'after-append']
/** Longer than any lease: the sweeper of the next process finds what this one left. */
const leapMs = 120_000

/** The request of each id, and the first answer to it. */
type Requests = Map<string, { readonly body: object; text: string | null }>

type Bench = {
  readonly env: NodeJS.ProcessEnv
  readonly key: string
  readonly pool: pg.Pool
  readonly standIn: StandIn
  readonly requests: Requests
}

const setUp = async (t: TestContext): Promise<Bench> => {
  const standIn = await openStandIn(t)
  const env = {
    ...(await seededDatabase(t, await dataDirectory(t))),
    FAREBOX_SANDBOX_URL: standIn.baseUrl.replace('/scrapecreators', ''),
  }
  const pool = createPool({ url: env.DATABASE_URL!, applicationName: 'farebox-test' })
  atEnd(t, () => pool.end())
  const { key } = await scrapingAccount(env, 1_000_000)
  return { env, key, pool, standIn, requests: new Map() }
}

const scrape = async (
  { key, requests }: Bench,
  baseUrl: string,
  requestId: string,
): Promise<{ status: number; text: string; headers: Headers }> => {
  const answer = await fetch(`${baseUrl}/v1/scrape/reddit/subreddit`, {
    method: 'POST',
    headers: { 'X-API-Key': key, 'X-Request-Id': requestId, 'Content-Type': 'application/json' },
    body: JSON.stringify(requests.get(requestId)!.body),
  })
  return { status: answer.status, text: await answer.text(), headers: answer.headers }
}

/** Keeps calls going until the process is gone. */
const load = async (bench: Bench, running: FareboxProcess): Promise<void> => {
  let over = false
  void running.ended.then(() => {
    over = true
  })
  const client = async (): Promise<void> => {
    for (let n = 0; !over && n < 2_000; n += 1) {
      const id = randomBytes(8).toString('hex')
      bench.requests.set(id, { body: { subreddit: `about${id}` }, text: null })
      try {
        const { status, text } = await scrape(bench, running.baseUrl, id)
        if (status === 200) bench.requests.get(id)!.text = text
        else assert.ok([502, 503].includes(status), text)
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error
      }
    }
  }
  await Promise.all(Array.from({ length: inFlight }, client))
}

const idsWhere = async (pool: pg.Pool, text: string): Promise<ReadonlySet<string>> => {
  const { rows } = await pool.query<{ id: string }>(text)
  return new Set(rows.map(({ id }) => id))
}

/** After the sweeper ran: calls with an available result are charged, and nothing else. */
const audit = async ({ pool, requests }: Bench): Promise<void> => {
  await until(async () => (await pool.query('select from read.open_scrapes')).rowCount === 0, {
    timeoutMs: 30_000,
    what: 'every scrape to be over',
  })
  // The log is read below, too: its present events must have reached the tables.
  await until(
    async () =>
      (
        await pool.query(
          `select from engine.checkpoints, log.head where name = 'hot' and position >= last_position`,
        )
      ).rowCount === 1,
    { timeoutMs: 30_000, what: 'the read tables to follow the log' },
  )
  const captured = await idsWhere(
    pool,
    `select split_part(data::jsonb ->> 'holdId', '.', 1) as id from log.events where type = 'HoldCaptured'`,
  )
  const stored = await idsWhere(pool, 'select scrape_id as id from work.scrape_results')
  assert.deepEqual(captured, stored, 'what is charged has its result, and what has a result is charged')
  const answered = [...requests.values()].filter(({ text }) => text !== null).length
  assert.ok(captured.size >= answered, 'an answer was given that was not charged')
  const { rows } = await pool.query<{ available_micros: number; held_micros: number }>(
    'select available_micros, held_micros from read.balances where available_micros > 5000000000 order by available_micros desc limit 1',
  )
  assert.deepEqual(rows, [{ available_micros: startMicros - priceMicros * captured.size, held_micros: 0 }])
}

/** Repeats every request; each id ends with one answer and one charge. */
const retryAll = async (bench: Bench, baseUrl: string): Promise<void> => {
  const left = [...bench.requests]
  const retry = async (): Promise<void> => {
    for (let next = left.pop(); next; next = left.pop()) {
      const [id, request] = next
      const { status, text, headers } = await scrape(bench, baseUrl, id)
      assert.equal(status, 200, text)
      if (request.text !== null) {
        assert.equal(text, request.text, 'a retry got other bytes')
        assert.equal(headers.get('idempotency-replayed'), 'true')
      }
      request.text = text
    }
  }
  await Promise.all(Array.from({ length: inFlight }, retry))
}

/**
 * Every id was charged once, and the platform was called no more than once for each that was answered at
 * once. Call it while a server runs, which folds the last events.
 */
const conclude = async (t: TestContext, bench: Bench): Promise<void> => {
  const { pool, standIn, requests, env } = bench
  await audit(bench)
  const { rows } = await pool.query<{ n: number }>(
    `select count(*)::integer as n from log.events where type = 'HoldCaptured'`,
  )
  assert.equal(rows[0]!.n, requests.size, 'each id is charged once')
  const { calls } = await standIn.journal()
  const perTarget = Map.groupBy(calls, ({ parameters }) => parameters.subreddit)
  assert.equal(perTarget.size, requests.size)
  t.diagnostic(`${requests.size} ids, ${calls.length} calls of the platform`)
  const log = await openLog(env.DATABASE_URL!)
  t.after(() => log.close())
  await assertVerified({ pool, log, sealKey: Buffer.from(env.FAREBOX_SEAL_KEY!, 'base64') })
}

test('a killed server charges exactly the calls with a result, wherever it is killed, and every id converges', {
  skip: skipWithoutPostgresLog,
}, async (t) => {
  const bench = await setUp(t)
  const start = (n: number, crashAt: object = {}): Promise<FareboxProcess> =>
    startFarebox(t, { ...bench.env, FAREBOX_CLOCK_OFFSET_MS: String(n * leapMs), ...crashAt })
  for (const [n, point] of points.entries()) {
    // It audits what the one before it left, then dies of the load: the retries do not pass a point so often.
    const running = await start(n, { FAREBOX_CRASH_AT: `${point}:${8 * inFlight}` })
    await audit(bench)
    await retryAll(bench, running.baseUrl)
    const loading = load(bench, running)
    const timer = setTimeout(() => void running.stop(), 60_000)
    const [, { signal }] = await Promise.all([loading, running.ended])
    clearTimeout(timer)
    assert.equal(signal, 'SIGKILL', `nothing came by ${point}`)
  }
  const last = await start(points.length)
  await audit(bench)
  await retryAll(bench, last.baseUrl)
  await conclude(t, bench)
  await last.stop()
})

test(`it does so over ${randomKills} kills at random moments with ${inFlight} calls in flight`, {
  skip: skipWithoutPostgresLog,
}, async (t) => {
  const bench = await setUp(t)
  for (let kill = 0; kill < randomKills; kill += 1) {
    const env = { ...bench.env, FAREBOX_CLOCK_OFFSET_MS: String(kill * leapMs) }
    const running = await startFarebox(t, env)
    await audit(bench)
    const loading = load(bench, running)
    await new Promise((resolve) => setTimeout(resolve, Math.floor(Math.random() * 400)))
    await running.kill()
    await loading
  }
  const last = await startFarebox(t, {
    ...bench.env,
    FAREBOX_CLOCK_OFFSET_MS: String(randomKills * leapMs),
  })
  await audit(bench)
  await retryAll(bench, last.baseUrl)
  await conclude(t, bench)
  await last.stop()
})
