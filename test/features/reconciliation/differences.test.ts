import assert from 'node:assert/strict'
import { test } from 'node:test'
import { agreeing, november, one, payoutHeading, wait, world } from './world.ts'

type Row = Record<string, string | null>
const december = ['--gateway', 'stripe', '--from', '2026-12-01'] as const

/** The class, the reference and both amounts of each difference. */
const named = ({ said }: { said: { differences: readonly Row[] } }) =>
  said.differences.map((each) => [
    each.class,
    each.externalId ?? each.reference,
    each.thereMicros,
    each.hereMicros,
  ])

/** The fees and payouts of the statement are in the books. */
const posted = async (t: Parameters<typeof world>[0]) => {
  const { file, json, ...rest } = await world(t)
  const payouts = await file([payoutHeading, 'po_1,2026-11-25 00:00:00,usd,txn_6,-20.00,0.25,-20.25,payout'])
  const post = async (lines: readonly string[]) =>
    json(...november, '--file', await file(lines), '--file', payouts, '--post')
  assert.equal((await post(agreeing)).code, 0)
  const compare = async (period: readonly string[], lines: readonly string[]) =>
    json(...period, '--file', await file(lines), '--file', payouts)
  return { file, json, post, compare, payouts, ...rest }
}

test('a booked fee is a difference if its line has none', async (t) => {
  const { file, compare, finance, run, payouts } = await posted(t)
  const withoutFees = agreeing
    .with(1, 'txn_1,2026-11-21 02:29:00,usd,25.00,0.00,25.00,charge,ch_1,dep_1')
    .with(3, 'txn_3,2026-11-23 01:00:00,usd,-25.00,0.00,-25.00,dispute,dp_1,dep_1')
  const found = await compare(november, withoutFees)
  assert.deepEqual(
    [found.code, named(found)],
    [
      1,
      [
        ['other_fee', 'txn_1', '0', '-1030000'],
        ['other_fee', 'txn_3', '0', '-15000000'],
      ],
    ],
  )
  for (const { position } of found.said.differences)
    await finance('correct', String(position), '--fee', '0', '--reason', 'not on the statement')
  const after = await run(...november, '--file', await file(withoutFees), '--file', payouts)
  assert.deepEqual([after.code, /^everything that was compared agrees$/m.test(after.out)], [0, true])
})

test('a booked fee is a difference if it was booked as a payout, or its line matches no payment', async (t) => {
  const { compare } = await posted(t)
  const asPayout = await compare(
    november,
    agreeing.with(5, 'txn_5,2026-11-23 03:00:00,usd,-0.30,0.00,-0.30,payout,,'),
  )
  assert.deepEqual([asPayout.code, named(asPayout)], [1, [['other_fee', 'txn_5', '-300000', '-300000']]])
  const other = await compare(
    november,
    agreeing.with(1, 'txn_1,2026-11-21 02:29:00,usd,25.00,1.03,23.97,charge,ch_1,dep_9'),
  )
  assert.deepEqual(named(other), [
    ['missing_here', 'txn_1', '25000000', null],
    ['missing_there', 'cs_dep_1', null, '25000000'],
    ['missing_there', 'txn_1', null, '-1030000'],
  ])
})

test('a fee is a difference in both periods if the statement dates it in another one than the books', async (t) => {
  const { compare, file, run, payouts } = await posted(t)
  const later = agreeing.with(5, 'txn_5,2026-12-01 00:00:01,usd,-0.30,0.00,-0.30,fee,,')
  const expected = [['other_time', 'txn_5', '-300000', '-300000']]
  const inNovember = await compare(november, later)
  assert.deepEqual([inNovember.code, named(inNovember)], [1, expected])
  const inDecember = await compare(december, later)
  assert.deepEqual(
    [inDecember.code, named(inDecember).filter(([name]) => name !== 'missing_there')],
    [1, expected],
  )
  const { out } = await run(...november, '--file', await file(later), '--file', payouts)
  assert.match(
    out,
    /^other time +fee +-0\.30 +-0\.30 +USD +2026-12-01T00:00:01\.000Z, here 2026-11-23T03:00:00\.000Z +txn_5 +\S+ +pos_0_\d+ txn_5$/m,
  )
})

