import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Deposit } from '../../../src/domain/deposits/fold.ts'
import { startDepositReactor } from '../../../src/features/deposits/poll-invoices.ts'
import { pollTable } from '../../../src/features/deposits/poll-schedule.ts'
import { GatewayUnavailable } from '../../../src/features/payments/payment-port.ts'
import type { DepositId } from '../../../src/kernel/ids.ts'
import { delayOf } from '../../../src/platform/work/queue-operations.ts'
import { createWorkers } from '../../../src/platform/work/queue-workers.ts'
import { silent } from '../../platform/projections/engine.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const firstPollMs = 2 * minuteMs
const open = 60

/**
 * Opens deposits, and waits until the read model has them with their invoices: an invoice determines how long
 * it is polled.
 */
const openMany = async (
  app: TestApp,
  key: string,
  count: number,
  method: 'card' | 'crypto' = 'card',
): Promise<readonly DepositId[]> => {
  const made = Array.from({ length: count }, () => app.openDeposit(key, { amount_cents: 500, method }))
  const ids: DepositId[] = (await Promise.all(made)).map(({ deposit_id }) => deposit_id)
  await until(
    async () => {
      const { rows } = await app.core.pool.query(
        'select count(*)::integer as n from read.deposits where deposit_id = any($1::text[]) and expires_at is not null',
        [ids],
      )
      return rows[0].n === count
    },
    { what: 'the deposits and their invoices in the read model' },
  )
  return ids
}

/** Until when the deposit's provider watches it, as milliseconds since the epoch. */
const watchEnd = async (app: TestApp, depositId: DepositId): Promise<number> => {
  const { rows } = await app.core.pool.query<{ watch_until: string }>(
    'select watch_until from read.deposits where deposit_id = $1::text',
    [depositId],
  )
  return Date.parse(rows[0]?.watch_until ?? '')
}

const startOf = async (t: TestContext) => {
  const app = await testApp(t, { own: 'file' })
  const { key } = await app.customer({ cents: 0 })
  // Deposits of earlier tests are neither due nor found again.
  const { pool } = app.core
  await pool.query("update work.deposit_looks set status = 'done', finished_at = 'infinity'")
  return { app, key, pool }
}

let opened: Promise<readonly DepositId[]> | null = null

/** More deposits than one page of the queue, as if they had just been opened. */
const many = async (app: TestApp): Promise<readonly DepositId[]> => {
  opened ??= app.customer({ cents: 0 }).then(({ key }) => openMany(app, key, open))
  const ids = await opened
  await app.core.pool.query(
    `update work.deposit_looks set status = 'pending', finished_at = null, attempts = 0, result = null, due_at = $2::timestamptz
      where deposit_id = any($1::text[])`,
    [ids, new Date().toISOString()],
  )
  return ids
}

/** A process with its own clock that polls deposits of the shop; its providers report nothing. */
const openLooks = (
  t: TestContext,
  app: TestApp,
  clock: { nowMs: number },
  answer: (depositId: DepositId) => void | Promise<void> = () => undefined,
) => {
  const looked: DepositId[] = []
  const { pool } = app.core
  const workers = createWorkers({
    scheduler: testScheduler(),
    pool,
    clock: () => clock.nowMs,
    monotonicMs: () => performance.now(),
    logger: silent,
  })
  const looks = startDepositReactor({
    workers,
    pool,
    clock: () => clock.nowMs,
    logger: silent,
    firstPollMs,
    deposits: {
      settle: async (depositId) => {
        looked.push(depositId)
        await answer(depositId)
        const watchUntil = new Date(await watchEnd(app, depositId)).toISOString()
        const invoice = { invoiceId: 'one', expiresAt: watchUntil, watchUntil }
        return { status: 'awaiting_payment', invoice } as Deposit
      },
      abandon: () => assert.fail('no deposit is given up here'),
    },
  })
  t.after(() => workers.stop())
  return { looked, round: looks.drain }
}

test('due deposits are polled in one round, first those that are late by the largest share of their pause', async (t) => {
  const { app, pool } = await startOf(t)
  const ids = await many(app)
  // All but the last were polled for days, once an hour, and are ten minutes late; the last is late by one of
  // its two minutes.
  // None is due yet by the clock of the shop, which polls, too.
  const nowMs = Date.now() + hourMs
  for (const [looks, lateMs, which] of [
    [100, 10 * minuteMs, ids.slice(0, -1)],
    [0, 3 * minuteMs, ids.slice(-1)],
  ] as const)
    await pool.query(
      'update work.deposit_looks set attempts = $3::integer, due_at = $2::timestamptz where deposit_id = any($1::text[])',
      [which, new Date(nowMs - lateMs).toISOString(), looks],
    )
  const { looked, round } = openLooks(t, app, { nowMs })
  await round()
  assert.deepEqual([...looked].sort(), [...ids].sort())
  assert.ok(looked.indexOf(ids.at(-1)!) < 50, 'the young one was not among the first')
  await round()
  assert.equal(looked.length, open, 'none is looked at again before its next turn')
})

test('one of several processes polls a deposit', async (t) => {
  const { app } = await startOf(t)
  const ids = await many(app)
  const clock = { nowMs: Date.now() + 3 * minuteMs }
  const all = [1, 2, 3].map(() => openLooks(t, app, clock))
  await Promise.all(all.map(({ round }) => round()))
  assert.deepEqual(all.flatMap(({ looked }) => looked).sort(), [...ids].sort())
})

