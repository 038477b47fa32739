import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { hot } from '../../../projections/groups.ts'
import { scrapeBatchRef } from '../../../src/domain/scrapers/batches.ts'
import { createBatchItems } from '../../../src/features/scrapers/batch-items.ts'
import { createScrapeBatches, statusOf } from '../../../src/features/scrapers/batch-service.ts'
import { startBatchWorker } from '../../../src/features/scrapers/batch-worker.ts'
import { absentCallOwners, startScrapeSweeper } from '../../../src/features/scrapers/call-commands.ts'
import { announceCallOwner } from '../../../src/features/scrapers/call-owner.ts'
import type { ScrapeRate } from '../../../src/features/scrapers/call-rate.ts'
import type { ScrapeOutcome } from '../../../src/features/scrapers/provider-port.ts'
import type { KeyId } from '../../../src/kernel/ids.ts'
import { readStreamState } from '../../../src/platform/commands/command.ts'
import { masterKey } from '../../../src/platform/vault/keys.ts'
import { createWorkers } from '../../../src/platform/work/queue-workers.ts'
import { caughtUp, silent, startEngine } from '../../platform/projections/engine.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { until } from '../../support/until.ts'
import { type Answers, bodyOf, failed, found, priceMicros, scrapeWorld, subreddit } from './world.ts'

const keys = { master: masterKey(Buffer.alloc(32, 7)) }

/** Batches on a real log and queue, with workers that can be started and stopped. */
const batchWorld = async (t: TestContext, answers: Answers, cents = 100) => {
  const world = await scrapeWorld(t, answers, cents)
  const engine = await startEngine(t, world.pool, world.log, [hot])
  await caughtUp(engine, world.log)
  const items = createBatchItems({ pool: world.pool, clock: world.now, keys })
  const batches = createScrapeBatches({ ...world, items, scrapes: world.here.scrapes, clock: world.now })
  const accept = (requestId: string, names: readonly string[]) =>
    batches.accept(
      {
        accountId: world.accountId,
        keyId: world.keyId as KeyId,
        requestId,
        row: subreddit,
        inputs: names.map(bodyOf),
      },
      { actor: { kind: 'system', name: 'test' }, correlationId: requestId },
    )
  const work = (scrapes = world.here.scrapes, rate: ScrapeRate | null = null) =>
    startBatchWorker({
      ...world,
      workers,
      items,
      scrapes,
      rate,
      clock: world.now,
      pollMs: 20,
    })
  const workers = createWorkers({
    scheduler: testScheduler(),
    pool: world.pool,
    clock: world.now,
    monotonicMs: () => performance.now(),
    logger: silent,
  })
  t.after(workers.stop)
  const finished = (batchId: string) =>
    until(async () => {
      const batch = await batches.find(world.accountId, batchId)
      return batch?.batch.finished_at ? batch : null
    })
  return { ...world, batches, items, accept, work, finished, engine }
}

/** By the requested input. */
const outcomes: Readonly<Record<string, ScrapeOutcome>> = {
  none: { kind: 'target_not_found' },
  shut: { kind: 'target_restricted' },
  nothing: { kind: 'nothing', data: {}, nextCursor: null },
}

