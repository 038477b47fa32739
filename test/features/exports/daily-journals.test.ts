import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { MappingProblem, parseMapping } from '../../../src/features/exports/account-mapping.ts'
import { dailyWriter, roundBalances } from '../../../src/features/exports/daily-journals.ts'
import { exportLedger } from '../../../src/features/exports/export-log.ts'
import type { DailyFormat } from '../../../src/features/exports/journal-formats.ts'
import { createCalendar, utcCalendar } from '../../../src/kernel/calendar.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { fileSink } from '../../../src/platform/outgoing/file-sink.ts'
import fc, { runs } from '../../support/fast-check.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { datedBack, playInto } from '../finance/support.ts'
import { codec, exportTo, owners, scratch, writeBooks } from './books.ts'
import { readSecondly } from './second-reader.ts'

const roots = ['assets', 'liabilities', 'equity', 'revenue', 'expenses']
const parts = [
  'assets:gateway',
  'assets:receivable',
  'assets:receivable:acc_1a',
  'liabilities:wallet',
  'liabilities:wallet:acc_3c',
  'liabilities:holds',
  'revenue:scrapes',
  'revenue:orders:residential',
  'expenses:cost-of-sales',
]

/** A mapping of every account, in which some accounts have their own code and others share one. */
const mappingRows = fc
  .tuple(fc.subarray(parts), fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 14, maxLength: 14 }))
  .map(([chosen, codes]) =>
    [...roots, ...chosen].map((account, at) => [account, `code ${codes[at]}`] as const),
  )

type Rows = readonly (readonly [account: string, code: string])[]

const mappingText = (format: DailyFormat, rows: Rows): string =>
  format === 'xero'
    ? `account,code,tax_rate\n${rows.map((row) => `${row.join(',')},Tax Exempt\n`).join('')}`
    : `account,name\n${rows.map((row) => `${row.join(',')}\n`).join('')}`

/** The code of an account, found by its longest mapped name. */
const codeOf = (rows: Rows, account: string): string => {
  const above = rows.filter(([name]) => account === name || account.startsWith(`${name}:`))
  return above.toSorted(([a], [b]) => b.length - a.length)[0]?.[1] ?? 'none'
}

type Line = { readonly day: string; readonly code: string; readonly cents: bigint }

const centsOf = (amount: string): bigint => {
  assert.match(amount, /^-?\d+\.\d\d$/)
  return BigInt(amount.replace('.', ''))
}

const months = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ')

/** The lines of a file, read with nothing but text functions. */
const linesOf: Readonly<Record<DailyFormat, (text: string) => readonly Line[]>> = {
  xero: (text) =>
    [
      ...text.matchAll(
        /^Farebox (\S+) \(UTC\)(?: reseller:acc_3c)?,(\d\d) ([A-Z][a-z]{2}) (\d{4}),(?:"[^"]*"|[^",]*),(code \d+),Tax Exempt,([^,]*),,,,\r$/gm,
      ),
    ].map(([, day = '', date, month = '', year, code = '', amount = '']) => {
      const number = String(months.indexOf(month) + 1).padStart(2, '0')
      assert.equal(`${year}-${number}-${date}`, day)
      return { day, code, cents: centsOf(amount) }
    }),
  quickbooks: (text) =>
    [
      ...text.matchAll(
        /^(?:farebox|fb3c)-(\S+),(\d\d)\/(\d\d)\/(\d{4}),(code \d+),([^,]*),([^,]*),(?:"[^"]*"|[^",]*)\r$/gm,
      ),
    ].map(([, day = '', month, date, year, code = '', debit = '', credit = '']) => {
      assert.equal(`${year}-${month}-${date}`, day)
      return { day, code, cents: debit === '' ? -centsOf(credit) : centsOf(debit) }
    }),
}

const sums = (lines: Iterable<readonly [key: string, amount: bigint]>): ReadonlyMap<string, bigint> => {
  const byKey = new Map<string, bigint>()
  for (const [key, amount] of lines) byKey.set(key, (byKey.get(key) ?? 0n) + amount)
  return byKey
}

type Days = {
  readonly format: DailyFormat
  readonly book: string
  readonly rows: Rows
  readonly from: string
  readonly to: string
}

const writeDays = async (log: EventLog, path: string, { rows, ...days }: Days) => {
  const clock = () => Date.parse('9999-12-31')
  const mapping = parseMapping(mappingText(days.format, rows), days.format)
  return exportLedger({ log, decode: codec.decode, clock, calendar: utcCalendar }, await fileSink(path), {
    ...days,
    mapping,
  })
}

const exportDays = async (log: EventLog, path: string, days: Days): Promise<readonly Line[]> => {
  const { format } = days
  await writeDays(log, path, days)
  const text = await readFile(path, 'utf8')
  const lines = linesOf[format](text)
  assert.equal(lines.length, text.split('\r\n').length - 2, 'each line after the heading was read')
  return lines
}

const [firstDay, afterLastDay] = ['2026-11-21', '2999-01-01']

