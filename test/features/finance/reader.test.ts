import assert from 'node:assert/strict'
import { test } from 'node:test'
import { books } from '../../../projections/groups.ts'
import type { Moment } from '../../../src/features/finance/input-forms.ts'
import { closingMicros, type LinesPage, type StatementLine } from '../../../src/features/finance/journal.ts'
import { createMoments } from '../../../src/features/finance/moment.ts'
import { createFinanceReader } from '../../../src/features/finance/reader.ts'
import { checkReplay } from '../../../src/features/finance/replay.ts'
import { totalsOfBook } from '../../../src/features/finance/trial-balance.ts'
import { utcCalendar } from '../../../src/kernel/calendar.ts'
import { createKysely } from '../../../src/platform/postgres/kysely.ts'
import { caughtUp, decode, startEngine } from '../../platform/projections/engine.ts'
import type { Step } from '../../projections/steps.ts'
import { declaredKinds } from '../../support/event-kinds.ts'
import fc, { runs } from '../../support/fast-check.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { testDatabase } from '../../support/postgres.ts'
import { balancesOf, type FoldedEvent, foldLog, upTo } from './fold.ts'
import { datedBack, datedBackMoments, moment, moneyKindsOf, playInto, steps } from './support.ts'

test('the properties below cover money of every kind', async () => {
  const seen = new Set<string>()
  for (const list of fc.sample(steps, { numRuns: 60, seed: 20_261_121 })) {
    const log = createMemoryLog()
    await playInto(log, list)
    for (const kind of await moneyKindsOf(log)) seen.add(kind)
  }
  assert.deepEqual([...seen].sort(), [...declaredKinds('src/domain/ledger/events.ts')].sort())
})

test('invariant: as of any position or time each book sums to zero, equals a fold of the log, and has its totals at any depth', async (t) => {
  const { pool } = await testDatabase(t)
  const db = createKysely(pool)
  const none = { book: null, depth: null }
  await fc.assert(
    fc.asyncProperty(steps, fc.array(moment, { minLength: 8, maxLength: 8 }), async (list, instants) => {
      await pool.query('drop schema read cascade; create schema read; truncate engine.checkpoints')
      const log = createMemoryLog()
      const engine = await startEngine(t, pool, log, [{ ...books, batchWindowMs: 1 }])
      await playInto(log, list)
      await caughtUp(engine, log)
      await engine.stop()
      const events = await foldLog(log)
      const head = events.length
      const reader = createFinanceReader({
        db,
        log,
        calendar: utcCalendar,
        moments: createMoments({ db, log, calendar: utcCalendar, clock: () => Number.POSITIVE_INFINITY }),
      })
      for (const given of instants) {
        const asOf = given.kind === 'time' ? given : { ...given, position: given.position % (head + 1) }
        const last = events.findLast(({ position, at }) =>
          asOf.kind === 'position' ? position <= asOf.position : Date.parse(at) <= asOf.atMs,
        )
        const until = upTo(events, asOf)
        const { span, books: found } = await reader.trialBalance({ asOf }, head, none)
        assert.equal(span.position, last?.position ?? 0)
        assert.equal(span.at, last?.at ?? null)
        const { differences } = await checkReplay(db, { log, decode, head, until: asOf })
        assert.deepEqual(differences, [])
        for (const { accounts } of found)
          assert.equal(
            accounts.reduce((sum, each) => sum + closingMicros(each), 0n),
            0n,
          )
        const lines = found.flatMap(({ accounts }) => accounts)
        const balances = lines.map((sums) => [`${sums.book} ${sums.account}`, closingMicros(sums)] as const)
        assert.deepEqual(new Map(balances.filter(([, balance]) => balance !== 0n)), balancesOf(until))
        // Also of accounts that are at zero again, whose lines are there.
        const legs = until.flatMap(({ entry }) => entry?.postings ?? [])
        assert.deepEqual(
          new Set(lines.map(({ book, account }) => `${book} ${account}`)),
          new Set(legs.map(({ book, account }) => `${book} ${account}`)),
        )
        for (const depth of [null, 1, 2]) {
          const { books: cut } = await reader.trialBalance({ asOf }, head, { book: null, depth })
          for (const { book, accounts } of cut) {
            const debitMicros = legs
              .filter((leg) => leg.book === book)
              .reduce((sum, leg) => sum + BigInt(leg.debitMicros), 0n)
            const totals = { openingMicros: 0n, debitMicros, creditMicros: debitMicros }
            assert.deepEqual(totalsOfBook(accounts), totals, `${book} at depth ${depth}`)
          }
        }
      }
    }),
    { numRuns: runs(10), examples: [[[...datedBack], [...datedBackMoments]]] },
  )
})

