import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { commands as financeCommands } from '../../../src/features/finance/commands.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { ledgerWorld } from './cli-world.ts'

const world = (t: TestContext) => ledgerWorld(t, financeCommands)

test('a trial balance shows both sides of each book, which are equal', async (t) => {
  const { run, head } = await world(t)
  const { code, out } = await run('ledger', 'trial-balance')
  assert.equal(code, 0)
  assert.equal(
    out,
    `book reseller:acc_two, US dollars, as of position pos_0_${head} (2026-11-22T00:00:00.000Z)

ACCOUNT                 DEBIT  CREDIT
assets:service-wallet  100.00
equity:funding                 100.00
TOTAL                  100.00  100.00

book service, US dollars, as of position pos_0_${head} (2026-11-22T00:00:00.000Z)

ACCOUNT                          DEBIT      CREDIT
assets:gateway:manual       200.000000
liabilities:wallet:acc_one               84.997000
liabilities:wallet:acc_two              100.000000
revenue:orders:residential               15.000000
revenue:scrapes:tiktok                    0.003000
TOTAL                       200.000000  200.000000`,
  )
})

test('the same as CSV and as JSON, as of a time and over a range', async (t) => {
  const { run } = await world(t)
  const csv = await run(
    'ledger',
    'trial-balance',
    '--book',
    'service',
    '--as-of',
    '2026-11-21T12:00:00Z',
    '--format',
    'csv',
  )
  assert.equal(
    `${csv.out}\n`,
    [
      '\ufeffbook,account,opening,debit,credit,balance,gateway',
      'service,assets:gateway:manual,0.000000,200.000000,0.000000,200.000000,',
      'service,liabilities:wallet:acc_one,0.000000,15.000000,100.000000,-85.000000,',
      'service,liabilities:wallet:acc_two,0.000000,0.000000,100.000000,-100.000000,',
      'service,revenue:orders:residential,0.000000,0.000000,15.000000,-15.000000,',
      '',
    ].join('\r\n'),
  )
  const json = await run(
    'ledger',
    'trial-balance',
    '--book',
    'service',
    '--from',
    '2026-11-22',
    '--depth',
    '2',
    '--json',
  )
  assert.deepEqual(
    JSON.parse(json.out).accounts.map((each: Record<string, string>) => [
      each.account,
      each.openingMicros,
      each.balanceMicros,
    ]),
    [
      ['assets:gateway', '200000000', '200000000'],
      ['liabilities:holds', '0', '0'],
      ['liabilities:wallet', '-185000000', '-184997000'],
      ['revenue:orders', '-15000000', '-15000000'],
      ['revenue:scrapes', '0', '-3000'],
    ],
  )
  const same = await run(
    'ledger',
    'trial-balance',
    '--book',
    'service',
    '--from',
    '2026-11-22',
    '--depth',
    '2',
    '--format',
    'json',
  )
  assert.equal(same.out, json.out)
})

test('an account is shown with its sub-accounts, a wallet by the id of its account', async (t) => {
  const { run } = await world(t)
  const revenue = await run('ledger', 'account', 'revenue', '--json')
  assert.deepEqual(
    JSON.parse(revenue.out).accounts.map((each: Record<string, string>) => [
      each.account,
      each.balanceMicros,
    ]),
    [
      ['revenue:orders:residential', '-15000000'],
      ['revenue:scrapes:tiktok', '-3000'],
    ],
  )
  const wallet = await run('ledger', 'account', 'acc_one')
  assert.match(wallet.out, /liabilities:wallet:acc_one in the book service/)
  assert.match(wallet.out, /84\.997000/)
  const funding = await run('ledger', 'account', 'equity:funding')
  assert.match(funding.out, /in the book reseller:acc_two/)
})

test('a statement runs from its opening to its closing balance and gives the reason of each line', async (t) => {
  const { run } = await world(t)
  const { out } = await run('ledger', 'statement', 'acc_one', '--to', '2026-11-22', '--json')
  const { lines, openingMicros, balanceMicros } = JSON.parse(out)
  assert.deepEqual([openingMicros, balanceMicros], ['0', '-85000000'])
  assert.deepEqual(
    lines.map((line: Record<string, unknown>) => [
      line.type,
      line.orderId,
      line.amountMicros,
      line.balanceMicros,
      line.against,
    ]),
    [
      ['WalletCredited', null, '-100000000', '-100000000', ['assets:gateway:manual']],
      ['WalletDebited', 'ord_1', '15000000', '-85000000', ['revenue:orders:residential']],
    ],
  )
  const text = await run('ledger', 'statement', 'acc_one')
  assert.match(text.out, /order ord_1 +15\.000000 +-85\.000000/)
  const csv = await run('ledger', 'statement', 'acc_one', '--format', 'csv')
  assert.match(csv.out, /^\ufeffposition,time,book,account,type,debit,credit,balance,against,order/)
})

