import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createScrapeRate } from '../../../src/features/scrapers/call-rate.ts'
import { createPool } from '../../../src/platform/postgres/pool.ts'
import { machineMs } from '../../support/machine-time.ts'
import { testDatabase } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'

/** As slow as it gets, so that what time brings back does not matter. */
const slow = { burst: 100, perSecond: 1 }

test('a hundred simultaneous calls over two processes are accepted, the next one waits the returned time', async (t) => {
  const { url, pool } = await testDatabase(t)
  const other = createPool({ url, applicationName: 'farebox-test' })
  t.after(() => other.end())
  const processes = [createScrapeRate(pool, slow), createScrapeRate(other, slow)]
  const startMs = performance.now()
  const taken = await Promise.all(Array.from({ length: 120 }, (_, n) => processes[n % 2]!.take('acc_one')))
  const tookS = (performance.now() - startMs) / 1000
  const waits = taken.map(({ waitS }) => waitS)
  const passed = waits.filter((waitS) => waitS === 0).length
  assert.ok(passed >= 100 && passed <= 100 + Math.ceil(tookS), `${passed} passed in ${tookS} s`)
  for (const waitS of waits) assert.ok(waitS === 0 || (waitS > 0 && waitS <= 1), `${waitS}`)
  // Another account has its own bucket.
  const { waitS, remaining } = await processes[0]!.take('acc_two')
  assert.deepEqual({ waitS, remaining }, { waitS: 0, remaining: 99 })
})

test('a caller that waits the returned time is accepted, and an earlier one is not', async (t) => {
  const { pool } = await testDatabase(t)
  const { take } = createScrapeRate(pool, { burst: 1, perSecond: 2 })
  const [startMs, requestedMs] = [performance.now(), machineMs()]
  // Of one statement, so that no time passes between them.
  const [first, { waitS, remaining, fullAfterS }] = await Promise.all([take('acc_one'), take('acc_one')])
  assert.equal(first.waitS, 0)
  assert.equal(remaining, 0)
  assert.ok(fullAfterS > 0.3 && fullAfterS <= 0.5, `${fullAfterS}`)
  assert.ok(waitS > 0.3 && waitS <= 0.5, `${waitS}`)
  await until(async () => (await take('acc_one')).waitS === 0)
  // Refusals took nothing: it was accepted at the returned time, to the precision of one attempt.
  const waitedS = (performance.now() - startMs) / 1000
  const quickS = (machineMs() - requestedMs) / 1000
  assert.ok(waitedS >= waitS - 0.05 && quickS < waitS + 0.3, `announced ${waitS} s, waited ${waitedS} s`)
})

test('a bucket with a last use in the future counts as full, no more', async (t) => {
  const { pool } = await testDatabase(t)
  const { take } = createScrapeRate(pool, { burst: 10, perSecond: 1_000 })
  await pool.query(
    `insert into work.scrape_rates (account_id, full_at, taken)
     values ('acc_one', (extract(epoch from clock_timestamp()) * 1000 * 1000)::bigint + 1000000000000, 0)`,
  )
  const { waitS } = await take('acc_one')
  assert.ok(waitS <= 0.011, `${waitS}`)
})
