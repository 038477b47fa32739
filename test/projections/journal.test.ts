import assert from 'node:assert/strict'
import { test } from 'node:test'
import { books } from '../../projections/groups.ts'
import { createEntryStream, type Entry } from '../../src/domain/finance/entries.ts'
import type { AccountId, CustomerId, OrderId } from '../../src/kernel/ids.ts'
import { rebuild } from '../../src/platform/projections/rebuild.ts'
import { playInto, steps } from '../features/finance/support.ts'
import { caughtUp, decode, startEngine } from '../platform/projections/engine.ts'
import fc, { runs } from '../support/fast-check.ts'
import { compareWithLog } from '../support/fold-compare.ts'
import { createMemoryLog } from '../support/memory-log.ts'
import { testDatabase } from '../support/postgres.ts'
import { accounts, type Step } from './steps.ts'

/** An order of 0 cents is an entry without legs. */
const soldForNothing: Step = (shop, n) =>
  shop.sellPlan('acc_two' as AccountId, 'cus_ada' as CustomerId, `ord_${n}` as OrderId, {
    amountCents: 0,
    costCents: 0,
  })

test('invariant: the journal books each money event in each book, and a rebuild books the same', async (t) => {
  const { pool } = await testDatabase(t)
  await fc.assert(
    fc.asyncProperty(steps, fc.integer({ min: 1, max: 40 }), async (list, maxBatch) => {
      await pool.query('drop schema read cascade; create schema read; truncate engine.checkpoints')
      const log = createMemoryLog()
      const group = { ...books, batchWindowMs: 1, maxBatch }
      const engine = await startEngine(t, pool, log, [group], { maxRows: 3 })
      await playInto(log, list)
      await caughtUp(engine, log)
      const { differences } = await compareWithLog(pool, log, { groups: [group] })
      assert.deepEqual(differences, [])
      const entries = createEntryStream()
      const expected = (await log.readAll(0, 100_000))
        .map((stored) => entries.next(decode(stored)))
        .filter((entry): entry is Entry => entry !== null)
      const { rows } = await pool.query<{ position: number; at: string; postings: string }>(
        `select e.position, e.at,
           coalesce(string_agg(book || ' ' || account || ' ' || amount_micros, ',' order by leg), '') as postings
         from read.journal_entries e left join read.journal_postings p using (position)
           left join read.journal_accounts a on a.number = p.account_number group by 1, 2 order by 1`,
      )
      assert.deepEqual(
        rows.map(({ position, at, postings }) => [position, at, postings]),
        expected.map(({ position, at, postings }) => [
          position,
          at,
          postings
            .map((each) => `${each.book} ${each.account} ${each.debitMicros - each.creditMicros}`)
            .join(','),
        ]),
      )
      const [result] = await rebuild({ pool, log, decode, groups: [group] }, 'all', { compareOnly: true })
      assert.deepEqual(result?.differences, [])
      await engine.stop()
    }),
    { numRuns: runs(12), examples: [[[soldForNothing], 1]] },
  )
})

test('accounting time never goes back, for any clocks of the writers', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 1e9 }), { minLength: 1 }), (times) => {
      const entries = createEntryStream()
      let latest = 0
      for (const [index, ms] of times.entries()) {
        latest = Math.max(latest, ms)
        const entry = entries.next({
          type: 'WalletCredited',
          data: {
            source: 'manual',
            reference: 'r',
            gateway: 'manual',
            depositId: null,
            orderId: null,
            family: null,
            amountMicros: 1,
            receivableMicros: 0,
            availableAfterMicros: 1,
          },
          id: `${index}`,
          stream: `ledger-${accounts[0]}` as never,
          revision: index,
          position: index + 1,
          metadata: {
            correlationId: 'c',
            causationId: null,
            actor: { kind: 'system', name: 'test' },
            recordedAt: new Date(ms).toISOString(),
          },
        })
        assert.equal(entry?.at, new Date(latest).toISOString())
      }
      assert.equal(entries.time?.at, new Date(latest).toISOString())
    }),
  )
})
