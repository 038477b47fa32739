import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commands as financeCommands } from '../../../src/features/finance/commands.ts'
import { closingMicros } from '../../../src/features/finance/journal.ts'
import { createSum, replay } from '../../../src/features/finance/replay.ts'
import { decode } from '../../platform/projections/engine.ts'
import fc, { runs } from '../../support/fast-check.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { ledgerWorld } from './cli-world.ts'
import { balancesOf, foldLog, upTo } from './fold.ts'
import { moment, playInto, steps } from './support.ts'

test('invariant: a replay up to any moment is a fold of the entries that are dated up to it', async () => {
  await fc.assert(
    fc.asyncProperty(steps, moment, async (list, until) => {
      const log = createMemoryLog()
      await playInto(log, list)
      const head = await log.head()
      const all = await foldLog(log)
      const events = all.filter(({ position, at }) =>
        until.kind === 'position' ? position <= until.position : Date.parse(at) <= until.atMs,
      )
      const entries = upTo(all, until)
      const done = await replay({ log, decode, head, until })
      assert.equal(done.position, events.at(-1)?.position ?? 0)
      assert.equal(done.events, events.length)
      assert.equal(done.at, events.at(-1)?.at ?? null)
      assert.equal(done.entries, entries.filter(({ entry }) => entry !== null).length)
      const balances = done.sums
        .map((sums) => [`${sums.book} ${sums.account}`, closingMicros(sums)] as const)
        .filter(([, balance]) => balance !== 0n)
      assert.deepEqual(new Map(balances), balancesOf(entries))
    }),
    { numRuns: runs(60) },
  )
})

test('invariant: a sum of safe integers is exact, however large it grows', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.maxSafeNat(), fc.nat())), (values) => {
      const sum = createSum()
      for (const value of values) sum.add(value)
      assert.equal(
        sum.total(),
        values.reduce((total, value) => total + BigInt(value), 0n),
      )
    }),
  )
})

test('a replay equals the journal and needs none of its tables', async (t) => {
  const { run, pool, head } = await ledgerWorld(t, financeCommands)
  const balance = JSON.parse((await run('ledger', 'trial-balance', '--json')).out)
  await pool.query('drop schema read cascade')
  const { code, out } = await run('ledger', 'replay', '--json')
  assert.equal(code, 0)
  assert.deepEqual(JSON.parse(out), { events: head, entries: 5, ...balance })
  const wallet = await run('ledger', 'replay', '--account', 'acc_one', '--until', '2026-11-21T12:00:00Z')
  assert.match(wallet.out, /liabilities:wallet:acc_one +85\.00/)
  assert.doesNotMatch(wallet.out, /acc_two/)
})

for (const [what, args, message] of [
  ['a moment that is none', ['--until', 'soon'], /a position such as pos_0_1284/],
  ['a position past the end', ['--until', '999999'], /position pos_0_999999 is past the end/],
  ['a time to come', ['--until', '2026-12-25'], /2026-12-25T00:00:00.000Z is still to come/],
  [
    'an unknown account',
    ['--account', 'assets:nothing'],
    /no entry up to position pos_0_\d+ names assets:nothing/,
  ],
  ['an unknown book', ['--book', 'ours'], /no entry up to position pos_0_\d+ names the book ours/],
] as const)
  test(`wrong use of a replay exits with 2: ${what}`, async (t) => {
    const { run } = await ledgerWorld(t, financeCommands)
    const { code, err } = await run('ledger', 'replay', ...args)
    assert.equal(code, 2, err)
    assert.match(err, message)
  })
