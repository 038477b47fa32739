import assert from 'node:assert/strict'
import { test } from 'node:test'
import { csvWriter } from '../../src/exports/csv.ts'
import { csv, csvField } from '../../src/finance/csv.ts'
import { statementCsv as accountStatementCsv } from '../../src/finance/statement.ts'
import { statementCsv as resellerStatementCsv } from '../../src/resellers/statement.ts'

const formulas = [
  '=1+1',
  '+1+1',
  '-1+1',
  '@SUM(A1)',
  '\t=1',
  '\r=1',
  '\n=1',
  '＝1+1',
  '-',
  '-2-cmd',
  '-1e',
  '+49',
]

test('a text that a spreadsheet would run as a formula has an apostrophe before it', () => {
  for (const text of formulas) {
    const field = csvField(text)
    assert.ok(field === `'${text}` || field === `"'${text}"`, field)
  }
  assert.equal(csvField('=HYPERLINK("http://x","y")'), `"'=HYPERLINK(""http://x"",""y"")"`)
})

test('numbers stay numbers, below zero too, and other texts stay as they are', () => {
  for (const value of ['-12.500000', '-3', '0', '12.5', 'c9ebb2c1-0', 'a=b', 'acc_one', ''])
    assert.equal(csvField(value), value)
  assert.deepEqual([csvField(-5), csvField(null), csvField('a,"b"')], ['-5', '', '"a,""b"""'])
  assert.equal(csv(['a', 'b'], [['-1.000000', '=1']]), "a,b\n-1.000000,'=1")
})

test('every CSV of the books has the guard: the statement of an account, that of a reseller, the export', () => {
  const reference = '=cmd|calc'
  const line = { type: 'CreditAdded', against: ['a'], amountMicros: -5n, balanceMicros: -5n, reference }
  const account = accountStatementCsv({ book: 'service', lines: [line] } as never)
  const reseller = resellerStatementCsv([{ customer: reference, marginCents: -5 } as never])
  const postings = [{ book: 'service', account: 'a', debitMicros: 5, creditMicros: 0 }]
  const entry = { type: 'CreditAdded', reference, postings }
  const exported = csvWriter({ book: null } as never).entry(entry as never)
  for (const text of [account, reseller, exported]) assert.match(text, /,'=cmd\|calc/)
  assert.match(account, /,-0\.000005,/)
  assert.match(reseller, /,-5,/)
})
