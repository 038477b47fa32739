import type { z } from 'zod'
import { maxReportRows, type Rows, rowFields } from '../../platform/http/report-rows.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import { statementCsv, statementJson, statementText } from './account-statement.ts'
import type { createAccountLookup } from './book-accounts.ts'
import { deferredCsv, deferredJson, deferredText } from './deferred-revenue.ts'
import { type ReportForm, reportForms } from './input-forms.ts'
import { manualEntriesCsv, manualEntriesJson, manualEntriesText } from './manual-entries.ts'
import { type FinanceReader, isRange, type ReportRange } from './reader.ts'
import {
  AccountBalance,
  AccountStatement,
  DeferredRevenue,
  examples,
  ManualEntries,
  TrialBalance,
} from './route-schemas.ts'
import {
  accountBalanceJson,
  spanText,
  sumsTable,
  trialBalanceCsv,
  trialBalanceJson,
  trialBalanceText,
} from './trial-balance.ts'

/** The input of a report, the same over HTTP and on the command line. */
export type ReportQuestion = {
  readonly db: Db
  readonly reader: FinanceReader
  /** The largest position of the answer. */
  readonly head: number
  readonly range: ReportRange
  /** The given text; empty for a report without an account. */
  readonly account: string
  readonly book: string | undefined
  readonly depth: number | undefined
  /** The rows of an answer over HTTP; null: all rows. */
  readonly page: Rows | null
  /** Finds books and accounts, with the messages of the interface. */
  readonly names: ReturnType<typeof createAccountLookup>
}

/** A report in each format. Only the requested format is rendered. */
export type ReportAnswer = {
  json(): object
  csv(): string
  table(): string
}

/**
 * A report of the books, declared once: a command `ledger NAME` with its table, CSV and JSON, and an HTTP operation
 * with its description. Each takes moments and a book; `takes` lists the other arguments.
 */
export type Report = ReportForm & {
  readonly http: {
    readonly path: string
    readonly operationId: string
    readonly summary: string
    /** Markdown. */
    readonly description: string
    readonly examples: {
      readonly params?: { readonly account: string }
      readonly query: Readonly<Record<string, string>>
    }
    readonly answer: { readonly description: string; readonly body: z.ZodType; readonly example: object }
  }
  /** @throws MomentPastHead, errors of `names`, TooManyLines if all lines are requested */
  read(question: ReportQuestion): Promise<ReportAnswer>
}

/** The report has too many lines to print. */
export class TooManyLines extends Error {
  override readonly name = 'TooManyLines'
}

const itemsOnPage = <Item>(items: readonly Item[], page: Rows | null): readonly Item[] =>
  page === null ? items : items.slice(page.offset, page.offset + page.limit)

const pageFields = (total: number, page: Rows | null): object => (page === null ? {} : rowFields(total, page))

const trialBalance: Report = {
  ...reportForms.trialBalance,
  http: {
    path: '/finance/v1/trial-balance',
    operationId: 'getTrialBalance',
    summary: 'Read the trial balance',
    description:
      'The balance of every account in every book, now, at a position or at a time. With `from` or `to`, the answer also has the debits and credits of the range. The balances of each book sum to zero.',
    examples: { query: { as_of: '2026-11-01', book: 'service' } },
    answer: {
      description: 'The balances, sorted by book and account name.',
      body: TrialBalance,
      example: examples.trialBalance,
    },
  },
  read: async ({ db, reader, head, range, book, depth, page, names }) => {
    await names.checkBook(db, book)
    const filter = { book: book ?? null, depth: depth ?? null }
    const { span, books } = await reader.trialBalance(range, head, filter)
    const accounts = books.flatMap((of) => of.accounts)
    return {
      json: () => ({
        ...trialBalanceJson(span, books, itemsOnPage(accounts, page)),
        ...pageFields(accounts.length, page),
      }),
      csv: () => trialBalanceCsv(books),
      table: () => trialBalanceText(span, books, isRange(range)),
    }
  },
}