test('each call of a batch is made and billed separately, and the batch ends after all of them', async (t) => {
  const tries = new Map<string, number>()
  const world = await batchWorld(t, ({ subreddit: name }) => {
    const n = (tries.get(name as string) ?? 0) + 1
    tries.set(name as string, n)
    if (name === 'flaky' && n === 1) return failed
    return outcomes[name as string] ?? found({ name: name as string })
  })
  const before = await world.wallet()
  const names = ['one', 'none', 'shut', 'nothing', 'flaky', 'two']
  const { batch, isNew } = await world.accept('batch-1', names)
  assert.ok(isNew)
  world.work()
  const over = await world.finished(batch.batch_id)
  assert.deepEqual(
    over.items.map(({ n, outcome, problem, charged_micros }) => [n, outcome, problem, charged_micros]),
    [
      [1, 'found', null, priceMicros],
      [2, 'not_found', null, priceMicros],
      [3, 'restricted', null, 0],
      [4, 'empty', null, 0],
      [5, 'found', null, priceMicros],
      [6, 'found', null, priceMicros],
    ],
  )
  const after = await world.wallet()
  assert.deepEqual([before.available - after.available, after.held], [4 * priceMicros, 0])
  assert.deepEqual(
    JSON.parse((await world.batches.result(world.accountId, batch.batch_id, 6))!.bytes!.toString()).data,
    { name: 'two' },
  )
  const billedOf = async (n: number) => {
    const call = await world.batches.result(world.accountId, batch.batch_id, n)
    return call && [call.outcome, call.billed]
  }
  assert.deepEqual(await billedOf(2), ['target_not_found', true])
  assert.deepEqual(await billedOf(3), ['target_restricted', false])
  assert.equal(await world.batches.result(world.accountId, batch.batch_id, 7), null)
  // The same request again returns the existing batch; another under its id is refused.
  const again = await world.accept('batch-1', names)
  assert.deepEqual([again.isNew, again.batch.finished_at], [false, over.batch.finished_at])
  await assert.rejects(world.accept('batch-1', ['other']), { code: 'idempotency_conflict' })
  assert.equal(tries.size, names.length)
})

test('an input that the scraper does not accept refuses the whole batch, by its position', async (t) => {
  const world = await batchWorld(t, () => found({}))
  const refused = world.batches.accept(
    {
      accountId: world.accountId,
      keyId: world.keyId as KeyId,
      requestId: 'bad',
      row: subreddit,
      inputs: [bodyOf('node'), { subreddit: 7 }],
    },
    { actor: { kind: 'system', name: 'test' }, correlationId: 'bad' },
  )
  await assert.rejects(refused, { code: 'bad_input', message: /^input 2: subreddit must be / })
  const { rows } = await world.pool.query('select from work.scrape_batches')
  assert.equal(rows.length, 0)
})

test('a call that fails until the provider changes is not tried again', async (t) => {
  const world = await batchWorld(t, () => ({ ...failed, retryAfterSeconds: null }))
  const { batch } = await world.accept('removed', ['a'])
  world.work()
  const over = await world.finished(batch.batch_id)
  assert.deepEqual(
    over.items.map(({ problem }) => problem),
    ['provider_failed'],
  )
  assert.equal(world.provider.calls.length, 1)
})

test('an empty wallet ends the calls that it cannot pay', async (t) => {
  const world = await batchWorld(t, () => found({}), 1)
  const { batch } = await world.accept('dry', ['a', 'b', 'c', 'd', 'e'])
  world.work()
  const over = await world.finished(batch.batch_id)
  const paid = over.items.filter(({ outcome }) => outcome === 'found')
  const short = over.items.filter(({ problem }) => problem === 'insufficient_balance')
  assert.deepEqual([paid.length, short.length], [3, 2]) // a cent pays three
  assert.deepEqual(await world.wallet(), { available: 1_000, held: 0 })
})

test('a crash between a call and its record causes no second charge', async (t) => {
  const world = await batchWorld(t, () => found({}))
  const { batch } = await world.accept('crash', ['a', 'b', 'c'])
  // The other process made the first call, and crashed before the queue recorded it.
  await world.there.call(`${batch.batch_id}.1`, bodyOf('a'))
  world.work()
  const over = await world.finished(batch.batch_id)
  assert.deepEqual(
    over.items.map(({ outcome }) => outcome),
    ['found', 'found', 'found'],
  )
  assert.equal(world.provider.calls.length, 3)
  assert.equal((await world.wallet()).available, 1_000_000 - 3 * priceMicros)
})

