import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { createChatSigner } from '../../../src/features/accounts/customers.ts'
import type { SendOutcome } from '../../../src/features/resellers/customer-messages.ts'
import { startMessageWorker } from '../../../src/features/resellers/customer-messages.ts'
import { isoTime } from '../../../src/kernel/clock.ts'
import { type AccountId, type CustomerId, newEventId, type OrderId } from '../../../src/kernel/ids.ts'
import { orderStream } from '../../../src/kernel/streams.ts'
import { masterKey } from '../../../src/platform/vault/keys.ts'
import { createWorkers } from '../../../src/platform/work/queue-workers.ts'
import { silent } from '../../platform/projections/engine.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { testDatabase } from '../../support/postgres.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { until } from '../../support/until.ts'
import { planOrder } from '../../support/world.ts'

const nowMs = Date.parse('2026-11-21T12:00:00.000Z')

type Bot = (chatId: string) => Promise<SendOutcome>

/** Messages of resellers with a bot each, which the given functions are; the name of a reseller is its customers' chat. */
const openMessages = async (t: TestContext, bots: Readonly<Record<string, Bot>>) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const chats = createChatSigner(masterKey(randomBytes(32)))
  // The read data of ended orders; all of them were taken over.
  await pool.query(`create table read.order_notices
    (order_id text, notice text, account_id text, customer_id text, position bigint)`)
  let nextMs = nowMs
  const clock = () => nextMs
  const workers = createWorkers({
    scheduler: testScheduler(),
    pool,
    clock,
    monotonicMs: () => performance.now(),
    logger: silent,
  })
  const worker = startMessageWorker({
    workers,
    pool,
    chats,
    log,
    botOf: async (reseller) => ({
      messenger: { send: ({ chatId }) => bots[reseller]!(chatId) },
      merchantName: null,
      chatId: null,
    }),
    clock,
    pollMs: 3_600_000,
  })
  t.after(() => workers.stop())

  /** So many messages of a reseller, each due so long ago; `from` is how many it had before. */
  const due = async (reseller: string, count: number, sinceMs: number, from = 0): Promise<void> => {
    const ids = Array.from({ length: count }, (_, n) => `ord_${reseller}_${from + n}` as OrderId)
    await pool.query(
      `with known as (insert into vault.customers (customer_id, account_id, ref, chat_id, chat_signature) values ($2, $1, $1, $1, $5) on conflict do nothing)
       insert into work.messages (order_id, account_id, customer_id, notice, due_at)
       select id, $1, $2, 'placed', $4::timestamptz from unnest($3::text[]) id`,
      [
        reseller,
        `cus_${reseller}`,
        ids,
        isoTime(nowMs - sinceMs),
        chats.sign({ customerId: `cus_${reseller}`, accountId: reseller, chatId: reseller }),
      ],
    )
    for (const id of ids)
      await log.append(orderStream(id), 'noStream', [
        {
          id: newEventId(),
          type: 'OrderPlaced',
          data: JSON.stringify({
            order: planOrder(id, {
              accountId: reseller as AccountId,
              customerId: `cus_${reseller}` as CustomerId,
              costCents: 1,
            }),
            balanceCents: 0,
          }),
          metadata: JSON.stringify({
            correlationId: 'test',
            causationId: null,
            actor: { kind: 'system', name: 'test' },
            recordedAt: isoTime(nowMs),
          }),
        },
      ])
  }
  const results = async (reseller: string) =>
    (
      await pool.query<{ result: string | null; due_at: string; finished_at: string | null }>(
        'select result, due_at, finished_at from work.messages where account_id = $1 order by order_id',
        [reseller],
      )
    ).rows
  return { pool, worker, due, results, pass: (ms: number) => (nextMs += ms) }
}

/**
 * As `openMessages`, with one bot that answers and one that hangs until it is released, without delaying the
 * test's end.
 */
