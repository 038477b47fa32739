import {
  type BookTime,
  bookTimeAfter,
  type Entry,
  entryOf,
  isStatementLine,
  ledgerOf,
  newResellerOf,
  statementEntryOf,
} from '../src/domain/finance/entries.ts'
import type { EntryKind } from '../src/domain/finance/entry-kinds.ts'
import type { Posting } from '../src/domain/ledger/postings.ts'
import { actorText, type RecordedEvent } from '../src/kernel/event.ts'
import type { AccountId } from '../src/kernel/ids.ts'
import {
  column,
  nullable,
  type ReadModel,
  type RowKey,
  type RowOf,
  type Rows,
  readModel,
  readTable,
} from '../src/platform/projections/read-model.ts'

/**
 * One entry of the journal: a money event, its purpose and its actor. Times are accounting times; in log order they
 * never decrease, except for lines of statements (`dateOfLine`).
 */
const journalEntriesTable = readTable({
  name: 'journal_entries',
  columns: {
    position: column.bigint(),
    at: column.timestamptz(),
    type: column.text(),
    kind: column.text<EntryKind>(),
    /** The account of the ledger stream; null for a line of a provider's statement. */
    accountId: nullable(column.text()),
    /** The time in the provider's statement; null for an entry that is not from one. */
    happenedAt: nullable(column.timestamptz()),
    recordedAt: column.timestamptz(),
    orderId: nullable(column.text()),
    customerId: nullable(column.text()),
    depositId: nullable(column.text()),
    reference: nullable(column.text()),
    reason: nullable(column.text()),
    file: nullable(column.text()),
    fileSha256: nullable(column.text()),
    proposalId: nullable(column.text()),
    /** `key:key_…`, `operator:…` or `system:…`. */
    actor: column.text(),
    correlationId: column.text(),
  },
  key: ['position'],
  // Order ids are random, so a B-tree would take 60 bytes per order and, after it outgrows memory, a page of WAL for
  // nearly every insert. A Bloom filter per 64 pages takes 3 bytes per order; a look-up reads all, in milliseconds.
  indexes: [
    'using brin (order_id text_bloom_ops (n_distinct_per_range = 4000)) with (pages_per_range = 64, autosummarize = on)',
    // Lines of statements, which may be dated before entries with earlier positions.
    'position, at where happened_at is not null',
  ],
  appendOnly: true,
})

/**
 * An account of a book. The legs refer to it by number: its name has about a hundred bytes, and would be in the row
 * and in the index entry of every leg.
 */
const journalAccountsTable = readTable({
  name: 'journal_accounts',
  columns: {
    /** `service` or `reseller:{account}`. */
    book: column.text(),
    account: column.text(),
    /** From 1, in the order of the first use in the log. */
    number: column.bigint(),
  },
  key: ['book', 'account'],
  indexes: ['number'],
})

/** One leg of an entry. The legs of an entry are numbered from 0 over all books. */
const journalPostingsTable = readTable({
  name: 'journal_postings',
  columns: {
    position: column.bigint(),
    leg: column.integer(),
    accountNumber: column.bigint(),
    /** Micro-dollars: a debit if positive, a credit if negative. */
    amountMicros: column.bigint(),
  },
  key: ['position', 'leg'],
  indexes: ['account_number, position'],
  appendOnly: true,
})

/** The first event of each second of accounting time with an event, to find the position of a time without the log. */
const journalSecondsTable = readTable({
  name: 'journal_seconds',
  columns: {
    position: column.bigint(),
    at: column.timestamptz(),
  },
  key: ['position'],
  indexes: ['at'],
  appendOnly: true,
})

/** One row: the time of the books as of the last folded event, and the number of numbered accounts. */
const journalClockTable = readTable({
  name: 'journal_clock',
  columns: {
    name: column.text<'now'>(),
    at: column.timestamptz(),
    openFrom: column.timestamptz(),
    accounts: column.bigint(),
  },
  key: ['name'],
})

export type JournalClockRow = RowOf<typeof journalClockTable>

const journalResellersTable = readTable({
  name: 'journal_resellers',
  columns: {
    accountId: column.text(),
  },
  key: ['accountId'],
})