test('a batch goes on soon after the process of a call is gone, long before the lease of the call', async (t) => {
  const gate = Promise.withResolvers<void>()
  const world = await batchWorld(t, async (_, n) => {
    if (n === 1) await gate.promise
    return found({ n })
  })
  const { pool, now } = world
  const { batch } = await world.accept('killed', ['a', 'b'])
  const owner = announceCallOwner({ pool, logger: silent })
  await until(() => owner.id() !== null)
  const killed = world.open({ runner: world.elsewhere.runner, log: world.log }, undefined, owner)
  const running = killed.call(`${batch.batch_id}.1`, bodyOf('a'))
  await until(() => world.provider.calls.length === 1)
  await caughtUp(world.engine, world.log)
  assert.deepEqual(await absentCallOwners(pool), [])
  const sweeper = startScrapeSweeper({
    ...world,
    scheduler: testScheduler(),
    clock: now,
    monotonicMs: () => performance.now(),
    logger: silent,
    intervalMs: 50,
  })
  t.after(sweeper.stop)
  world.work()
  // Postgres releases the lock of a process that is killed, too.
  await owner.stop()
  const over = await world.finished(batch.batch_id)
  const [first] = (await world.log.readAll(0, 1_000)).filter(({ type }) => type === 'ScrapeStarted')
  assert.ok(now() < Date.parse(JSON.parse(first!.data).leaseUntil))
  assert.deepEqual(
    over.items.map(({ outcome, charged_micros }) => [outcome, charged_micros]),
    [
      ['found', priceMicros],
      ['found', priceMicros],
    ],
  )
  // Its result comes too late, and is not charged.
  gate.resolve()
  const late = await running
  assert.deepEqual(['code' in late && late.code, late.headers['x-billed']], ['provider_failed', 'false'])
  assert.deepEqual(await world.wallet(), { available: 1_000_000 - 2 * priceMicros, held: 0 })
})

test('a batch is erased a day after its end, and its id is reported as erased permanently', async (t) => {
  const world = await batchWorld(t, () => found({}))
  const { batch } = await world.accept('old', ['a'])
  world.work()
  await world.finished(batch.batch_id)
  world.clock.aheadMs += 25 * 3_600_000
  const batchRows = async () => (await world.pool.query('select from work.scrape_batches')).rows.length
  await until(async () => (await batchRows()) === 0)
  assert.equal(await world.batches.find(world.accountId, batch.batch_id), null)
  await assert.rejects(world.accept('old', ['a']), { code: 'result_expired' })
})

test('all batches that ended more than a day ago are erased together, and no later one', async (t) => {
  const world = await scrapeWorld(t, () => found({}))
  const items = createBatchItems({ pool: world.pool, clock: world.now, keys })
  const over = (prefix: string, count: number, hours: number) =>
    world.pool.query(
      `with made as (
         insert into work.scrape_batches (batch_id, account_id, key_id, request_id, platform, operation, fingerprint, inputs, calls, created_at, finished_at)
           select $1 || n, 'acc_1', 'key_1', $1 || n, 'reddit', 'subreddit', '', 1, '{1}', $3::timestamptz, $3::timestamptz
             from generate_series(1, $2::integer) n returning batch_id)
       insert into work.scrape_batch_items (batch_id, n, account_id, input, due_at, status)
         select batch_id, '1', 'acc_1', '{}', now(), 'done' from made`,
      [prefix, count, new Date(world.now() - hours * 3_600_000).toISOString()],
    )
  await over('old', 250, 25)
  await over('new', 3, 23)
  await items.forget()
  for (const table of ['scrape_batches', 'scrape_batch_items']) {
    const { rows } = await world.pool.query(`select batch_id from work.${table} order by 1`)
    assert.deepEqual(
      rows.map((row) => row.batch_id),
      ['new1', 'new2', 'new3'],
    )
  }
})

test('a batch whose key is revoked while it waits makes no more calls', async (t) => {
  const world = await batchWorld(t, () => found({}))
  const { batch } = await world.accept('revoked', ['a', 'b'])
  await world.accounts.revokeKey(world.keyId as KeyId, {
    correlationId: 'x',
    actor: { kind: 'operator', name: 'tester' },
  })
  await caughtUp(world.engine, world.log)
  world.work()
  const over = await world.finished(batch.batch_id)
  assert.deepEqual(
    over.items.map(({ problem }) => problem),
    ['unauthorized', 'unauthorized'],
  )
  assert.equal(world.provider.calls.length, 0)
})