test('a payout that is posted later is in the balances, the statement and the replay of its day', async (t) => {
  const { run, shop } = await world(t)
  shop.wait(3 * 86_400_000)
  await shop.bookLine({ reference: 'po_1', feeMicros: 0, payoutMicros: 5_000_000 }, 3.5 * 86_400_000)
  const bank = ['assets:bank', '--book', 'service'] as const
  const at = async (asOf: string) => {
    const { out } = await run('ledger', 'trial-balance', '--as-of', asOf, '--book', 'service', '--json')
    const { accounts } = JSON.parse(out)
    const replayed = await run('ledger', 'replay', '--until', asOf, '--book', 'service', '--json')
    assert.deepEqual(JSON.parse(replayed.out).accounts, accounts)
    return accounts.find(({ account }: { account: string }) => account === 'assets:bank')?.balanceMicros
  }
  assert.equal(await at('2026-11-21T11:59:59Z'), undefined)
  assert.equal(await at('2026-11-21T12:00:00Z'), '5000000')
  const over = async (from: string, to: string) =>
    JSON.parse((await run('ledger', 'statement', ...bank, '--from', from, '--to', to, '--json')).out)
  const day = await over('2026-11-21', '2026-11-22')
  assert.deepEqual(
    [day.openingMicros, day.balanceMicros, day.lines.map((line: { at: string }) => line.at)],
    ['0', '5000000', ['2026-11-21T12:00:00.000Z']],
  )
  const later = await over('2026-11-22', '2026-11-25')
  assert.deepEqual([later.openingMicros, later.balanceMicros, later.lines], ['5000000', '5000000', []])
})

test('in CSV only, a reference that a spreadsheet would run as a formula gets a leading apostrophe', async (t) => {
  const { run, shop } = await world(t)
  await shop.adjust('acc_one' as AccountId, 'goodwill', 10_000, '=1+1')
  const ofLast = (out: string) => out.trimEnd().split('\r\n').at(-1)?.split(',')
  assert.equal(ofLast((await run('ledger', 'statement', 'acc_one', '--format', 'csv')).out)?.[12], "'=1+1")
  assert.match((await run('ledger', 'statement', 'acc_one')).out, / =1\+1 /)
})

for (const [what, args, message] of [
  ['a moment that is none', ['trial-balance', '--as-of', 'yesterday'], /a position such as pos_0_1284/],
  ['a day that is none', ['trial-balance', '--as-of', '2026-02-30'], /a date such as/],
  [
    'a position past the end',
    ['trial-balance', '--as-of', '999999'],
    /position pos_0_999999 is past the end of the log, which is at pos_0_\d+;/,
  ],
  [
    'a time to come',
    ['trial-balance', '--as-of', '2026-12-25'],
    /2026-12-25T00:00:00.000Z is still to come: it is 2026-12-24T12:00:00.000Z; left out, all/,
  ],
  [
    'a time after the year 9999',
    ['trial-balance', '--as-of', '9999-12-31T23:59:59-05:00'],
    /\+010000-01-01T04:59:59.000Z is still to come/,
  ],
  [
    'a range to a time to come',
    ['statement', 'acc_one', '--from', '2026-11-01', '--to', '2027-01-01'],
    /2027-01-01T00:00:00.000Z is still to come/,
  ],
  ['a range past the end', ['statement', 'acc_one', '--from', '999999'], /past the end/],
  ['an unknown account', ['account', 'assets:nothing'], /no book has an account assets:nothing/],
  ['an unknown wallet', ['statement', 'acc_none'], /no book has an account liabilities:wallet:acc_none/],
  ['an unknown book', ['trial-balance', '--book', 'ours'], /there is no book ours/],
  [
    'an account of another book',
    ['account', 'revenue', '--book', 'reseller:acc_two'],
    /has no account revenue/,
  ],
  ['both kinds of time', ['trial-balance', '--as-of', '1', '--from', '1'], /not both/],
  [
    'a range that ends before it begins',
    ['statement', 'acc_one', '--from', '5', '--to', '2'],
    /must not be after/,
  ],
  [
    'times that run back',
    ['trial-balance', '--from', '2026-11-22', '--to', '2026-11-21'],
    /--from must not be after --to/,
  ],
  ['a statement of a parent', ['statement', 'revenue'], /"ledger account revenue" lists them/],
  ['an unknown format', ['trial-balance', '--format', 'pdf'], /table, csv, json/],
  ['a depth of nothing', ['trial-balance', '--depth', '0'], /whole number from 1/],
] as const)
  test(`wrong use exits with 2 and lists what is accepted: ${what}`, async (t) => {
    const { run } = await world(t)
    const { code, err } = await run('ledger', ...args)
    assert.equal(code, 2, err)
    assert.match(err, message)
  })