for (const format of ['xero', 'quickbooks'] as const)
  test(`invariant: the sum of the ${format} files equals the journal, and each day balances`, async (t) => {
    const path = join(await scratch(t), 'file')
    const days = fc.integer({ min: 0, max: 60 })
    await fc.assert(
      fc.asyncProperty(owners, mappingRows, days, async (given, rows, offset) => {
        const log = createMemoryLog()
        await writeBooks(log, given)
        await exportTo(log, path, 'jsonl')
        const { balances } = readSecondly(path)
        const middle = new Date(Date.parse(firstDay) + (offset + 1) * 86_400_000).toISOString().slice(0, 10)
        for (const book of ['service', 'reseller:acc_3c']) {
          const whole = { format, book, rows, from: firstDay, to: afterLastDay }
          const lines = await exportDays(log, path, whole)
          const before = await exportDays(log, path, { ...whole, to: middle })
          const after = await exportDays(log, path, { ...whole, from: middle })
          assert.deepEqual([...before, ...after], lines, 'a day is the same in every file')

          for (const [day, cents] of sums(lines.map((line) => [line.day, line.cents])))
            assert.equal(cents, 0n, `${day} balances`)
          const exact = sums(
            [...balances]
              .filter(([key]) => key.startsWith(`${book}|`))
              .map(([key, micros]) => [codeOf(rows, key.slice(book.length + 1)), micros]),
          )
          const written = sums(lines.map(({ code, cents }) => [code, cents * 10_000n]))
          for (const code of new Set([...exact.keys(), ...written.keys()])) {
            const [micros, rounded] = [exact.get(code) ?? 0n, written.get(code) ?? 0n]
            const difference = micros > rounded ? micros - rounded : rounded - micros
            assert.ok(difference < 10_000n, `${code}: ${micros} is written as ${rounded}`)
            if (micros % 10_000n === 0n) assert.equal(rounded, micros, code)
          }
        }
      }),
      { numRuns: runs(20) },
    )
  })

test('invariant: rounded balances sum to zero and differ from exact ones by less than a cent', () => {
  const amounts = fc.array(fc.bigInt({ min: -50_000_000n, max: 50_000_000n }), { maxLength: 12 })
  fc.assert(
    fc.property(amounts, (some) => {
      const all = [...some, -some.reduce((sum, amount) => sum + amount, 0n)]
      const rounded = roundBalances(new Map(all.map((amount, at) => [at, amount])))
      let sum = 0n
      for (const [at, cents] of rounded) {
        sum += cents
        const difference = cents * 10_000n - (all[at] ?? 0n)
        assert.ok(difference > -10_000n && difference < 10_000n)
      }
      assert.equal(sum, 0n)
    }),
  )
})

test('accounts that the mapping lacks are all listed, without ids of owners, and nothing is written', async () => {
  const log = createMemoryLog()
  const [given = []] = fc.sample(owners, { numRuns: 1, seed: 20_261_121 })
  await writeBooks(log, given)
  const written: string[] = []
  const sink = {
    write: async (data: string | Buffer) => {
      written.push(String(data))
    },
    finish: async () => undefined,
    abandon: async () => undefined,
  }
  const mapping = parseMapping('account,name\nrevenue,Sales\nassets,Assets\n', 'quickbooks')
  const days = { format: 'quickbooks', book: 'service', mapping, from: firstDay, to: afterLastDay } as const
  await assert.rejects(
    exportLedger(
      { log, decode: codec.decode, clock: () => Date.parse('9999-12-31'), calendar: utcCalendar },
      sink,
      days,
    ),
    /^UnmappedAccounts: the mapping has no line for (?:expenses:adjustments:\S+, )+liabilities:holds, liabilities:wallet$/,
  )
  assert.equal(written.join(''), '')
})

const entryOn = (at: string, postings: object) =>
  ({ at, postings }) as unknown as Parameters<ReturnType<typeof dailyWriter>['entry']>[0]

test('a file has at most the lines that its system imports, and the refusal names the day at which to end it', () => {
  const write = (format: DailyFormat, lines: number, days: readonly string[]) => {
    const codes = Array.from({ length: lines - 1 }, (_, at) => `revenue:orders:${at}`)
    const mapping = parseMapping(
      mappingText(format, [['assets', 'bank'], ...codes.map((name) => [name, name] as const)]),
      format,
    )
    const writer = dailyWriter({
      format,
      book: 'service',
      mapping,
      from: '2026-11-01',
      calendar: utcCalendar,
    })
    for (const day of days)
      writer.entry(
        entryOn(`2026-11-${day}T00:00:00.000Z`, [
          { book: 'service', account: 'assets:bank', debitMicros: 10_000 * codes.length, creditMicros: 0 },
          ...codes.map((account) => ({ book: 'service', account, debitMicros: 0, creditMicros: 10_000 })),
        ]),
      )
    return writer.end().split('\r\n').length - 2
  }
  assert.equal(write('xero', 103, ['01', '02']), 206)
  assert.throws(
    () => write('xero', 103, ['01', '02', '03']),
    /309 lines, and xero imports 300: end it with --to 2026-11-03/,
  )
  assert.equal(write('quickbooks', 500, ['01', '02']), 1_000)
  assert.throws(
    () => write('quickbooks', 500, ['01', '02', '03']),
    /1500 lines, and quickbooks imports 1000: end it with --to 2026-11-03/,
  )
})