const account: Report = {
  ...reportForms.account,
  http: {
    path: '/finance/v1/accounts/{account}',
    operationId: 'getAccountBalance',
    summary: 'Read the balance of an account',
    description:
      'The balance of a ledger account and its subaccounts, e.g. `revenue` or `liabilities:wallet:acc_…`. `acc_…` alone selects that wallet. Without `book`, the answer is for the service’s book, or for the only book with the account.',
    examples: { params: { account: 'revenue' }, query: { from: '2026-10-01', to: '2026-11-01' } },
    answer: { description: 'The balance.', body: AccountBalance, example: examples.account },
  },
  read: async ({ db, reader, head, range, account: accountText, book: of, page, names }) => {
    const found = await names.namedAccount(db, accountText, { book: of, below: true })
    const { span, accounts } = await reader.account(range, head, found)
    const { book, account: name } = found
    return {
      json: () => ({
        ...accountBalanceJson(span, { book, accounts }, name, itemsOnPage(accounts, page)),
        ...pageFields(accounts.length, page),
      }),
      csv: () => trialBalanceCsv([{ book, accounts }]),
      table: () =>
        `${name} in the book ${book}, US dollars, ${spanText(span, isRange(range))}\n\n${sumsTable(accounts, isRange(range))}`,
    }
  },
}

const statement: Report = {
  ...reportForms.statement,
  http: {
    path: '/finance/v1/accounts/{account}/statement',
    operationId: 'getAccountStatement',
    summary: 'Read the lines of an account',
    description:
      'The lines of one ledger account, oldest first, with the balance after each line. Without `book`, the answer is for the service’s book, or for the only book with the account.',
    examples: { params: { account: 'revenue:orders:isp' }, query: { from: '2026-10-01' } },
    answer: { description: 'The lines.', body: AccountStatement, example: examples.statement },
  },
  read: async ({ db, reader, head, range, account: accountText, book, page, names }) => {
    const found = await names.namedAccount(db, accountText, { book, below: false })
    const filter = { ...found, below: false }
    if (page === null) {
      const { lines } = (await reader.totals(range, head, filter)).totals
      if (lines > maxReportRows) throw new TooManyLines(`${lines} lines are too many for a statement`)
    }
    const shown = await reader.statement(range, head, filter, page ?? { limit: maxReportRows, offset: 0 })
    return {
      json: () => ({ ...statementJson(shown), ...pageFields(shown.totals.lines, page) }),
      csv: () => statementCsv(shown),
      table: () => statementText(shown),
    }
  },
}

const deferredRevenue: Report = {
  ...reportForms.deferredRevenue,
  http: {
    path: '/finance/v1/deferred-revenue',
    operationId: 'getDeferredRevenue',
    summary: 'Read what was sold and not delivered',
    description:
      'Revenue is booked at the sale. This is what of it was not delivered at a moment, by product: rentals and plans of time by the rest of their time (straight line), plans of traffic by their unused bytes. It is computed from the log as of that moment; a long log takes some time.',
    examples: { query: { as_of: '2026-11-01' } },
    answer: {
      description: 'What was not delivered.',
      body: DeferredRevenue,
      example: examples.deferredRevenue,
    },
  },
  read: async ({ reader, head, range, page }) => {
    const { span, lines } = await reader.deferredRevenue(range, head, null)
    return {
      json: () => ({
        ...deferredJson(span, lines, itemsOnPage(lines, page)),
        ...pageFields(lines.length, page),
      }),
      csv: () => deferredCsv(lines),
      table: () => deferredText(span, lines),
    }
  },
}

const manualEntries: Report = {
  ...reportForms.manualEntries,
  http: {
    path: '/finance/v1/manual-entries',
    operationId: 'listManualEntries',
    summary: 'List the entries by hand',
    description:
      'Every entry that a person made by hand, oldest first: when it was recorded and how it is dated in the books, who made, proposed and approved it, why, from which file, and what it moved. These are credits, adjustments and refunds by operators, adjustments of customers by resellers, fees and payouts that were posted from files, and their corrections.',
    examples: { query: { from: '2026-10-01', to: '2026-11-01' } },
    answer: { description: 'The entries.', body: ManualEntries, example: examples.manualEntries },
  },
  read: async ({ db, reader, head, range, book, page, names }) => {
    await names.checkBook(db, book)
    const all = { limit: maxReportRows, offset: 0 }
    const { span, total, entries } = await reader.byHand(range, head, book ?? null, page ?? all)
    if (page === null && total > maxReportRows)
      throw new TooManyLines(`${total} entries are too many to print`)
    return {
      json: () => ({ ...manualEntriesJson(span, entries), ...pageFields(total, page) }),
      csv: () => manualEntriesCsv(entries),
      table: () => manualEntriesText(span, entries),
    }
  },
}

/** In the order of the list of commands. */
export const reports: readonly Report[] = [trialBalance, account, statement, deferredRevenue, manualEntries]