test('a canceled batch makes no more calls, keeps its results, and is listed', async (t) => {
  const called: unknown[] = []
  const world = await batchWorld(t, ({ subreddit: name }) => {
    called.push(name)
    return found({})
  })
  const { batch } = await world.accept('canceled', ['one', 'two'])
  const { batch: other } = await world.accept('other', ['three'])
  assert.equal(await world.batches.cancel('acc_other' as typeof world.accountId, batch.batch_id), null)
  const canceled = await world.batches.cancel(world.accountId, batch.batch_id)
  assert.notEqual(canceled?.batch.canceled_at, null)
  world.work()
  const ended = await world.finished(batch.batch_id)
  await world.finished(other.batch_id)
  assert.deepEqual(
    ended?.items.map(({ outcome, problem, charged_micros }) => [outcome, problem, charged_micros]),
    [
      ['canceled', null, 0],
      ['canceled', null, 0],
    ],
  )
  assert.deepEqual(called, ['three'])
  const page = await world.batches.list(world.accountId, { limit: 1, offset: 0 })
  assert.equal(page.total, 2)
  assert.equal(page.batches.length, 1)
  assert.deepEqual(await world.batches.list(world.accountId, { limit: 10, offset: 5 }), {
    batches: [],
    total: 2,
  })
})

test('a batch or call inserted with SQL spends no money', async (t) => {
  const world = await batchWorld(t, () => found({}))
  const { batch } = await world.accept('genuine', ['a', 'b'])
  const { pool } = world
  await pool.query(`update work.scrape_batch_items set input = $2 where batch_id = $1 and n = '2'`, [
    batch.batch_id,
    JSON.stringify(bodyOf('other')),
  ])
  const { rows } = await pool.query<{ names: string }>(
    `select string_agg(column_name, ', ' order by ordinal_position) as names from information_schema.columns
      where table_schema = 'work' and table_name = 'scrape_batch_items' and column_name not in ('batch_id', 'n')`,
  )
  const columns = rows[0]!.names
  // A forged batch with the signatures of the genuine one; and one whose calls are finished already.
  for (const [id, status] of [
    ['scb_forged', 'pending'],
    ['scb_done', 'done'],
  ] as const) {
    await pool.query(
      `insert into work.scrape_batches (batch_id, account_id, key_id, request_id, platform, operation, fingerprint, inputs, calls, created_at, signature)
       select $2, account_id, key_id, $2, platform, operation, fingerprint, 1, '{1}', created_at, signature
         from work.scrape_batches where batch_id = $1`,
      [batch.batch_id, id],
    )
    await pool.query(
      `insert into work.scrape_batch_items (batch_id, n, ${columns})
       select $2, n, ${columns} from work.scrape_batch_items where batch_id = $1 and n = '1'`,
      [batch.batch_id, id],
    )
    await pool.query('update work.scrape_batch_items set status = $2 where batch_id = $1', [id, status])
  }
  world.work()
  const over = await world.finished(batch.batch_id)
  assert.deepEqual(
    over.items.map(({ outcome, problem }) => [outcome, problem !== null]),
    [
      ['found', false],
      ['failed', true],
    ],
  )
  for (const id of ['scb_forged', 'scb_done'])
    await until(async () => {
      const found = await pool.query(
        'select from work.scrape_batches where batch_id = $1 and finished_at is not null',
        [id],
      )
      return found.rowCount === 1
    })
  assert.equal(world.provider.calls.length, 1)
  const events = await world.log.readAll(0, 1_000)
  assert.ok(events.every(({ data }) => !data.includes('scb_forged') && !data.includes('scb_done')))
})

