import assert from 'node:assert/strict'
import { createHash, hash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { test } from 'node:test'
import { approvalLimitsRef } from '../../../src/domain/ledger/approvals.ts'
import { createProposals } from '../../../src/features/approvals/approval-service.ts'
import { closingMicros } from '../../../src/features/finance/journal.ts'
import { createMoments } from '../../../src/features/finance/moment.ts'
import { digestedText } from '../../../src/features/finance/period-report.ts'
import { createPeriods } from '../../../src/features/finance/period-service.ts'
import { createFinanceReader } from '../../../src/features/finance/reader.ts'
import { utcCalendar } from '../../../src/kernel/calendar.ts'
import { positionToken } from '../../../src/kernel/log-position.ts'
import type { Period } from '../../../src/kernel/months.ts'
import { approvalLimitsStream } from '../../../src/kernel/streams.ts'
import type { CommandRunner } from '../../../src/platform/commands/command.ts'
import { createCodec } from '../../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { createKysely } from '../../../src/platform/postgres/kysely.ts'
import type { Shop } from '../../projections/shop.ts'

import { agreeing, clock, heading, november, one, payoutHeading, wait, world } from './world.ts'

const createApprovals = (runner: CommandRunner, log: EventLog) => ({
  proposals: createProposals({
    runner,
    log,
    db: undefined as never, // these proposals refund no deposit
    ownGatewayIds: [],
    settleTraffic: async () => undefined,
  }),
  carol: { actor: { kind: 'operator', name: 'carol' }, correlationId: 'run_approve' } as const,
})

/** The same answer as if the lines had been posted before. */
const postedBefore = (said: { posting: object }) => ({ ...said, posting: { ...said.posting, now: null } })

test('statements that agree with the books, with fees and payouts', async (t) => {
  const { file, run, json } = await world(t)
  const balance = await file(agreeing)
  const payouts = await file([
    payoutHeading,
    'po_1,2026-11-25 00:00:00,usd,txn_6,-20.00,0.25,-20.25,payout',
    'po_2,2026-11-26 00:00:00,usd,txn_7,-5.00,0.00,-5.00,payout',
    'po_2,2026-11-27 00:00:00,usd,txn_8,5.00,0.00,5.00,payout_reversal',
    'po_3,2026-12-02 00:00:00,usd,txn_9,-5.00,0.00,-5.00,payout',
  ])
  const { code, out } = await run(...november, '--file', balance, '--file', payouts)
  assert.equal(
    out.replace(/LINE +ENTRY/, 'LINE     ENTRY'),
    `assets:gateway:stripe in the book service, from 2026-11-01T00:00:00.000Z to 2026-12-01T00:00:00.000Z, US dollars
1.csv: balance change from activity (itemised), 5 lines
2.csv: payouts (itemised), 4 lines

WHAT                KIND             CURRENCY  LINES   THERE   FEES    HERE
matched             dispute          USD           1  -25.00  15.00  -25.00
matched             payment          USD           3   75.00   3.08   75.00
the provider's own  fee              USD           1   -0.30   0.00       -
the provider's own  payout           USD           2  -25.00   0.25       -
the provider's own  payout reversal  USD           1    5.00   0.00       -
outside the time    payout           USD           1   -5.00   0.00       -

there USD: fees 18.63, paid out 20.00, the balance moved by 11.37
of these lines the books have USD: 50.00
fees and payouts: 8 lines to book, 0 in the books
the account here, in this time: 0.00 before, moved by 50.00, 50.00 after

KIND             WORD             AMOUNT   FEE  CURRENCY  AT                        ID THERE  LINE
fee              fee               -0.30  0.00  USD       2026-11-23T03:00:00.000Z  txn_5     1.csv:6
payout           payout           -20.00  0.25  USD       2026-11-25T00:00:00.000Z  txn_6     2.csv:2
payout           payout            -5.00  0.00  USD       2026-11-26T00:00:00.000Z  txn_7     2.csv:3
payout reversal  payout_reversal    5.00  0.00  USD       2026-11-27T00:00:00.000Z  txn_8     2.csv:4

WHAT        KIND              THERE  HERE  CURRENCY  AT                        ID THERE  LINE     ENTRY HERE
not booked  fee               -1.03  -     USD       2026-11-21T02:29:00.000Z  txn_1     1.csv:2  -
not booked  fee               -0.59  -     USD       2026-11-21T02:29:30.000Z  txn_2     1.csv:3  -
not booked  fee              -15.00  -     USD       2026-11-23T01:00:00.000Z  txn_3     1.csv:4  -
not booked  fee               -1.46  -     USD       2026-11-23T01:00:00.000Z  txn_4     1.csv:5  -
not booked  fee               -0.30  -     USD       2026-11-23T03:00:00.000Z  txn_5     1.csv:6  -
not booked  payout           -20.25  -     USD       2026-11-25T00:00:00.000Z  txn_6     2.csv:2  -
not booked  payout            -5.00  -     USD       2026-11-26T00:00:00.000Z  txn_7     2.csv:3  -
not booked  payout reversal    5.00  -     USD       2026-11-27T00:00:00.000Z  txn_8     2.csv:4  -

8 differences; --post books a fee or a payout
not compared: the opening balance: give --opening; the closing balance: give --closing`,
  )
  assert.equal(code, 1)

  const { said } = await json(...november, '--file', balance, '--file', payouts)
  assert.deepEqual([said.agrees, said.counts.not_booked], [false, 8])
  assert.deepEqual(said.totals, [
    { currency: 'usd', feeMicros: '18630000', payoutMicros: '20000000', netMicros: '11370000' },
  ])
  assert.deepEqual(said.accountBalance, {
    openingMicros: '0',
    movedMicros: '50000000',
    closingMicros: '50000000',
  })

  // Payouts alone do not say that a payment is missing: the answer says so.
  const alone = await json(...november, '--file', payouts)
  assert.deepEqual([alone.said.counts.missing_there, alone.said.counts.not_booked], [0, 3])
  assert.deepEqual(alone.said.unchecked, ['payments', 'fees', 'opening_balance', 'closing_balance'])
})

test('fees and payouts are posted once, and the account then moved as the balance did', async (t) => {
  const { pool, log, file, run, json } = await world(t)
  const payouts = [
    payoutHeading,
    'po_1,2026-11-25 00:00:00,usd,txn_6,-20.00,0.25,-20.25,payout',
    'po_2,2026-11-26 00:00:00,usd,txn_7,-5.00,0.00,-5.00,payout',
    'po_2,2026-11-27 00:00:00,usd,txn_8,5.00,0.00,5.00,payout_reversal',
    'po_3,2026-12-02 00:00:00,usd,txn_9,-5.00,0.00,-5.00,payout',
  ]
  const files = ['--file', await file(agreeing), '--file', await file(payouts)]
  const lines = async () => (await log.readAll(0, 1_000)).filter(({ type }) => type === 'StatementLineBooked')

  // A file that is refused posts nothing of the one before it.
  const broken = await file([...payouts, 'po_4,never,usd,txn_10,-5.00,0.00,-5.00,payout'])
  assert.equal((await run(...november, ...files.slice(0, 2), '--file', broken, '--post')).code, 2)
  assert.deepEqual(await lines(), [])

  const first = await json(...november, ...files, '--post')
  assert.equal(first.code, 0)
  assert.deepEqual(first.said.posting, {
    lines: 8,
    feeMicros: '18630000',
    payoutMicros: '20000000',
    inTheBooks: 8,
    atOtherTimes: 0,
    atOtherTimesMicros: '0',
    unmatchedFees: 0,
    unmatchedFeesMicros: '0',
    now: { booked: 8, proposalId: null },
  })
  assert.equal(first.said.bookedMicros, '11370000')
  assert.equal(first.said.totals[0].netMicros, first.said.bookedMicros)
  assert.equal((await lines()).length, 8)

  const again = await json(...november, ...files, '--post')
  assert.deepEqual(again.said.posting.now, { booked: 0, proposalId: null })
  assert.deepEqual(postedBefore(again.said), postedBefore(first.said))
  assert.equal((await lines()).length, 8)

  const { rows } = await pool.query(
    `select account, sum(amount_micros)::text as micros from read.journal_postings
       join read.journal_accounts on number = account_number join read.journal_entries using (position)
      where type = 'StatementLineBooked' and account_id is null and book = 'service' group by account order by account`,
  )
  assert.deepEqual(rows, [
    { account: 'assets:bank', micros: '20000000' },
    { account: 'assets:gateway:stripe', micros: '-38630000' },
    { account: 'expenses:gateway-fees:stripe', micros: '18630000' },
  ])

  // The booking stays: a report with other figures of the same line is a difference.
  const changed = await file([payoutHeading, 'po_1,2026-11-25 00:00:00,usd,txn_6,-21.00,0.25,-21.25,payout'])
  const other = await json(...november, '--file', changed, '--post')
  assert.deepEqual([other.code, other.said.counts.other_fee, other.said.posting.now.booked], [1, 1, 0])
  assert.equal((await lines()).length, 8)
  const { out } = await run(...november, '--file', changed)
  assert.match(
    out,
    /^other fee or payout +payout +-21\.25 +-20\.25 +USD .* txn_6 +4\.csv:2 +pos_0_\d+ txn_6$/m,
  )

  const refused = await run(
    '--gateway',
    'crd_ada',
    '--provider',
    'stripe',
    '--file',
    await file(agreeing),
    '--post',
  )
  assert.equal(refused.code, 2)
  assert.match(
    refused.err,
    /--post books fees and payouts of the service's own gateways; crd_ada is a gateway of/,
  )
})

test('fees and payouts that no line has are found, and a correction books the difference', async (t) => {
  const { log, file, finance, run, json } = await world(t)
  const wrong = await file([
    ...agreeing.with(1, 'txn_1,2026-11-21 02:29:00,usd,25.00,9.99,15.01,charge,ch_1,dep_1'),
    'txn_6,2026-11-24 01:00:00,usd,-7.00,0.00,-7.00,fee,,',
    'txn_7,2026-11-24 01:00:00,usd,8.00,0.50,7.50,charge,ch_8,',
  ])
  const wrongPayouts = await file([
    payoutHeading,
    'po_9,2026-11-25 00:00:00,usd,txn_9,-30.00,0.00,-30.00,payout',
  ])
  const posted = await json(...november, '--file', wrong, '--file', wrongPayouts, '--post')
  // The fee of a payment that the books do not have is not booked, and the answer says so.
  assert.deepEqual(
    [posted.said.posting.lines, posted.said.posting.unmatchedFees, posted.said.posting.unmatchedFeesMicros],
    [7, 1, '500000'],
  )

  const files = ['--file', await file(agreeing), '--file', await file([payoutHeading])]
  const found = await json(...november, ...files)
  assert.equal(found.code, 1)
  type Row = Record<string, string>
  const named = found.said.differences.map((each: Row) => [
    each.class,
    each.kind,
    each.reference,
    each.thereMicros,
    each.hereMicros,
  ])
  assert.deepEqual(named, [
    ['missing_there', 'fee', 'txn_6', null, '-7000000'],
    ['missing_there', 'payout', 'txn_9', null, '-30000000'],
    ['other_fee', 'fee', 'txn_1', '-1030000', '-9990000'],
  ])
  // Without the payouts, the booked payout is not compared.
  const balanceOnly = await json(...november, ...files.slice(0, 2))
  assert.deepEqual([balanceOnly.said.counts.missing_there, balanceOnly.said.unchecked[0]], [1, 'payouts'])
  // An entry of another month is not compared with the statement of this one.
  const december = ['--gateway', 'stripe', '--from', '2026-12-01'] as const
  assert.equal((await json(...december, ...files)).said.counts.missing_there, 2) // dep_4, and the dispute that was won

  const [fee, payout, amount] = found.said.differences.map(({ position }: Row) => position)
  const why = ['--reason', 'a wrong file']
  assert.match(
    (await finance('correct', amount, '--fee', '1.03', ...why)).out,
    /^corrected txn_1 of stripe: the fee by -8\.96, the payout by 0\.00$/,
  )
  await finance('correct', fee, '--fee', '0', ...why)
  await finance('correct', payout, '--fee', '0', '--payout', '0', ...why)
  assert.equal((await finance('correct', amount, '--fee', '1.03', ...why)).out, 'unchanged')
  const corrections = (await log.readAll(0, 1_000)).filter(({ type }) => type === 'StatementLineCorrected')
  assert.equal(corrections.length, 3)
  const after = await run(...november, ...files)
  assert.deepEqual([after.code, /^everything that was compared agrees$/m.test(after.out)], [0, true])

  const notBooked = await finance('correct', 'pos_0_1', '--fee', '1', ...why)
  assert.match(notBooked.err, /no fee and no payout is booked at pos_0_1/)
  assert.match((await finance('correct', amount, ...why)).err, /give the right --fee, --payout or both/)
})

test('what a file posts counts together, and above the limit another operator approves exactly its lines', async (t) => {
  const { log, file, finance, run, json, runner } = await world(t)
  const from = '2026-11-20T00:00:00.000Z'
  const cause = { actor: { kind: 'operator', name: 'test' }, correlationId: 'run_limit' } as const
  await runner.run({
    name: 'test-limit',
    streams: { fourEyes: approvalLimitsRef },
    decide: () => ({
      appends: [
        {
          stream: approvalLimitsStream,
          events: [{ type: 'FourEyesSet', data: { limitCents: 2_000, from, proposalId: null } }],
        },
      ],
      answer: null,
    }),
    ...cause,
  })
  const booked = async () =>
    (await log.readAll(0, 1_000)).filter(({ type }) => type === 'StatementLineBooked')
  // No payout is above 20.00. Together they are.
  const payouts = [
    payoutHeading,
    'po_1,2026-11-25 00:00:00,usd,txn_6,-15.00,0.00,-15.00,payout',
    'po_2,2026-11-26 00:00:00,usd,txn_7,-15.00,0.00,-15.00,payout',
  ]
  const path = await file(payouts)
  const first = await json(...november, '--file', path, '--post')
  assert.deepEqual([first.code, await booked()], [1, []])
  const { proposals, carol } = createApprovals(runner, log)
  // Declined lines stay declined, with who and why; another file is another proposal.
  const declined = first.said.posting.now.proposalId
  await proposals.close(declined, { reason: 'declined', note: 'ask the bank' }, carol)
  const repeated = await run(...november, '--file', path, '--post')
  assert.equal(repeated.code, 1)
  assert.match(
    repeated.err,
    new RegExp(`operator:carol declined it as ${declined} \\("ask the bank"\\); a changed file, or a part`),
  )
  await writeFile(path, `${payouts.join('\n')}\n\n`)
  const { proposalId } = (await json(...november, '--file', path, '--post')).said.posting.now
  assert.notEqual(proposalId, declined)
  const again = await run(...november, '--file', path, '--post')
  assert.match(again.out, new RegExp(`proposed as ${proposalId} of operator:test; another operator runs`))

  assert.deepEqual(await proposals.approve(proposalId, cause), {
    outcome: 'refused',
    refusal: { code: 'own_proposal' },
  })
  assert.deepEqual(await proposals.approve(proposalId, carol), { of: 'statement', lines: 2 })
  // Another approval books nothing more.
  assert.deepEqual(await proposals.approve(proposalId, carol), { of: 'statement', lines: 0 })
  const sha256 = createHash('sha256')
    .update(`${payouts.join('\n')}\n\n`)
    .digest('hex')
  const lines = (await booked()).map(({ data }) => JSON.parse(data))
  assert.deepEqual(
    lines.map(({ reference, proposalId: by, file: from }) => [reference, by, from.sha256]),
    [
      ['txn_6', proposalId, sha256],
      ['txn_7', proposalId, sha256],
    ],
  )
  assert.equal((await run(...november, '--file', path)).code, 0)

  // A correction counts in the same way.
  const position = `pos_0_${(await booked())[0]?.position}`
  const alone = await finance('correct', position, '--payout', '-10', '--reason', 'a wrong file')
  assert.match(alone.err, /was proposed as prp_/)
  const [, id = ''] = /(prp_\w+)/.exec(alone.err) ?? []
  await proposals.close(id, { reason: 'declined', note: null }, carol)
  const correct = (payout: string) => finance('correct', position, '--payout', payout, '--reason', 'no doubt')
  assert.match((await correct('-10')).err, /operator:carol declined it as \S+; other amounts may be proposed/)
  assert.match((await correct('-11')).err, /was proposed as prp_/)
  const approved = await proposals.approve(id, carol)
  assert.equal('of' in approved && approved.of, 'statement_correction')
  assert.match(
    (await run(...november, '--file', path)).out,
    /^other fee or payout +payout +-15\.00 +11\.00 /m,
  )
})

test('the balances of the statement are compared with its lines and the books', async (t) => {
  const { file, run, json } = await world(t)
  // dep_4 came on 3 December here, on 30 November there.
  const balance = await file([...agreeing, 'txn_8,2026-11-30 23:59:59,usd,7.00,0.00,7.00,charge,ch_4,dep_4'])
  const payouts = await file([payoutHeading, 'po_1,2026-11-25 00:00:00,usd,txn_6,-20.00,0.25,-20.25,payout'])
  const files = ['--file', balance, '--file', payouts]
  // 75 + 7 - 25 - 0.30 - 3.08 - 15 - 20.25
  const right = ['--opening', '0', '--closing', '18.37']
  const before = await json(...november, ...files, ...right)
  assert.deepEqual(
    [before.code, before.said.balance],
    [
      1,
      {
        openingMicros: '0',
        openingHereMicros: '0',
        openingDifferenceMicros: '0',
        rowsMicros: '18370000',
        closingMicros: '18370000',
        missingRowsMicros: '0',
        hereMicros: '57000000',
        differenceMicros: '-38630000',
      },
    ],
  )
  assert.match((await run(...november, ...files, ...right)).out, /a difference of -38\.63$/m)

  const posted = await run(...november, ...files, ...right, '--post')
  assert.deepEqual([posted.code, /^everything agrees$/m.test(posted.out)], [0, true])
  assert.match(posted.out, /: 0\.00 before, moved by 11\.37, 11\.37 after$/m)

  const lacking = await run(...november, ...files, '--opening', '5.00', '--closing', '18.37')
  assert.deepEqual([lacking.code, /its lines lack -5\.00$/m.test(lacking.out)], [1, true])
  assert.match(lacking.out, /^the balances differ$/m)

  // The opening balance alone is compared with the books, by the dates of the statement.
  const opened = await run(...november, ...files, '--opening', '5.00')
  assert.equal(opened.code, 1)
  assert.match(opened.out, /^the opening balance: 5\.00 there, 0\.00 here by .*, a difference of 5\.00$/m)
  const december = ['--gateway', 'stripe', '--from', '2026-12-01', ...files] as const
  // dep_4 is in the opening balance, although it was booked in December.
  assert.match(
    (await run(...december, '--opening', '18.37')).out,
    /^the opening balance: 18\.37 there, 18\.37 here/m,
  )
})

test('fees and payouts are dated by the statement while its month is open, and otherwise listed', async (t) => {
  const { pool, log, file, run, json, runner } = await world(t)
  const november = [payoutHeading, 'po_1,2026-11-25 10:00:00,usd,txn_6,-20.00,0.25,-20.25,payout']
  const files = ['--gateway', 'stripe', '--file'] as const
  assert.equal((await json(...files, await file(november), '--post')).said.posting.atOtherTimes, 0)
  const [closed] = await createPeriods({
    log,
    runner,
    decode: createCodec().decode,
    calendar: utcCalendar,
  }).close('2026-11' as Period, { actor: { kind: 'operator', name: 'test' }, correlationId: 'run_1' })
  const later = await file([
    ...november,
    'po_2,2026-11-26 00:00:00,usd,txn_7,-5.00,0.00,-5.00,payout',
    'po_3,2026-12-02 00:00:00,usd,txn_8,-3.00,0.00,-3.00,payout',
    'po_4,2026-12-31 00:00:00,usd,txn_9,-2.00,0.00,-2.00,payout',
    'po_5,2026-11-01 00:00:00,usd,txn_10,-1.00,0.00,-1.00,payout',
  ])
  const { said } = await json(...files, later, '--post')
  assert.deepEqual([said.posting.atOtherTimes, said.posting.atOtherTimesMicros], [3, '-8000000'])
  const head = await log.head()
  const hereAt = '2026-12-24T12:00:00.000Z'
  assert.deepEqual(
    said.otherTimes,
    [
      ['txn_7', '-5000000', '2026-11-26T00:00:00.000Z', 'month_closed'],
      ['txn_9', '-2000000', '2026-12-31T00:00:00.000Z', 'in_future'],
      ['txn_10', '-1000000', '2026-11-01T00:00:00.000Z', 'before_log'],
    ].map(([reference, amountMicros, thereAt, why], n) => ({
      reference,
      amountMicros,
      thereAt,
      hereAt,
      month: '2026-12',
      why,
      position: positionToken([head - 3, head - 1, head][n] as number),
    })),
  )
  const { out } = await run(...files, later, '--most', '1')
  assert.match(out, /^3 entries of fees and payouts not dated by the statement, but at the posting: -8\.00$/m)
  assert.match(out, /-5\.00 +2026-11-26T\S+ +2026-12 +2026-12-24T\S+ +its month is closed +txn_7 +pos_/)
  assert.match(out, /^2 more; --most lists more$/m)

  // The payouts that were dated by the statement are in the balances of their times, the others in December.
  const db = createKysely(pool)
  const moments = createMoments({ db, log, clock, calendar: utcCalendar })
  const reader = createFinanceReader({ db, log, moments, calendar: utcCalendar })
  const bankAt = async (day: string) => {
    const asOf = { kind: 'time', atMs: Date.parse(day) } as const
    const { accounts } = await reader.account({ asOf }, head, { book: 'service', account: 'assets:bank' })
    return accounts.map(closingMicros)
  }
  const december = { kind: 'time', atMs: Date.parse('2026-12-01T00:00:00Z') } as const
  const lines = await reader.periodLines({ from: { kind: 'time', atMs: 0 }, to: december }, head)
  assert.equal(hash('sha256', digestedText({ lines })), closed?.digest)
  assert.deepEqual(await bankAt('2026-11-25T09:59:59Z'), [])
  assert.deepEqual(await bankAt('2026-11-25T10:00:00Z'), [20_000_000n])
  assert.deepEqual(await bankAt('2026-12-01T23:59:59Z'), [20_000_000n])
  assert.deepEqual(await bankAt('2026-12-02T00:00:00Z'), [23_000_000n])
  assert.deepEqual(await bankAt('2026-12-24T12:00:00Z'), [31_000_000n])
})

test('the bank is compared by amounts: payouts that arrived, and payments received elsewhere', async (t) => {
  const { file, json, run } = await world(t, [wait(1)])
  const payouts = [
    payoutHeading,
    'po_0,2026-11-28 00:00:00,usd,txn_5,-20.00,0.00,-20.00,payout',
    'po_1,2026-11-29 00:00:00,usd,txn_6,-20.00,0.25,-20.25,payout',
    'po_2,2026-12-01 00:00:00,usd,txn_7,-20.00,0.00,-20.00,payout',
  ]
  const posted = await json('--gateway', 'stripe', '--file', await file(payouts), '--post')
  assert.equal(posted.said.posting.now.booked, 3)
  const columns = ['--column', 'at=Date', '--column', 'amount=Amount'] as const
  const bank = ['--gateway', 'bank', ...columns] as const
  // The payout of 28 November arrived in November, that of 29 November in December.
  const novemberLines = ['Date,Amount', '2026-11-21,100.00', '2026-11-21,100.00', '2026-11-29,20.00']
  const rest = ['2026-12-02,20.00', '2026-12-02,20.00']
  const month = ['--from', '2026-11-01', '--to', '2026-12-01'] as const
  const both = await file([...novemberLines, ...rest])
  const whole = await json(...bank, ...month, '--file', both, '--opening', '0', '--closing', '220.00')
  assert.deepEqual([whole.code, whole.said.agrees, whole.said.differences], [0, true, []])
  // Without the lines of December, the payout is under way.
  const alone = await json(...bank, ...month, '--file', await file(novemberLines))
  assert.deepEqual(
    [alone.code, alone.said.differences.map((each: Record<string, string>) => [each.class, each.reference])],
    [1, [['missing_there', 'txn_6']]],
  )
  // A line of December has the payout of November that is in no line before it.
  const december = await json(...bank, '--from', '2026-12-01', '--file', await file(['Date,Amount', ...rest]))
  assert.deepEqual([december.code, december.said.differences], [0, []])
  const wrong = await json(...bank, ...month, '--file', await file([...novemberLines, '2026-11-30,-9.00']))
  assert.equal(wrong.said.counts.missing_here, 1)
  assert.match((await run(...bank, '--file', both, '--post')).err, /--post books the statements of payment/)
  assert.match((await run('--gateway', 'bank', '--file', both)).err, /declare the columns of the statement/)
})

test('every kind of difference is found, with both amounts', async (t) => {
  const { file, run, json } = await world(t)
  const balance = await file([
    heading,
    'txn_1,2026-11-21 02:29:00,usd,24.00,1.03,22.97,charge,ch_1,dep_1',
    'txn_2,2026-11-21 02:29:30,usd,10.00,0.59,9.41,charge,ch_2,dep_2',
    'txn_2,2026-11-21 02:29:30,usd,10.00,0.59,9.41,charge,ch_2,dep_2',
    'txn_3,2026-11-21 02:29:40,usd,10.00,0.59,9.41,charge,ch_2b,dep_2',
    'txn_4,2026-11-22 02:29:40,usd,8.00,0.00,8.00,charge,ch_8,',
    'txn_5,2026-11-23 01:00:00,usd,-8.00,0.00,-8.00,refund,re_1,dep_2',
    'txn_6,2026-11-23 01:00:00,eur,40.00,1.46,38.54,charge,ch_3,dep_3',
    'txn_7,2026-11-23 01:00:00,usd,-1.00,0.00,-1.00,risk_reserved_funds,,',
  ])
  const { code, said } = await json(...november, '--file', balance)
  assert.equal(code, 1)
  assert.equal(said.agrees, false)
  assert.deepEqual(said.counts, {
    missing_here: 4,
    missing_there: 2,
    not_final: 0,
    other_amount: 1,
    not_booked: 2,
    other_fee: 0,
    other_time: 0,
    duplicate: 1,
    other_currency: 1,
  })
  assert.deepEqual(
    said.differences.map((each: Record<string, string>) => [
      each.class,
      each.externalId,
      each.thereMicros,
      each.hereMicros,
      each.depositId ?? each.reference,
    ]),
    [
      ['missing_here', 'txn_3', '10000000', null, null],
      ['missing_here', 'txn_4', '8000000', null, null],
      ['missing_here', 'txn_5', '-8000000', null, null],
      ['missing_here', 'txn_7', '-1000000', null, null],
      ['missing_there', null, null, '-25000000', 'dep_1'],
      ['missing_there', null, null, '40000000', 'dep_3'],
      ['other_amount', 'txn_1', '24000000', '25000000', 'dep_1'],
      ['not_booked', 'txn_1', '-1030000', null, 'dep_1'],
      ['not_booked', 'txn_2', '-590000', null, 'dep_2'],
      ['duplicate', 'txn_2', '10000000', null, null],
      ['other_currency', 'txn_6', '40000000', null, null],
    ],
  )
  const { out } = await run(...november, '--file', balance, '--most', '1')
  assert.match(
    out,
    /^missing here {4}payment +10\.00 +- +USD +2026-11-21T02:29:40\.000Z +txn_3 +1\.csv:5 +-$/m,
  )
  assert.match(out, /^other amount {4}payment +24\.00 +25\.00 +USD .* txn_1 +1\.csv:2 +pos_0_\d+ dep_1$/m)
  assert.match(out, /^missing there {3}- +- +-25\.00 +USD .* - +- +pos_0_\d+ dep_1$/m)
  assert.match(
    out,
    /\n5 more; --most lists more\n\n11 differences; --post books a fee or a payout; "finance correct" corrects a fee or a payout\nnot compared: payouts, /,
  )
})

test('entries that both sides booked in different months agree', async (t) => {
  const { file, json } = await world(t)
  // dep_4 and the dispute that was won came on 3 December here, on 30 November there.
  const balance = await file([
    ...agreeing,
    'txn_8,2026-11-30 23:59:59,usd,7.00,0.00,7.00,charge,ch_4,dep_4',
    'txn_9,2026-11-30 23:59:59,usd,25.00,0.00,25.00,dispute_reversal,dp_1,dep_1',
  ])
  const before = await json(...november, '--file', balance, '--post')
  assert.deepEqual([before.code, before.said.agrees], [0, true])
  const december = await json('--gateway', 'stripe', '--from', '2026-12-01', '--file', balance)
  assert.equal(december.code, 0)
  assert.deepEqual(
    december.said.sums.map((sum: Record<string, string>) => [sum.class, sum.kind, sum.thereMicros]),
    [
      ['matched', 'dispute_reversal', '25000000'],
      ['matched', 'payment', '7000000'],
      ['outside', 'dispute', '-25000000'],
      ['outside', 'fee', '-300000'],
      ['outside', 'payment', '75000000'],
    ],
  )
})

test('each movement of a refund and of a dispute is matched by the id of the refund or the dispute', async (t) => {
  const reversed = (cents: number, name: string) => (shop: Shop) =>
    shop.chargeBack(one, cents, { gateway: 'stripe', reference: `stripe ${name}`, depositId: 'dep_3' })
  const { file, json } = await world(t, [
    reversed(300, 're_1 txn_1'),
    reversed(-300, 're_1 txn_2'),
    reversed(400, 're_2 txn_3'),
    reversed(900, 'dp_2 txn_4'),
    reversed(-500, 'dp_2 txn_5'),
    reversed(200, 'dp_2 txn_6'),
  ])
  const at = '2026-12-03 02:29:00,usd'
  const balance = await file([
    heading,
    `txn_20,${at},-3.00,0.00,-3.00,refund,re_1,dep_3`,
    `txn_21,${at},3.00,0.00,3.00,refund_failure,re_1,dep_3`,
    `txn_22,${at},-4.00,0.00,-4.00,refund,re_2,dep_3`,
    `txn_23,${at},-9.00,0.00,-9.00,dispute,dp_2,dep_3`,
    `txn_24,${at},5.00,0.00,5.00,dispute_reversal,dp_2,dep_3`,
    `txn_25,${at},-2.00,0.00,-2.00,dispute,dp_2,dep_3`,
    `txn_26,${at},7.00,0.00,7.00,charge,ch_4,dep_4`,
    `txn_27,${at},25.00,0.00,25.00,dispute_reversal,dp_1,dep_1`,
  ])
  const { code, said } = await json('--gateway', 'stripe', '--from', '2026-12-01', '--file', balance)
  assert.deepEqual([code, said.agrees, said.differences], [0, true, []])
})

test('crypto: converted amounts agree to the digits of the report', async (t) => {
  const { file, json } = await world(t)
  const head =
    'InvoiceId,InvoiceCurrency,InvoiceStatus,PaymentReceivedDate,PaymentId,PaymentCurrency,PaymentAmount,PaymentInvoiceAmount'
  const lines = (first: string, second: string) => [
    head,
    `inv_1,USD,Settled,2026-11-21T02:00:00Z,tx-0,BTC,0.00021666,${first}`,
    `inv_1,,,2026-11-21T02:00:00Z,tx-1,BTC,0.00000834,${second}`,
    'inv_2,USD,Processing,2026-11-21T02:00:00Z,tx-9,BTC,1,60000',
  ]
  for (const [first, second, code] of [
    ['13.00', '0.50', 0],
    ['12.99', '0.5', 0],
    ['12.999608333333', '0.500000999', 0],
    ['12.999607999', '0.50', 1],
    ['13.01', '0.50', 1],
    ['13.00', '0.51', 1],
  ] as const) {
    const said = await json('--gateway', 'btcpay', '--file', await file(lines(first, second)))
    assert.equal(said.code, code, `${first} ${second}`)
    assert.deepEqual(said.said.coins, [{ currency: 'btc', lines: 2, amount: '0.00022500' }])
  }

  // Without payment ids, the payments of a deposit are distinguished by amount.
  const payments = await file([
    'Date,InvoiceId,OrderId,PaymentMethodId,Confirmed,PaymentCurrency,PaymentAmount,InvoiceCurrency,InvoiceCurrencyAmount',
    '2026-11-20,inv_1,dep_b1,BTC-CHAIN,true,BTC,0.00021666,USD,12.9996083',
    '2026-11-20,inv_1,dep_b1,BTC-CHAIN,true,BTC,0.00000834,USD,0.50',
  ])
  const { code, said } = await json('--gateway', 'btcpay', '--file', payments)
  assert.deepEqual([code, said.sums[0].lines], [0, 2])
})

test('uncounted and unfinished lines of a provider match nothing', async (t) => {
  const { file, run, json } = await world(t)
  const compare = async (...lines: readonly string[]) => {
    const { code, said } = await json('--gateway', 'btcpay', '--file', await file(lines))
    return [code, ...said.sums.map((sum: { class: string; lines: number }) => `${sum.class} ${sum.lines}`)]
  }
  const legacyHeading =
    'ReceivedDate,StoreId,OrderId,InvoiceId,PaymentId,CryptoCode,Paid,NetworkFee,PaidCurrency,InvoiceCurrency,InvoiceStatus,Accounted'
  const legacy = (payment: string, amount: string, status: string, accounted: string) =>
    `2026-11-21T02:00:00Z,s,dep_b1,inv_1,${payment},BTC,0.0002,0,${amount},USD,${status},${accounted}`
  const second = legacy('tx-1', '0.50', 'settled', 'true')
  assert.deepEqual(await compare(legacyHeading, legacy('tx-0', '13.00', 'settled', 'true'), second), [
    0,
    'matched 2',
  ])
  for (const [status, accounted] of [
    ['settled', 'false'],
    ['processing', 'true'],
    ['New (paidPartial)', 'true'],
    ['pending', 'true'],
  ] as const)
    assert.deepEqual(
      await compare(legacyHeading, legacy('tx-0', '13.00', status, accounted), second),
      [1, 'matched 1', 'not_final 1'],
      `${status}, ${accounted}`,
    )
  // A payment that is not final does not take the place of one that is.
  const heading =
    'Date,InvoiceId,OrderId,PaymentMethodId,Confirmed,PaymentCurrency,PaymentAmount,InvoiceCurrency,InvoiceCurrencyAmount'
  const payment = (confirmed: boolean, amount: string) =>
    `2026-11-20,inv_1,dep_b1,BTC-CHAIN,${confirmed},BTC,0.0001,USD,${amount}`
  assert.deepEqual(
    await compare(heading, payment(false, '0.10'), payment(true, '0.50'), payment(true, '12.9996083')),
    [0, 'matched 2', 'open 1'],
  )
  const { out } = await run(
    '--gateway',
    'btcpay',
    '--file',
    await file([legacyHeading, legacy('tx-0', '13.00', 'settled', 'false'), second]),
  )
  assert.match(out, /booked, not final there/)
})

test("a reseller's own gateway, and any CSV with declared columns", async (t) => {
  const { file, json } = await world(t)
  const bank = await file([
    'Ref;Date;Type;Amount;Fee;Payment',
    'a;2026-11-21;sale;30.00;0.90;cs_c',
    'a2;2026-11-22;sale;-30.00;;',
    'b;2026-11-22;withdrawal;-20.00;;cs_c',
  ])
  const columns = ['id=Ref', 'at=Date', 'kind=Type', 'amount=Amount', 'fee=Fee', 'payment=Payment']
  const { code, said } = await json(
    '--gateway',
    'crd_ada',
    '--separator',
    'semicolon',
    '--file',
    bank,
    ...columns.flatMap((each) => ['--column', each]),
    '--word',
    'sale=payment',
    '--word',
    'withdrawal=payout',
  )
  assert.equal(code, 1)
  assert.deepEqual([said.book, said.account], ['reseller:acc_two', 'assets:gateway:crd_ada'])
  assert.deepEqual(said.totals, [
    { currency: 'usd', feeMicros: '900000', payoutMicros: '20000000', netMicros: '-20900000' },
  ])
  assert.deepEqual(
    said.differences.map((each: Record<string, string>) => [each.class, each.externalId]),
    [['missing_here', 'a2']],
  )
})

test('more lines than fit into one batch', async (t) => {
  const { file, json } = await world(t)
  const many = Array.from(
    { length: 2_500 },
    (_, n) => `t${n},2026-11-22,usd,1.00,0.01,0.99,charge,ch_${n},dep_n${n}`,
  )
  const { said } = await json(...november, '--file', await file([...agreeing, ...many]), '--most', '3')
  assert.equal(said.counts.missing_here, 2_500)
  assert.equal(said.differences.filter((each: { class: string }) => each.class === 'missing_here').length, 3)
  assert.deepEqual(said.totals, [
    { currency: 'usd', feeMicros: '43380000', payoutMicros: '0', netMicros: '2506620000' },
  ])
})

test('wrong use is refused with the accepted values, and compares nothing', async (t) => {
  const { file, run } = await world(t)
  const good = await file(agreeing)
  const other = await file([payoutHeading, 'po_1,2026-11-25,usd,txn_6,-20.00,0.25,-20.00,payout'])
  const legacy = await file([
    'Date,InvoiceId,OrderId,PaymentMethodId,Confirmed,PaymentCurrency,PaymentAmount,InvoiceCurrency,InvoiceCurrencyAmount',
  ])
  const invoices = await file([
    'InvoiceId,InvoiceCurrency,InvoiceStatus,PaymentReceivedDate,PaymentId,PaymentCurrency,PaymentAmount,PaymentInvoiceAmount',
  ])
  for (const [args, said] of [
    [['--gateway', 'stripe'], /--file/],
    [
      ['--gateway', 'stripe', '--file', other],
      /2\.csv, line 2, column "net": "-20\.00" is not it; it is gross less fee$/m,
    ],
    [['--gateway', 'stripe', '--file', 'none.csv'], /none\.csv cannot be read: ENOENT/],
    [['--gateway', 'stripe', '--file', tmpdir()], /cannot be read: EISDIR/],
    [
      ['--gateway', 'paypal', '--file', good],
      /the gateway paypal has no money booked; gateways with money: crd_ada \(reseller:acc_two\), btcpay \(service\), manual \(service\), stripe \(service\)/,
    ],
    [
      ['--gateway', 'stripe', '--book', 'reseller:acc_two', '--file', good],
      /of the book reseller:acc_two has no money/,
    ],
    [
      ['--gateway', 'crd_ada', '--file', good],
      /crd_ada is not a supported provider: name one with --provider \(stripe, btcpay, nowpayments\), or declare/,
    ],
    [
      ['--gateway', 'stripe', '--provider', 'paypal', '--file', good],
      /Allowed choices are stripe, btcpay, nowpayments/,
    ],
    [
      ['--gateway', 'btcpay', '--file', legacy, '--file', invoices],
      /4\.csv is the report "Invoices" and the file before it "Payments": give files of one of them/,
    ],
    [['--gateway', 'stripe', '--file', good, '--from', 'pos_0_1'], /A statement has no positions/],
    [
      ['--gateway', 'stripe', '--file', good, '--from', '2026-12-01', '--to', '2026-11-01'],
      /--from must not be after --to/,
    ],
    [['--gateway', 'stripe', '--file', good, '--to', '2027-01-01'], /is still to come/],
    [['--gateway', 'stripe', '--file', good, '--column', 'sum=Gross'], /A role is one of id, at, amount, /],
    [['--gateway', 'stripe', '--file', good, '--column', 'amount=gross'], /declare the columns at; --column/],
    [['--gateway', 'stripe', '--file', good, '--word', 'sale=income'], /A kind is one of payment, refund, /],
    [['--gateway', 'stripe', '--file', good, '--word', '=x'], /It must be WORD=KIND/],
  ] as const) {
    const { code, out, err } = await run(...args)
    assert.match(err, said, args.join(' '))
    assert.deepEqual([code, out], [2, ''], args.join(' '))
  }
})
