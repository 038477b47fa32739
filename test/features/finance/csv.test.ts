import assert from 'node:assert/strict'
import { test } from 'node:test'
import { csvWriter } from '../../../src/features/exports/journal-formats.ts'
import { statementCsv as accountStatementCsv } from '../../../src/features/finance/account-statement.ts'
import { reportCsv } from '../../../src/features/finance/period-report.ts'
import { trialBalanceCsv } from '../../../src/features/finance/trial-balance.ts'
import { statementCsv as resellerStatementCsv } from '../../../src/features/resellers/reseller-statement.ts'
import { utcCalendar } from '../../../src/kernel/calendar.ts'
import { csv, csvField } from '../../../src/kernel/csv.ts'

const formulas = ['=1+1', '+1+1', '-1+1', '@SUM(A1)', '＝1+1', '-', '-2-cmd', '-1e', '+49', ' =1', '\u00a0@x']

test('a text that a spreadsheet would run as a formula gets a leading apostrophe', () => {
  for (const text of formulas) {
    const field = csvField(text)
    assert.ok(field === `'${text}` || field === `"'${text}"`, field)
  }
  for (const separator of ['\t', '\r', '\n'])
    assert.equal(csvField(`${separator}=1`), `"'${separator}'=1"`, 'and one where a cell begins in it')
  assert.equal(csvField('=HYPERLINK("http://x","y")'), `"'=HYPERLINK(""http://x"",""y"")"`)
})

/** The cells that a spreadsheet makes of a line where this separates, with quotes only at the start of a cell. */
const cellsOf = (line: string, separator: string): string[] => {
  const cells: string[] = []
  for (let at = 0; at <= line.length; ) {
    const quoted = line[at] === '"'
    let cell = ''
    if (quoted) {
      for (at += 1; at < line.length && !(line[at] === '"' && line[at + 1] !== '"'); at += 1) {
        if (line[at] === '"') at += 1
        cell += line[at]
      }
      at += 1
    }
    for (; at < line.length && line[at] !== separator && line[at] !== '\n' && line[at] !== '\r'; at += 1)
      cell += line[at]
    cells.push(cell)
    at += 1
  }
  return cells
}

test('no cell is a formula with semicolons, tabs or commas as separators', () => {
  const inner = [
    'a;=1+1',
    'a; =1',
    'a;"=1"',
    'a\t=1',
    'a\n=1',
    'a\r\n@x',
    'a;;-1+1',
    "b;'=1",
    'a,=1',
    'x;＝1',
  ]
  for (const text of [...formulas, '\t=1', '\r=1', '\n=1', ...inner])
    for (const separator of [',', ';', '\t'])
      for (const cell of cellsOf(csv(['a', 'b'], [['one', text]]), separator))
        assert.doesNotMatch(
          cell,
          /^[ "]*[=+\-@\t\uff0b\uff0d\uff1d\uff20]/,
          JSON.stringify([text, separator, cell]),
        )
  assert.equal(csvField('a;b'), '"a;b"')
  assert.equal(csvField('a;b -c'), '"a;b -c"')
  assert.equal(csvField('a;=b'), `"a;'=b"`)
})

test('numbers stay numbers, also below zero, and other texts stay unchanged', () => {
  for (const value of ['-12.500000', '-3', '0', '12.5', 'c9ebb2c1-0', 'a=b', 'acc_one', ''])
    assert.equal(csvField(value), value)
  assert.deepEqual([csvField(-5), csvField(null), csvField('a,"b"')], ['-5', '', '"a,""b"""'])
  assert.equal(csv(['a', 'b'], [['-1.000000', '=1']]), "\ufeffa,b\r\n-1.000000,'=1\r\n")
})

test('every CSV of the books has the same form and protection', () => {
  const reference = '=cmd|calc'
  const line = { type: 'CreditAdded', against: ['a'], amountMicros: -5n, balanceMicros: -5n, reference }
  const account = accountStatementCsv({ book: 'service', lines: [line] } as never)
  const reseller = resellerStatementCsv([{ customer: reference, marginCents: -5 } as never])
  const postings = [{ book: 'service', account: 'a', debitMicros: 5, creditMicros: 0 }]
  const entry = { type: 'CreditAdded', reference, postings }
  const writer = csvWriter({ logId: 'log', book: null, gatewayOf: () => null, calendar: utcCalendar })
  const exported = writer.head() + writer.entry(entry as never)
  for (const text of [account, reseller, exported]) assert.match(text, /,'=cmd\|calc/)
  const sums = { openingMicros: 0n, debitMicros: 0n, creditMicros: 5n, closingMicros: -5n }
  const balance = trialBalanceCsv([
    { book: 'service', accounts: [{ book: 'service', account: 'a', ...sums }] } as never,
  ])
  const period = reportCsv({ lines: [{ book: 'service', account: 'a', ...sums }] as never })
  for (const text of [account, reseller, exported, balance, period])
    assert.match(text, /^\ufeff(?:[^\ufeff\r\n]+\r\n){2,3}$/)
  assert.match(account, /,-0\.000005,/)
  assert.match(reseller, /,-5,/)
})
