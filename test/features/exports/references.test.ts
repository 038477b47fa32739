import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Entry } from '../../../src/domain/finance/entries.ts'
import {
  beancountWriter,
  csvWriter,
  factsOf,
  hledgerWriter,
  type JournalWriter,
} from '../../../src/features/exports/journal-formats.ts'
import { utcCalendar } from '../../../src/kernel/calendar.ts'
import fc from '../../support/fast-check.ts'

const head = { logId: 'log_1', book: null, gatewayOf: () => null, calendar: utcCalendar }

const entryOf = (reference: string) =>
  ({
    position: 7,
    eventId: 'evt_1',
    type: 'WalletCredited',
    kind: 'payment_elsewhere',
    accountId: 'acc_1',
    at: '2026-11-21T02:30:00.000Z',
    orderId: null,
    customerId: null,
    depositId: null,
    reference,
    actor: { kind: 'system', name: 'test' },
    correlationId: 'c',
    postings: [
      { book: 'service', account: 'assets:gateway:manual', debitMicros: 5, creditMicros: 0 },
      { book: 'service', account: 'liabilities:wallet:acc_1', debitMicros: 0, creditMicros: 5 },
    ],
  }) as unknown as Entry

const written = (writer: JournalWriter, reference: string): string => {
  writer.entry(entryOf('first'))
  return writer.entry(entryOf(reference))
}

/** The tags of a comment as hledger reads them: the last word before a colon, and what follows up to a comma. */
const tagsIn = (comment: string): readonly (readonly [string, string])[] =>
  comment.split('\n').flatMap((line) =>
    line.split(',').flatMap((piece) => {
      const colon = piece.indexOf(':')
      const name = piece.slice(0, colon).split(/\s/).at(-1) ?? ''
      return colon === -1 || name === '' ? [] : [[name, piece.slice(colon + 1).trim()] as const]
    }),
  )

/** Pieces that end a value, a line, a string or a cell somewhere, or begin a formula. */
const reference = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        '\n',
        '\r\n',
        ',',
        ':',
        ';',
        '"',
        "'",
        '\\',
        '%',
        '%2C',
        '[2026-01-01]',
        'type:',
        'date:2020-01-01',
        '=1+1',
        '@',
        ' ',
        '\t',
        '\u2028',
        '2026-01-01 * x',
      ),
      fc.string({ unit: 'grapheme', maxLength: 5 }),
    ),
    { minLength: 1, maxLength: 8 },
  )
  .map((pieces) => pieces.join(''))

test('invariant: no reference adds a tag or a line to an export for hledger, and it can be read back', () => {
  fc.assert(
    fc.property(reference, (text) => {
      const lines = written(hledgerWriter(head), text).split('\n')
      const facts = factsOf(entryOf(text))
      assert.equal(lines.length, 1 + facts.length + 2 + 2, 'no line more')
      const comments = lines.slice(1, 1 + facts.length)
      assert.ok(comments.every((line) => line.startsWith('    ; ')))
      const tags = comments.flatMap((line) => tagsIn(line.slice('    ; '.length)))
      assert.deepEqual(
        tags.map(([name]) => name),
        facts.map(([name]) => name),
      )
      const encoded = comments.at(-1)?.slice('    ; reference:'.length) ?? ''
      assert.equal(decodeURIComponent(encoded), text.toWellFormed())
    }),
  )
})

test('invariant: in an export for beancount a reference is one string', () => {
  fc.assert(
    fc.property(reference, (text) => {
      const lines = written(beancountWriter(head), text).split('\n')
      const facts = factsOf(entryOf(text))
      assert.equal(lines.length, 2 + facts.length + 2 + 2, 'no line more')
      const [, inside] = /^ {2}reference: "((?:[^"\\\n]|\\.)*)"$/.exec(lines[1 + facts.length] ?? '') ?? []
      const plain = inside?.replaceAll(/\\(.)/g, (_, each) => ({ n: '\n', r: '\r' })[each as string] ?? each)
      assert.equal(plain, text)
    }),
  )
})

test('invariant: in a CSV export a reference is one cell, and no cell begins a formula', () => {
  fc.assert(
    fc.property(reference, (text) => {
      const row = written(csvWriter(head), text)
      const cells: string[] = []
      for (const [, quoted, bare] of row.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(?:,|\r\n)/g))
        cells.push(quoted?.replaceAll('""', '"') ?? bare ?? '')
      assert.equal(cells.length, 32, 'two rows of sixteen')
      const cell = cells[13] ?? ''
      assert.doesNotMatch(cell, /^[=+\-@\t\r\n]/)
      // An apostrophe precedes the start of a formula, also after a separator at which a spreadsheet may
      // split.
      assert.equal(cell.replaceAll("'", ''), text.replaceAll("'", ''))
    }),
  )
})