const openHanging = async (t: TestContext) => {
  const over = Promise.withResolvers<SendOutcome>()
  const answer = (): void => over.resolve({ kind: 'sent' })
  t.after(answer)
  let calls = 0
  const messages = await openMessages(t, {
    hangs: () => {
      calls += 1
      return over.promise
    },
    answers: async () => ({ kind: 'sent' }),
  })
  const allSent = (reseller: string) => async (): Promise<boolean> =>
    (await messages.results(reseller)).every(({ result }) => result === 'sent')
  return { ...messages, answer, calls: () => calls, allSent }
}

test("a reseller's hanging bot does not delay others' messages, however many and however old its own are", async (t) => {
  const { worker, due, answer, calls, allSent } = await openHanging(t)
  await due('hangs', 100, 3_600_000)
  await due('answers', 40, 1_000)
  void worker.runNow()
  await until(allSent('answers'), { what: 'the messages of the bot that answers' })
  assert.equal(calls(), 4, 'of the other one so many are on their way at once')
  answer()
  // Messages that waited for a slot follow without a round's pause.
  await until(allSent('hangs'))
  assert.equal(calls(), 100)
})

test('running messages of a reseller count against its share of the next round', async (t) => {
  const { worker, due, calls, allSent } = await openHanging(t)
  await due('hangs', 3, 3_600_000)
  await worker.runNow()
  await until(() => calls() === 3)
  await due('hangs', 8, 1_000, 3)
  await due('answers', 5, 0)
  await worker.runNow()
  await until(allSent('answers'))
  await worker.runNow()
  await until(() => calls() >= 4)
  assert.equal(calls(), 4)
})

test('a chat that always moved is retried less and less often, and finally abandoned', async (t) => {
  let calls = 0
  const { worker, due, results, pass } = await openMessages(t, {
    moves: async () => {
      calls += 1
      return { kind: 'moved', chatId: `-100${calls}` }
    },
  })
  await due('moves', 1, 0)
  const round = async (): Promise<void> => {
    const before = calls
    await worker.drain()
    assert.equal(calls, before + 1)
  }
  await round()
  assert.deepEqual(await results('moves'), [
    { result: 'the chat moved', due_at: '2026-11-21T12:00:01.000Z', finished_at: null },
  ])
  await worker.drain()
  assert.equal(calls, 1, 'not before its time')
  for (let attempt = 2; attempt < 32; attempt += 1) {
    pass(3_600_000)
    await round()
  }
  pass(3_600_000)
  await worker.drain()
  assert.equal((await results('moves'))[0]?.result, 'given up: the chat moved')
  pass(3_600_000)
  await worker.drain()
  assert.equal(calls, 32)
})

test('a bot that requests a retry in ten thousand years is retried in a day', async (t) => {
  const { worker, due, results } = await openMessages(t, {
    limits: async () => ({ kind: 'later', afterS: 3e11, why: 'error 429' }),
  })
  await due('limits', 1, 0)
  await worker.runNow()
  await until(async () => (await results('limits'))[0]?.result === 'error 429')
  assert.equal((await results('limits'))[0]?.due_at, '2026-11-22T12:00:00.000Z')
})

test('an order of another reseller is never sent, even if it is inserted into the queue', async (t) => {
  const sentTo: string[] = []
  const bot = async (chatId: string): Promise<SendOutcome> => {
    sentTo.push(chatId)
    return { kind: 'sent' }
  }
  const { pool, worker, due, results, pass } = await openMessages(t, { victim: bot, thief: bot })
  // Not due yet: the first round of the worker may begin late.
  await due('victim', 2, -1_000)
  await due('thief', 1, -1_000)
  await pool.query(
    `update work.messages set account_id = 'thief', customer_id = 'cus_thief' where order_id = 'ord_victim_0'`,
  )
  pass(2_000)
  await worker.runNow()
  await until(async () => (await results('thief')).every(({ finished_at }) => finished_at !== null))
  await until(async () => (await results('victim')).every(({ finished_at }) => finished_at !== null))
  assert.deepEqual(sentTo.toSorted(), ['thief', 'victim'])
  assert.match((await results('thief')).map(({ result }) => result).join(), /not written by the service/)
})
