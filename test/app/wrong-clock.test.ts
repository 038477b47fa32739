import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createResults } from '../../src/features/scrapers/stored-results.ts'
import { LogUnavailable } from '../../src/platform/eventstore/errors.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'

const dayMs = 86_400_000

test("with a clock that is a month ahead nothing is delayed, deleted or appended early: all times are Postgres's", async (t) => {
  const clock = { aheadMs: 0 }
  const app = await testApp(t, {
    own: true,
    settings: { FAREBOX_DEPOSIT_LOOK_MS: '1000' },
    systemClock: () => Date.now() + clock.aheadMs,
  })
  const { core } = app
  const { pool, clockGuard } = core
  const { key } = await app.customer({ cents: 10_000 })
  const opened = await app.client.post('/api/v1/deposits', { amount_cents: 2_000 }, { key })
  assert.equal(opened.status, 200, opened.text)
  await pool.query(
    `insert into work.scrape_results (scrape_id, attempt, outcome, cached, credits_charged, hash, bytes, packing, body, expires_at)
     select 'scr_' || n, 1, 'found', false, 0, 'h', 0, 'none', '', clock_timestamp() + interval '1 day' from generate_series(1, 3) n`,
  )
  const results = createResults({ ...core, isLogHere: core.isLogInPostgres })
  const polls = async () =>
    (
      await pool.query<{ polls: number; late: number }>(
        `select sum(attempts)::integer as polls,
              count(*) filter (where due_at > clock_timestamp() + interval '1 hour')::integer as late
         from work.deposit_looks`,
      )
    ).rows[0]!
  await until(async () => (await polls()).polls > 0, { what: 'a first poll' })

  clock.aheadMs = 31 * dayMs
  assert.ok(Math.abs(core.clock() - Date.now()) < 2_000, 'before it was compared')
  assert.match(clockGuard.problem() ?? '', /leapt/)
  await clockGuard.check()
  assert.match(clockGuard.problem() ?? '', /ahead of Postgres's/)
  assert.ok(Math.abs(core.clock() - Date.now()) < 2_000)
  const head = await core.log.head()
  await assert.rejects(
    core.log.append('order-none' as never, 'noStream', [
      { id: '01890a5d-ac96-774b-bcce-b302099a8057', type: 'Tried', data: '{}', metadata: '{}' },
    ]),
    LogUnavailable,
  )
  assert.equal(
    (await app.client.post('/api/v1/orders', { product_id: 'residential-premium', quantity: 1 }, { key }))
      .status,
    503,
  )
  await results.forget()
  const { polls: before } = await polls()
  await new Promise((resolve) => setTimeout(resolve, 2_000))
  const meanwhile = await polls()
  assert.deepEqual([meanwhile.polls - before <= 1, meanwhile.late], [true, 0])
  assert.equal(await core.log.head(), head)
  assert.equal((await pool.query('select from work.scrape_results')).rowCount, 3)

  clock.aheadMs = 0
  await clockGuard.check()
  await until(async () => (await polls()).polls > meanwhile.polls, { what: 'the next poll' })
})