test('a batch whose row was changed with SQL is not shown', async (t) => {
  const world = await batchWorld(t, () => found({}))
  const { batch } = await world.accept('changed', ['a'])
  assert.ok(await world.batches.find(world.accountId, batch.batch_id))
  await world.pool.query(`update work.scrape_batches set platform = 'tiktok' where batch_id = $1`, [
    batch.batch_id,
  ])
  assert.equal(await world.batches.find(world.accountId, batch.batch_id), null)
  assert.equal(await world.batches.cancel(world.accountId, batch.batch_id), null)
  const { batches } = await world.batches.list(world.accountId, { limit: 10, offset: 0 })
  assert.deepEqual(batches, [])
})

test('a batch canceled while it runs, twice and across a crash, costs only its completed calls', async (t) => {
  const gate = Promise.withResolvers<void>()
  const world = await batchWorld(t, async () => {
    await gate.promise
    return found({})
  })
  const { batch } = await world.accept(
    'canceled',
    Array.from({ length: 20 }, (_, n) => `n${n}`),
  )
  // Another process holds the money of the first call and dies.
  const crashed = world.there.call(`${batch.batch_id}.1`, bodyOf('n0'))
  await until(() => world.provider.calls.length === 1)
  world.work()
  await until(() => world.provider.calls.length >= 8)
  const cancel = () => world.batches.cancel(world.accountId, batch.batch_id)
  const [first, second] = await Promise.all([cancel(), cancel()])
  assert.equal(first?.batch.canceled_at, second?.batch.canceled_at)
  assert.equal(statusOf(first!.batch), 'canceling')
  gate.resolve()
  await crashed
  const over = await world.finished(batch.batch_id)
  assert.equal(statusOf(over.batch), 'canceled')
  const made = over.items.filter(({ outcome }) => outcome === 'found')
  assert.ok(made.length >= 8 && made.length < 20, `${made.length} calls`)
  assert.ok(made.every(({ charged_micros }) => charged_micros === priceMicros))
  for (const { outcome, problem, charged_micros } of over.items.filter((item) => !made.includes(item)))
    assert.deepEqual([outcome, problem, charged_micros], ['canceled', null, 0])
  assert.deepEqual(await world.wallet(), { available: 1_000_000 - made.length * priceMicros, held: 0 })
  const again = await cancel()
  assert.deepEqual(again?.batch, over.batch, 'a batch that is over stays as it is')
  const { state } = await readStreamState(world.log, scrapeBatchRef(batch.batch_id))
  assert.deepEqual(
    [
      state?.finished?.canceled,
      state?.finished?.found,
      state?.finished?.failed,
      state?.finished?.canceledCalls,
    ],
    [true, made.length, 0, 20 - made.length],
  )
})

test('a call that waits for the rate limit of its account is not made after its batch is canceled', async (t) => {
  const world = await batchWorld(t, () => found({}))
  const { batch } = await world.accept('waiting', ['one'])
  let attempts = 0
  const take = async () => {
    attempts += 1
    return { waitS: 0.02, remaining: 0, fullAfterS: 0.02 }
  }
  world.work(world.here.scrapes, { per: 'account', policy: 'q=1;w=1', take })
  await until(() => attempts > 1)
  await world.batches.cancel(world.accountId, batch.batch_id)
  const over = await world.finished(batch.batch_id)
  assert.deepEqual(
    over.items.map(({ outcome }) => outcome),
    ['canceled'],
  )
  assert.equal(world.provider.calls.length, 0)
})

test('a column that a later version adds breaks no statement of this one', async (t) => {
  const world = await batchWorld(t, () => found({}))
  const { batch } = await world.accept('upgrade', ['one'])
  const read = async () => {
    await world.batches.find(world.accountId, batch.batch_id)
    await world.batches.list(world.accountId, { limit: 1, offset: 0 })
    await world.items.ofAccount(world.accountId, { after: null, limit: 1 })
    await world.items.ended(1)
  }
  await read()
  await world.pool.query('alter table work.scrape_batches add column later text')
  await read()
})