test('invariant: over any range opening plus movements is closing, and pages of a statement are its lines', async (t) => {
  const { pool } = await testDatabase(t)
  const db = createKysely(pool)
  await fc.assert(
    fc.asyncProperty(
      steps,
      moment,
      moment,
      fc.integer({ min: 1, max: 7 }),
      async (list, one, other, limit) => {
        await pool.query('drop schema read cascade; create schema read; truncate engine.checkpoints')
        const log = createMemoryLog()
        const engine = await startEngine(t, pool, log, [{ ...books, batchWindowMs: 1 }])
        await playInto(log, list)
        await caughtUp(engine, log)
        await engine.stop()
        const events = await foldLog(log)
        const head = events.length
        const inLog = (given: Moment): Moment =>
          given.kind === 'time' ? given : { ...given, position: given.position % (head + 1) }
        const [from, to] = [inLog(one), inLog(other)]
        const reader = createFinanceReader({
          db,
          log,
          calendar: utcCalendar,
          moments: createMoments({ db, log, calendar: utcCalendar, clock: () => Number.POSITIVE_INFINITY }),
        })
        const before = (end: Moment): Moment =>
          end.kind === 'position' ? { ...end, position: end.position - 1 } : { ...end, atMs: end.atMs - 1 }
        const lastOf = (end: Moment): number =>
          events.findLast(({ position, at }) =>
            end.kind === 'position' ? position <= end.position : Date.parse(at) <= end.atMs,
          )?.position ?? 0
        const [start, end] = [before(from), before(to)]
        const position = Math.max(lastOf(start), lastOf(end))
        const opening = new Set(upTo(events, start, end.kind === 'position' ? position : head))
        const dated = new Set(upTo(events, end))
        const until = events.filter((event) => event.position <= position || dated.has(event))
        const account = 'assets:gateway:manual'
        const filter = { book: 'service', account, below: false }
        const legs = (some: readonly FoldedEvent[]) =>
          some.flatMap(({ position: at, entry }) =>
            (entry?.postings ?? [])
              .filter((leg) => leg.book === 'service' && leg.account === account)
              .map((leg) => ({ position: at, amount: BigInt(leg.debitMicros) - BigInt(leg.creditMicros) })),
          )
        let balance = legs(until.filter((event) => opening.has(event))).reduce(
          (sum, { amount }) => sum + amount,
          0n,
        )
        const expected = legs(until.filter((event) => !opening.has(event))).map((line) => {
          balance += line.amount
          return { ...line, balance }
        })
        const lines = []
        for (let offset = 0; ; offset += limit) {
          const page = await reader.statement({ from, to }, head, filter, { limit, offset })
          assert.equal(page.totals.lines, expected.length)
          assert.equal(closingMicros(page.totals), balance)
          if (page.lines.length === 0) break
          lines.push(...page.lines)
        }
        assert.deepEqual(
          lines.map(({ position, amountMicros, balanceMicros }) => ({
            position,
            amount: amountMicros,
            balance: balanceMicros,
          })),
          expected,
        )
        const pagesFrom = async (next: (position: number | null) => LinesPage) => {
          const found: StatementLine[] = []
          for (;;) {
            const { lines: more } = await reader.statement(
              { from, to },
              head,
              filter,
              next(found.at(-1)?.position ?? null),
            )
            if (more.length === 0) break
            found.push(...more)
          }
          return found.map(({ position: at, amountMicros, balanceMicros }) => ({
            position: at,
            amount: amountMicros,
            balance: balanceMicros,
          }))
        }
        assert.deepEqual(await pagesFrom((before) => ({ limit, before })), expected.toReversed())
        assert.deepEqual(await pagesFrom((after) => ({ limit, after: after ?? 0 })), expected)
        const { books: ranged } = await reader.trialBalance({ from, to }, head, { book: null, depth: 2 })
        for (const { accounts } of ranged)
          for (const side of ['openingMicros', 'debitMicros', 'creditMicros'] as const) {
            const sum = accounts.reduce((total, each) => total + each[side], 0n)
            if (side === 'openingMicros') assert.equal(sum, 0n)
            else
              assert.equal(
                sum,
                accounts.reduce((total, each) => total + each.debitMicros, 0n),
              )
          }
      },
    ),
    {
      numRuns: runs(10),
      examples: datedBackMoments.flatMap((from, n) =>
        datedBackMoments
          .slice(n)
          .map((to) => [[...datedBack], from, to, 2] as [Step[], Moment, Moment, number]),
      ),
    },
  )
})
