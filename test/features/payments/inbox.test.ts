import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { startCallbackReactor } from '../../../src/features/deposits/take-callbacks.ts'
import { createInbox } from '../../../src/features/payments/callbacks.ts'
import { createWorkers } from '../../../src/platform/work/queue-workers.ts'
import { testDatabase } from '../../support/postgres.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { until } from '../../support/until.ts'

const logger = pino({ level: 'silent' })
const scheduler = testScheduler()

test('processed callbacks are deleted after a month, and waiting ones are never deleted', async (t) => {
  const { pool } = await testDatabase(t)
  const inbox = createInbox(pool, Date.now)
  for (const eventId of ['old', 'new', 'waits']) await inbox.store('gw_1', { eventId, reference: 'in_1' })
  const age = (eventId: string, set: string) =>
    pool.query(`update work.gateway_inbox set ${set} where event_id = $1`, [eventId])
  const ago = (days: number): string => `clock_timestamp() - make_interval(days => ${days})`
  await age('old', `status = 'done', finished_at = ${ago(31)}`)
  await age('new', `status = 'done', finished_at = ${ago(29)}`)
  await age('waits', `received_at = ${ago(365)}, due_at = ${ago(-1)}`)
  const storedIds = async () =>
    (await pool.query('select event_id from work.gateway_inbox order by 1')).rows.map((row) => row.event_id)
  const workers = createWorkers({
    scheduler,
    pool,
    clock: Date.now,
    monotonicMs: () => performance.now(),
    logger,
  })
  const reactor = startCallbackReactor({ scheduler, workers, inbox, logger, sweepMs: 10 } as never)
  t.after(async () => {
    await reactor.stop()
    await workers.stop()
  })
  await until(async () => !(await storedIds()).includes('old'), { what: 'the old callback to be gone' })
  assert.deepEqual(await storedIds(), ['new', 'waits'])
})

test('a hanging gateway uses only its own slots, and slots of others do not count', async (t) => {
  const { pool } = await testDatabase(t)
  const inbox = createInbox(pool, Date.now)
  const workers = createWorkers({
    scheduler,
    pool,
    clock: Date.now,
    monotonicMs: () => performance.now(),
    logger,
  })
  const answer = Promise.withResolvers<null>()
  const calls = new Map<string, number>()
  const reactor = startCallbackReactor({
    scheduler,
    workers,
    inbox,
    logger,
    hooks: { at: () => undefined },
    gateways: {
      byId: async (gatewayId: string) => {
        calls.set(gatewayId, (calls.get(gatewayId) ?? 0) + 1)
        return { gatewayId, gateway: { fetch: () => (gatewayId === 'gw_hangs' ? answer.promise : null) } }
      },
    },
  } as never)
  t.after(async () => {
    answer.resolve(null)
    await reactor.stop()
    await workers.stop()
  })
  const store = async (gatewayId: string, from: number, count: number): Promise<void> => {
    for (let n = from; n < from + count; n += 1)
      await inbox.store(gatewayId, { eventId: `evt_${n}`, reference: 'in_1' })
    reactor.wake()
  }
  await store('gw_hangs', 0, 6)
  await until(() => calls.get('gw_hangs') === 6, { what: 'six that hang' })
  await store('gw_hangs', 6, 6)
  await until(() => calls.get('gw_hangs') === 8, { what: 'the two places that were free' })
  await store('gw_answers', 0, 12)
  await until(() => calls.get('gw_answers') === 12, { what: 'the other gateway' })
  assert.equal(calls.get('gw_hangs'), 8)
  answer.resolve(null)
  await until(() => calls.get('gw_hangs') === 12, { what: 'what waited for room' })
})