const clockKey = ['now'] as const
/** The length of `2026-11-21T02:30:00` in `2026-11-21T02:30:00.000Z`. */
const secondLength = 19

/** Advances the time of the books and returns it as of the event. */
const passTime = (event: Parameters<ReadModel['apply']>[0], rows: Rows): BookTime => {
  const before = rows.get(journalClockTable, clockKey)
  const time = bookTimeAfter(before ?? null, event)
  if (time === before) return time
  const { at, openFrom } = time
  rows.put(journalClockTable, { name: 'now', at, openFrom, accounts: before?.accounts ?? 0 })
  if (at.slice(0, secondLength) !== before?.at.slice(0, secondLength))
    rows.add(journalSecondsTable, { position: event.position, at })
  return time
}

/** The number of an account. A new account gets the next number. */
const numberOf = ({ book, account }: Posting, rows: Rows): number => {
  const existing = rows.get(journalAccountsTable, [book, account])
  if (existing) return existing.number
  const clock = rows.get(journalClockTable, clockKey) as JournalClockRow
  const number = clock.accounts + 1
  rows.put(journalClockTable, { ...clock, accounts: number })
  rows.put(journalAccountsTable, { book, account, number })
  return number
}

const book = (entry: Entry, rows: Rows): void => {
  rows.add(journalEntriesTable, {
    position: entry.position,
    at: entry.at,
    type: entry.type,
    kind: entry.kind,
    accountId: entry.accountId,
    happenedAt: entry.happenedAt,
    recordedAt: entry.recordedAt,
    orderId: entry.orderId,
    customerId: entry.customerId,
    depositId: entry.depositId,
    reference: entry.reference,
    reason: entry.reason,
    file: entry.file,
    fileSha256: entry.fileSha256,
    proposalId: entry.proposalId,
    actor: actorText(entry.actor),
    correlationId: entry.correlationId,
  })
  for (const [leg, posting] of entry.postings.entries())
    rows.add(journalPostingsTable, {
      position: entry.position,
      leg,
      accountNumber: numberOf(posting, rows),
      amountMicros: posting.debitMicros - posting.creditMicros,
    })
}

const noKeys: readonly never[] = []

/**
 * The accounts that an event moves, including those in a reseller's book. `apply` reads a row to find out whether the
 * account is a reseller.
 */
const accountsOf = (event: RecordedEvent, accountId: AccountId): readonly RowKey[] =>
  keysOf(entryOf(event, { accountId, reseller: true, at: '' }))

/** For the accounts of an entry, which do not depend on its time. */
const anyTime: BookTime = { at: '', openFrom: '' }

const keysOf = ({ postings }: Entry): readonly RowKey[] =>
  postings.map(({ book, account }) => ({ table: journalAccountsTable.name, key: [book, account] }))

/**
 * The double entries of every money event, in every book. Its rows are never changed. For an order it writes one
 * entry and its legs, and looks up whether the account is a reseller and the numbers of the moved accounts.
 */
export const journal = readModel({
  name: 'journal',
  version: 8,
  tables: [
    journalEntriesTable,
    journalAccountsTable,
    journalPostingsTable,
    journalSecondsTable,
    journalClockTable,
    journalResellersTable,
  ],
  reads: (event) => {
    if (isStatementLine(event)) return keysOf(statementEntryOf(event, anyTime))
    const accountId = ledgerOf(event)
    if (accountId === null) return noKeys
    return [{ table: journalResellersTable.name, key: [accountId] }, ...accountsOf(event, accountId)]
  },
  apply: (event, rows) => {
    const time = passTime(event, rows)
    const accountId = ledgerOf(event)
    if (accountId !== null) {
      const reseller = rows.get(journalResellersTable, [accountId]) !== undefined
      return book(entryOf(event, { accountId, reseller, at: time.at }), rows)
    }
    if (isStatementLine(event)) return book(statementEntryOf(event, time), rows)
    const reseller = newResellerOf(event)
    if (reseller !== null) rows.put(journalResellersTable, { accountId: reseller })
  },
})
