import {
  type Entry,
  entryOf,
  isStatementLine,
  laterOf,
  ledgerOf,
  newResellerOf,
  statementEntryOf,
} from '../src/domain/finance/entries.ts'
import type { Posting } from '../src/domain/ledger/postings.ts'
import { actorText, type RecordedEvent } from '../src/kernel/event.ts'
import type { AccountId } from '../src/kernel/ids.ts'
import type { ReadModel, RowKey, Rows, Table } from '../src/platform/projections/read-model.ts'

/** One entry of the journal: a money event, its purpose and its actor. Times are accounting times. */
export type JournalEntryRow = {
  readonly position: number
  readonly at: string
  readonly type: string
  /** The account of the ledger stream; null for a line of a provider's statement. */
  readonly account_id: string | null
  readonly order_id: string | null
  readonly customer_id: string | null
  readonly deposit_id: string | null
  readonly reference: string | null
  /** `key:key_…`, `operator:…` or `system:…`. */
  readonly actor: string
  readonly correlation_id: string
}

/**
 * An account of a book. The legs refer to it by number: its name has about a hundred bytes, and would be in the row
 * and in the index entry of every leg.
 */
export type JournalAccountRow = {
  /** `service` or `reseller:{account}`. */
  readonly book: string
  readonly account: string
  /** From 1, in the order of the first use in the log. */
  readonly number: number
}

/** One leg of an entry. The legs of an entry are numbered from 0 over all books. */
export type JournalPostingRow = {
  readonly position: number
  readonly leg: number
  readonly account_number: number
  /** Micro-dollars: a debit if positive, a credit if negative. */
  readonly amount_micros: number
}

/** The first event of each second of accounting time with an event, to find the position of a time without the log. */
export type JournalSecondRow = { readonly position: number; readonly at: string }

/** One row: the accounting time as of the last folded event, and the number of numbered accounts. */
export type JournalClockRow = { readonly name: 'now'; readonly at: string; readonly accounts: number }

export type JournalResellerRow = { readonly account_id: string }

const journalEntriesTable: Table<JournalEntryRow> = {
  name: 'journal_entries',
  columns: {
    position: { type: 'bigint' },
    at: { type: 'timestamptz' },
    type: { type: 'text' },
    account_id: { type: 'text', nullable: true },
    order_id: { type: 'text', nullable: true },
    customer_id: { type: 'text', nullable: true },
    deposit_id: { type: 'text', nullable: true },
    reference: { type: 'text', nullable: true },
    actor: { type: 'text' },
    correlation_id: { type: 'text' },
  },
  key: ['position'],
  // Order ids are random, so a B-tree would take 60 bytes per order and, after it outgrows memory, a page of WAL for
  // nearly every insert. A Bloom filter per 64 pages takes 3 bytes per order; a look-up reads all, in milliseconds.
  indexes: [
    'using brin (order_id text_bloom_ops (n_distinct_per_range = 4000)) with (pages_per_range = 64, autosummarize = on)',
  ],
  appendOnly: true,
}

const journalAccountsTable: Table<JournalAccountRow> = {
  name: 'journal_accounts',
  columns: { book: { type: 'text' }, account: { type: 'text' }, number: { type: 'bigint' } },
  key: ['book', 'account'],
  indexes: ['number'],
}

const journalPostingsTable: Table<JournalPostingRow> = {
  name: 'journal_postings',
  columns: {
    position: { type: 'bigint' },
    leg: { type: 'integer' },
    account_number: { type: 'bigint' },
    amount_micros: { type: 'bigint' },
  },
  key: ['position', 'leg'],
  indexes: ['account_number, position'],
  appendOnly: true,
}

const journalSecondsTable: Table<JournalSecondRow> = {
  name: 'journal_seconds',
  columns: { position: { type: 'bigint' }, at: { type: 'timestamptz' } },
  key: ['position'],
  indexes: ['at'],
  appendOnly: true,
}

const journalClockTable: Table<JournalClockRow> = {
  name: 'journal_clock',
  columns: { name: { type: 'text' }, at: { type: 'timestamptz' }, accounts: { type: 'bigint' } },
  key: ['name'],
  indexes: [],
}

const journalResellersTable: Table<JournalResellerRow> = {
  name: 'journal_resellers',
  columns: { account_id: { type: 'text' } },
  key: ['account_id'],
  indexes: [],
}

const clockKey = ['now'] as const
/** The length of `2026-11-21T02:30:00` in `2026-11-21T02:30:00.000Z`. */
const secondLength = 19

/** Advances the accounting time and returns it as of the event. */
const passTime = (event: Parameters<ReadModel['apply']>[0], rows: Rows): string => {
  const before = rows.get(journalClockTable, clockKey)
  const at = laterOf(before?.at ?? null, event.metadata.recordedAt)
  if (at === before?.at) return at
  rows.put(journalClockTable, { name: 'now', at, accounts: before?.accounts ?? 0 })
  if (at.slice(0, secondLength) !== before?.at.slice(0, secondLength))
    rows.add(journalSecondsTable, { position: event.position, at })
  return at
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
    account_id: entry.accountId,
    order_id: entry.orderId,
    customer_id: entry.customerId,
    deposit_id: entry.depositId,
    reference: entry.reference,
    actor: actorText(entry.actor),
    correlation_id: entry.correlationId,
  })
  for (const [leg, posting] of entry.postings.entries())
    rows.add(journalPostingsTable, {
      position: entry.position,
      leg,
      account_number: numberOf(posting, rows),
      amount_micros: posting.debitMicros - posting.creditMicros,
    })
}

const noKeys: readonly never[] = []

/**
 * The accounts that an event moves, including those in a reseller's book. `apply` reads a row to find out whether the
 * account is a reseller.
 */
const accountsOf = (event: RecordedEvent, accountId: AccountId): readonly RowKey[] =>
  keysOf(entryOf(event, { accountId, reseller: true, at: '' }))

const keysOf = ({ postings }: Entry): readonly RowKey[] =>
  postings.map(({ book, account }) => ({ table: journalAccountsTable.name, key: [book, account] }))

/**
 * The double entries of every money event, in every book. Its rows are never changed. For an order it writes one
 * entry and its legs, and looks up whether the account is a reseller and the numbers of the moved accounts.
 */
export const journal: ReadModel = {
  name: 'journal',
  version: 5,
  tables: [
    journalEntriesTable,
    journalAccountsTable,
    journalPostingsTable,
    journalSecondsTable,
    journalClockTable,
    journalResellersTable,
  ],
  reads: (event) => {
    if (isStatementLine(event)) return keysOf(statementEntryOf(event, ''))
    const accountId = ledgerOf(event)
    if (accountId === null) return noKeys
    return [{ table: journalResellersTable.name, key: [accountId] }, ...accountsOf(event, accountId)]
  },
  apply: (event, rows) => {
    const at = passTime(event, rows)
    const accountId = ledgerOf(event)
    if (accountId !== null) {
      const reseller = rows.get(journalResellersTable, [accountId]) !== undefined
      return book(entryOf(event, { accountId, reseller, at }), rows)
    }
    if (isStatementLine(event)) return book(statementEntryOf(event, at), rows)
    const reseller = newResellerOf(event)
    if (reseller !== null) rows.put(journalResellersTable, { account_id: reseller })
  },
}