test('a line is a difference until it is booked, also if its id has another line', async (t) => {
  const { post, compare } = await posted(t)
  const more = [...agreeing, 'txn_5,2026-11-24 03:00:00,usd,-9.00,0.00,-9.00,payout,,']
  const other = await compare(november, more)
  assert.deepEqual([other.code, named(other)], [1, [['other_fee', 'txn_5', '-9300000', '-300000']]])
  // A new id with two kinds is booked as one line.
  const both = [
    ...agreeing,
    'txn_7,2026-11-24 03:00:00,usd,-9.00,0.00,-9.00,payout,,',
    'txn_7,2026-11-24 03:00:00,usd,-9.00,0.00,-9.00,fee,,',
  ]
  const before = await compare(november, both)
  assert.deepEqual([before.code, named(before)], [1, [['not_booked', 'txn_7', '-18000000', null]]])
  const booked = await post(both)
  assert.deepEqual([booked.code, booked.said.posting.now.booked], [0, 1])
  assert.equal(booked.said.totals[0].netMicros, booked.said.bookedMicros)
  const euro = await compare(november, [...both, 'txn_8,2026-11-24 03:00:00,eur,-9.00,0.00,-9.00,payout,,'])
  assert.deepEqual([euro.code, named(euro)], [1, [['other_currency', 'txn_8', '-9000000', null]]])
})

test('two lines never match the same payment', async (t) => {
  const { file, json } = await world(t)
  const columns = ['id=Ref', 'at=Date', 'amount=Amount', 'payment=Payment', 'deposit=Deposit']
  const { said } = await json(
    '--gateway',
    'stripe',
    '--to',
    '2026-11-22',
    '--file',
    await file([
      'Ref,Date,Amount,Payment,Deposit',
      'a,2026-11-21,25.00,cs_dep_1,',
      'b,2026-11-21,25.00,,dep_1',
      'c,2026-11-21,10.00,,dep_2',
    ]),
    ...columns.flatMap((each) => ['--column', each]),
  )
  assert.deepEqual(named({ said }), [['missing_here', 'b', '25000000', null]])
})

test('a file with declared columns has what no report of the provider has', async (t) => {
  const { file, json } = await world(t, [
    (shop) =>
      shop.chargeBack(one, 500, { gateway: 'btcpay', reference: 'btcpay refund', depositId: 'dep_b1' }),
  ])
  const invoices = await file([
    'InvoiceId,InvoiceCurrency,InvoiceStatus,PaymentReceivedDate,PaymentId,PaymentCurrency,PaymentAmount,PaymentInvoiceAmount',
    'inv_1,USD,Settled,2026-11-21T02:00:00Z,tx-0,BTC,0.00021666,13.00',
    'inv_1,,,2026-11-21T02:00:00Z,tx-1,BTC,0.00000834,0.50',
  ])
  const refunds = await file(['When,Sum,Type,Ref', '2026-12-03,-5.00,back,btcpay refund'])
  const columns = ['at=When', 'amount=Sum', 'kind=Type', 'payment=Ref']
  const found = await json(
    ...['--gateway', 'btcpay', '--file', invoices, '--file', refunds, '--word', 'back=refund'],
    ...columns.flatMap((each) => ['--column', each]),
  )
  assert.deepEqual([found.code, named(found)], [0, []])
})

test('the bank is compared with payouts as they were corrected, whatever the kinds of its lines are', async (t) => {
  const { file, finance, json } = await world(t, [wait(1)])
  const payouts = [
    payoutHeading,
    'po_1,2026-11-25 00:00:00,usd,txn_6,-25.00,0.00,-25.00,payout',
    'po_2,2026-11-26 00:00:00,usd,txn_7,-9.05,0.00,-9.05,payout',
  ]
  const { said } = await json('--gateway', 'stripe', '--file', await file(payouts), '--post')
  assert.equal(said.posting.now.booked, 2)
  const found = await json(...november, '--file', await file([payoutHeading]))
  const [invented, wrong] = found.said.differences.map(({ position }: Row) => position)
  await finance('correct', invented, '--payout', '0', '--reason', 'an invented file')
  await finance('correct', wrong, '--payout', '9', '--reason', 'a wrong file')

  const compare = async (lines: readonly string[]) =>
    json(
      ...['--gateway', 'bank', '--from', '2026-11-22', '--to', '2026-12-01'],
      ...['--column', 'at=Date', '--column', 'amount=Amount', '--column', 'kind=Kind'],
      ...['--word', 'in=payout', '--word', 'out=fee'],
      ...['--file', await file(['Date,Amount,Kind', ...lines])],
    )
  const right = await compare(['2026-11-27,9.00,in'])
  assert.deepEqual([right.code, named(right)], [0, []])
  const charged = await compare(['2026-11-27,9.00,in', '2026-11-27,-2.00,out'])
  assert.deepEqual([charged.code, named(charged)], [1, [['missing_here', null, '-2000000', null]]])
})