test('the journals of two books have different numbers and narrations, and a number has at most 21 characters', () => {
  const ids = ['0199f3b2c1d07a3e9b1f2c4d5e6f7a8b', '0199f3b2c1d07a3e9b1f2c4d5e6f7a8c']
  const books = ['service', ...ids.map((id) => `reseller:acc_${id}`)]
  const first = (format: DailyFormat) =>
    books.map((book) => {
      const rows = [['assets', 'code 1'] as const, ['revenue', 'code 2'] as const]
      const mapping = parseMapping(mappingText(format, rows), format)
      const writer = dailyWriter({ format, book, mapping, from: '2026-11-01', calendar: utcCalendar })
      writer.entry(
        entryOn('2026-11-04T00:00:00.000Z', [
          { book, account: 'assets:bank', debitMicros: 10_000, creditMicros: 0 },
          { book, account: 'revenue:sales', debitMicros: 0, creditMicros: 10_000 },
        ]),
      )
      return writer.end().split('\r\n')[1]?.split(',').slice(0, 2)
    })
  assert.deepEqual(first('quickbooks'), [
    ['farebox-2026-11-04', '11/04/2026'],
    ['fb5e6f7a8b-2026-11-04', '11/04/2026'],
    ['fb5e6f7a8c-2026-11-04', '11/04/2026'],
  ])
  assert.deepEqual(first('xero'), [
    ['Farebox 2026-11-04 (UTC)', '04 Nov 2026'],
    ...ids.map((id) => [`Farebox 2026-11-04 (UTC) reseller:acc_${id}`, '04 Nov 2026']),
  ])
})

test('a day of the accounting time zone has a journal, and its narration names the zone', () => {
  const mapping = parseMapping(
    mappingText('xero', [
      ['assets', 'bank'],
      ['revenue', 'sales'],
    ]),
    'xero',
  )
  const calendar = createCalendar('Europe/Berlin')
  const writer = dailyWriter({ format: 'xero', book: 'service', mapping, from: '2026-11-21', calendar })
  for (const at of ['2026-11-21T22:59:59.999Z', '2026-11-21T23:00:00.000Z'])
    writer.entry(
      entryOn(at, [
        { book: 'service', account: 'assets:bank', debitMicros: 10_000, creditMicros: 0 },
        { book: 'service', account: 'revenue:orders:isp', debitMicros: 0, creditMicros: 10_000 },
      ]),
    )
  const narrations = writer.end().match(/Farebox [^,]+/g)
  assert.deepEqual(narrations, [
    'Farebox 2026-11-21 (Europe/Berlin)',
    'Farebox 2026-11-21 (Europe/Berlin)',
    'Farebox 2026-11-22 (Europe/Berlin)',
    'Farebox 2026-11-22 (Europe/Berlin)',
  ])
})

test('a line of a statement is in the journal of its day, also if it was posted later', async (t) => {
  const path = join(await scratch(t), 'file')
  const log = createMemoryLog()
  await playInto(log, datedBack)
  const rows = [...roots.map((root) => [root, 'code 1'] as const), ['assets:bank', 'code 2'] as const]
  for (const [from, to, days, openFrom] of [
    ['2026-11-21', '2026-12-01', ['2026-11-26'], null],
    ['2026-12-01', '2026-12-10', [], '2026-12-01T00:00:00.000Z'],
  ] as const) {
    const request = { format: 'quickbooks', book: 'service', rows, from, to } as const
    const lines = await exportDays(log, path, request)
    const result = await writeDays(log, path, request)
    assert.equal(result.openFrom, openFrom, 'whether the days can still change')
    assert.deepEqual(
      lines.filter(({ code }) => code === 'code 2').map(({ day }) => day),
      days,
    )
  }
})

test('a mapping with an error is refused, and the message says where', () => {
  const wrong: readonly (readonly [string, DailyFormat, RegExp])[] = [
    ['', 'xero', /first line must be account,code,tax_rate/],
    ['account,name\nrevenue,Sales\n', 'xero', /first line must be account,code,tax_rate/],
    ['account,code,tax_rate\n', 'quickbooks', /first line must be account,name/],
    ['account,name\nrevenue,\n', 'quickbooks', /line 2 has an empty cell/],
    ['account,name\nrevenue,Sales\nrevenue,Other\n', 'quickbooks', /line 3 maps revenue again/],
    ['account,name\nrevenue\n', 'quickbooks', /line 2/],
    ['account,name\n"revenue,Sales\n', 'quickbooks', /Quote Not Closed/],
  ]
  for (const [text, format, why] of wrong)
    assert.throws(
      () => parseMapping(text, format),
      (error) => error instanceof MappingProblem && why.test(error.message),
      text,
    )
  const { targetOf } = parseMapping('\ufeffaccount,name\r\n"revenue","Sales: all, net"\r\n\r\n', 'quickbooks')
  assert.equal(targetOf('revenue:orders:isp')?.code, 'Sales: all, net')
  assert.equal(targetOf('revenues'), null)
})
