import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { startCallbackReactor } from '../../src/money/deposits/take-callbacks.ts'
import { createInbox } from '../../src/money/payments/inbox.ts'
import { testDatabase } from '../support/postgres.ts'
import { until } from '../support/until.ts'

test('callbacks that were done a month ago are forgotten, what waits is kept for ever', async (t) => {
  const { pool } = await testDatabase(t)
  const inbox = createInbox(pool)
  for (const eventId of ['old', 'new', 'waits']) await inbox.store('gw_1', { eventId, reference: 'in_1' })
  const age = (eventId: string, column: string, days: number) =>
    pool.query(
      `update work.gateway_inbox set ${column} = clock_timestamp() - make_interval(days => $2::int) where event_id = $1`,
      [eventId, days],
    )
  await age('old', 'done_at', 31)
  await age('new', 'done_at', 29)
  await age('waits', 'received_at', 365)
  await age('waits', 'next_at', -1)
  const kept = async () =>
    (await pool.query('select event_id from work.gateway_inbox order by 1')).rows.map((row) => row.event_id)
  const reactor = startCallbackReactor({
    inbox,
    logger: pino({ level: 'silent' }),
    sweepMs: 10,
  } as never)
  t.after(() => reactor.stop())
  await until(async () => !(await kept()).includes('old'), { what: 'the old callback to be gone' })
  assert.deepEqual(await kept(), ['new', 'waits'])
})

test('what a gateway has under way counts against its share, and what others have does not', async (t) => {
  const { pool } = await testDatabase(t)
  const inbox = createInbox(pool)
  for (let n = 0; n < 12; n += 1)
    for (const gatewayId of ['gw_hangs', 'gw_full', 'gw_answers'])
      await inbox.store(gatewayId, { eventId: `evt_${n}`, reference: 'in_1' })
  const underWay = new Map([
    ['gw_hangs', 6],
    ['gw_full', 8],
  ])
  const claimed = async (total: number) => {
    const entries = await inbox.claim({ total, each: 8, underWay })
    return Object.fromEntries(
      Map.groupBy(entries, ({ gatewayId }) => gatewayId)
        .entries()
        .map(([gatewayId, { length }]) => [gatewayId, length]),
    )
  }
  assert.deepEqual(await claimed(64), { gw_hangs: 2, gw_answers: 8 })
  assert.deepEqual(await claimed(3), { gw_hangs: 2, gw_answers: 1 }, 'the oldest of each, and so many in all')
})