test('deposits that cannot be resumed delay no others, however many they are', async (t) => {
  const { app } = await startOf(t)
  const ids = await many(app)
  let failures = 0
  const { looked, round } = openLooks(t, app, { nowMs: Date.now() + 3 * minuteMs }, () => {
    // More than are polled concurrently.
    if (++failures <= 15) throw new RangeError('more than a wallet holds')
  })
  await round()
  assert.deepEqual([...looked].sort(), [...ids].sort())
})

test('a hanging gateway does not delay deposits of others, however many of its own are due', async (t) => {
  const { app, key } = await startOf(t)
  const hanging = await many(app)
  const [other] = await openMany(app, key, 1, 'crypto')
  const nowMs = Date.now() + 3 * minuteMs
  const answered = Promise.withResolvers<void>()
  const { looked, round } = openLooks(t, app, { nowMs }, (depositId) =>
    hanging.includes(depositId) ? answered.promise : undefined,
  )
  const running = round()
  await until(() => looked.includes(other!))
  assert.ok(looked.length <= 11, 'of the hanging gateway at most ten are polled at once')
  answered.resolve()
  await running
  assert.deepEqual([...looked].sort(), [...hanging, other].sort())
})

test('polls of an unpaid deposit are not failures of its queue, and unanswered polls are', async (t) => {
  const { app, key, pool } = await startOf(t)
  await openMany(app, key, 2)
  const clock = { nowMs: Date.now() }
  let answers = true
  const { round } = openLooks(t, app, clock, () => {
    if (!answers) throw new GatewayUnavailable('no answer')
  })
  const looksOfHours = async (hours: number): Promise<void> => {
    for (let hour = 0; hour < hours; hour += 1) {
      clock.nowMs += hourMs
      await round()
    }
  }
  await looksOfHours(4)
  assert.equal((await delayOf(pool, pollTable)).failing, 0)
  answers = false
  await looksOfHours(1)
  assert.equal((await delayOf(pool, pollTable)).failing, 2)
})

test('the first answered poll at or after the end of the polling period is the last one', async (t) => {
  const { app, key } = await startOf(t)
  const [depositId] = await openMany(app, key, 1)
  assert.ok(depositId)
  const endMs = await watchEnd(app, depositId)
  const clock = { nowMs: 0 }
  const { looked, round } = openLooks(t, app, clock)
  const looksAt = async (atMs: number): Promise<number> => {
    const before = looked.length
    clock.nowMs = atMs
    await round()
    return looked.length - before
  }
  assert.equal(await looksAt(endMs - 2 * hourMs), 1)
  assert.equal(await looksAt(endMs - 1), 1, 'money may still come')
  assert.equal(await looksAt(endMs + hourMs), 1, 'what came after the one before')
  for (let hours = 2; hours < 100; hours += 7) assert.equal(await looksAt(endMs + hours * hourMs), 0)
})

test('a deposit whose provider never answers is polled without end, at most once an hour', async (t) => {
  const { app, key } = await startOf(t)
  await openMany(app, key, 1)
  const startMs = Date.now()
  const clock = { nowMs: startMs }
  const gone = () => {
    throw new GatewayUnavailable('the gateway is gone')
  }
  const { looked, round } = openLooks(t, app, clock, gone)
  const days = async (from: number, to: number): Promise<number> => {
    const before = looked.length
    for (let hours = from * 24; hours < to * 24; hours += 0.5) {
      clock.nowMs = startMs + hours * hourMs
      await round()
    }
    return looked.length - before
  }
  await days(0, 2)
  assert.equal(await days(30, 32), 48)
})

test('a deposit that a crash left out of the rounds is found', async (t) => {
  const { app, key } = await startOf(t)
  const ids = await openMany(app, key, 3)
  await app.core.pool.query('delete from work.deposit_looks where deposit_id = $1::text', [ids[1]])
  const clock = { nowMs: Date.now() + 3 * minuteMs }
  const { looked, round } = openLooks(t, app, clock)
  await round()
  await round()
  assert.deepEqual([...looked].sort(), [...ids].sort())
})

test('after an upgrade, deposits past their polling period are polled once more if they are open, and not if they are closed', async (t) => {
  const { app, key, pool } = await startOf(t)
  const [closed, looked, never, watched] = await openMany(app, key, 4)
  assert.ok(closed && looked && never && watched)
  await app.act(closed, 'expire')
  await app.untilDeposit(key, closed, { status: 'expired' })
  const daysMs = 20 * 24 * hourMs
  await pool.query('delete from work.deposit_looks where deposit_id = $1::text', [never])
  // The rows of older versions after the migrations (test/platform/work/upgrade.test.ts).
  // By the clock of the shop, which polls, too, they are not due after they are found again.
  await pool.query(
    "update work.deposit_looks set attempts = 100, status = 'done', finished_at = '-infinity', due_at = $1::timestamptz where deposit_id = any($2::text[])",
    [new Date(Date.now() + daysMs - hourMs).toISOString(), [closed, looked, never, watched]],
  )
  await pool.query('update read.deposits set watch_until = $2::timestamptz where deposit_id = $1::text', [
    watched,
    new Date(Date.now() + 2 * daysMs).toISOString(),
  ])
  const clock = { nowMs: Date.now() + daysMs }
  const looks = openLooks(t, app, clock)
  await looks.round()
  await looks.round()
  assert.deepEqual([...looks.looked].sort(), [looked, never, watched].sort())
  clock.nowMs += 2 * hourMs
  await looks.round()
  assert.deepEqual(looks.looked.slice(3), [watched])
})
