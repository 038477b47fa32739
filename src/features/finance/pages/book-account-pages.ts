import { Readable } from 'node:stream'
import type pg from 'pg'
import { productsOfOrders } from '../../../../projections/orders.ts'
import type { Catalog } from '../../../domain/catalog/catalog.ts'
import { kindText } from '../../../domain/finance/entry-kinds.ts'
import type { Calendar } from '../../../kernel/calendar.ts'
import { parsePosition, positionToken } from '../../../kernel/log-position.ts'
import type { Db } from '../../../platform/postgres/kysely.ts'
import { fieldOf, problemsOf } from '../../../platform/ui/form.ts'
import type { View } from '../../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../../platform/ui/html.ts'
import { pagedOf, pageRows, pagerOf } from '../../../platform/ui/list.ts'
import {
  type ConsolePage,
  fileOf,
  financePage,
  type PageOutcome,
  type PersonVisit,
} from '../../../platform/ui/page.ts'
import { tableOf } from '../../../platform/ui/table.ts'
import { buttonLink, queryText, timeText } from '../../../platform/ui/text.ts'
import { emailsOf } from '../../accounts/index.ts'
import { productName } from '../../catalog/index.ts'
import { statementCsv } from '../account-statement.ts'
import { accountText } from '../gateway-names.ts'
import type { StatementLine } from '../journal.ts'
import { closingMicros, type JournalHead } from '../journal.ts'
import { type FinanceReader, isRange, type ReportRange } from '../reader.ts'
import { asOfBanner, linkedText } from '../trail-pages.ts'
import {
  asOfIn,
  namedAccount,
  nonEmptyFields,
  parseReportQuery,
  problemOf,
  refuseProblems,
  sidedWriter,
  spanOf,
  sumsRow,
  sumsTable,
  textOf,
  totalRow,
} from './report-parts.ts'

const path = '/console/finance/account'

type BookAccount = { readonly book: string; readonly account: string }

/** Cuts the lines to one page, given one line more. Entries are not split: the next page begins after whole entries. */
const pageOfLines = (
  lines: readonly StatementLine[],
): { readonly rows: readonly StatementLine[]; readonly next: string | null } => {
  const extraLine = lines[pageRows]
  if (extraLine === undefined) return { rows: lines, next: null }
  const wholeEntries = lines.slice(0, pageRows).filter(({ position }) => position > extraLine.position)
  const rows = wholeEntries.length > 0 ? wholeEntries : lines
  return { rows, next: String(rows.at(-1)?.position ?? 0) }
}

const linesOf = async (
  reads: BookAccountReads,
  { query, visitor }: PersonVisit,
  head: number,
  found: BookAccount,
  range: ReportRange,
  fields: Readonly<Record<string, string>>,
  asOf: string,
): Promise<Html> => {
  const { roles } = visitor
  const before = parsePosition(textOf(query, 'before'))
  const filter = { ...found, below: false }
  const statement = await reads.reader.statement(range, head, filter, { limit: pageRows + 1, before })
  const { rows, next } = pageOfLines(statement.lines)
  const products = await productsOfOrders(
    reads.db,
    rows.flatMap(({ orderId }) => orderId ?? []),
  )
  const amount = sidedWriter(rows.flatMap((line) => [line.amountMicros, line.balanceMicros]))
  return html`<h2>Lines</h2>
${tableOf({
  caption: 'Lines of the account, newest first',
  rows,
  empty: 'There are no lines.',
  columns: [
    {
      title: 'Entry',
      head: true,
      cell: (line) =>
        html`<a href="/console/trail/${positionToken(line.position)}${queryText(asOf ? { to: asOf } : {})}" title="${line.type}">${kindText(line.kind)}</a><br><small class="soft">${timeText(line.at)}</small>`,
    },
    {
      title: 'Subject',
      cell: (line) => {
        const product = line.orderId === null ? undefined : products.get(line.orderId)
        const ids = [line.orderId, line.depositId, line.customerId, line.reference]
        return html`${product === undefined ? null : html`${productName(reads.catalog, product)}<br>`}<small>${linkedText(ids.filter((id) => id !== null).join(' '), roles, asOf)}</small>`
      },
    },
    { title: 'Counter accounts', place: 'minor', cell: ({ against }) => against.join(', ') },
    { title: 'Amount', number: true, place: 'lead', cell: ({ amountMicros }) => amount(amountMicros) },
    { title: 'Balance', number: true, cell: ({ balanceMicros }) => amount(balanceMicros) },
  ],
})}
${pagerOf(path, fields, { before: before === null ? null : String(before), next })}`
}

type BookAccountReads = {
  readonly pool: pg.Pool
  readonly db: Db
  readonly calendar: Calendar
  readonly catalog: { current(): Pick<Catalog, 'resolve'> }
  readonly journalHead: JournalHead
  readonly reader: Pick<FinanceReader, 'account' | 'statement'>
}

const account = async (reads: BookAccountReads, visit: PersonVisit): Promise<View> => {
  const { db, calendar, journalHead, reader } = reads
  const { query, nowMs, visitor } = visit
  const head = await journalHead()
  const { range, problems, typed } = parseReportQuery(query, head, { nowMs, calendar })
  const name = textOf(query, 'name')
  let allProblems = problems
  const found =
    name === ''
      ? null
      : await namedAccount(db, name, { book: typed.book === '' ? null : typed.book, below: true }).catch(
          (error) => {
            allProblems = { ...allProblems, name: problemOf(error) }
            return null
          },
        )
  const formState = { ...visit.form, problems: allProblems }
  const form = html`${problemsOf(allProblems)}
<form method="get" action="${path}" class="stack" role="search" aria-label="Filter" novalidate>
<div class="cards">
${fieldOf({ name: 'name', label: 'Account', hint: 'A name such as revenue, or acc_… for its wallet, cus_…, crd_….', required: true, value: name }, formState)}
${fieldOf({ name: 'book', label: 'Book', hint: 'Empty: the only book with this account.', value: typed.book }, formState)}
${fieldOf({ name: 'from', label: 'From', hint: 'A position, a date or a time.', value: typed.from }, formState)}
${fieldOf({ name: 'to', label: 'As of, or before', hint: 'Empty: now.', value: typed.to }, formState)}
</div>
<div class="actions"><button class="first">Show</button></div>
</form>`
  if (found === null)
    return { title: 'Ledger account', body: form, cliEquivalents: ['bin/farebox ledger account NAME'] }
  const { span, accounts } = await reader.account(range, head, found)
  const ranged = isRange(range)
  const times = nonEmptyFields({ from: typed.from, to: typed.to })
  const fields = { name: found.account, book: found.book, ...times }
  const asOf = asOfIn({ typed, problems })
  const childAccounts = accounts.filter((each) => each.account !== found.account)
  const ownSums = accounts.find((each) => each.account === found.account)
  const before = textOf(query, 'before')
  const { rows, next } = pagedOf(
    childAccounts.filter((each) => before === '' || each.account > before).slice(0, pageRows + 1),
    (each) => each.account,
  )
  const [ownerId] = /acc_[0-9a-f]{32}$/.exec(found.account) ?? []
  const email = ownerId && (await emailsOf(reads.pool, [ownerId])).get(ownerId)
  const closing = accounts.reduce((sum, each) => sum + closingMicros(each), 0n)
  return {
    title: accountText(found.account, ownSums?.gateway),
    ...(childAccounts.length === 0 && {
      actions: buttonLink(`/console/finance/statement.csv${queryText(fields)}`, 'Download CSV'),
    }),
    body: html`${asOfBanner(asOf, `${path}${queryText({ ...fields, to: '' })}`)}<p>Book ${found.book}${email === undefined ? null : html`, owner ${email}`}</p>
<p class="figure">${sidedWriter([closing])(closing)}</p>
${spanOf(span, ranged, visitor.roles, asOf)}
${
  childAccounts.length === 0
    ? nothing
    : html`<h2>Sub-accounts</h2>
${sumsTable({
  caption: 'Sub-accounts',
  rows: [
    ...rows.map((sums) =>
      sumsRow(sums, (each) => `${path}${queryText({ name: each.account, book: each.book, ...times })}`),
    ),
    totalRow('Total', accounts),
  ],
  ranged,
})}
${pagerOf(path, fields, { before: before || null, next }, { first: 'First accounts', next: 'More accounts' })}`
}
${childAccounts.length === 0 ? await linesOf(reads, visit, head, found, range, fields, asOf) : nothing}
<h2>Show another account or time</h2>
${form}`,
    cliEquivalents: [
      `curl "$FINANCE/accounts/${encodeURIComponent(found.account)}/statement" -H "Authorization: Bearer $TOKEN"`,
      `bin/farebox ledger account ${found.account}`,
      `bin/farebox ledger statement ${found.account}`,
    ],
  }
}

/** Lines of the file that are read at once. */
const linesAtOnce = 5_000

/** Streams the lines of an account as a file, in batches, so that memory does not depend on its length. */
async function* statementFile(
  reader: Pick<FinanceReader, 'statement'>,
  head: number,
  found: BookAccount,
  range: ReportRange,
): AsyncGenerator<string> {
  let heading = true
  for (let after = 0; ; ) {
    const filter = { ...found, below: false }
    const { lines, ...statement } = await reader.statement(range, head, filter, { limit: linesAtOnce, after })
    // An entry may have several lines of one account. The last entry may continue in the next batch.
    const last = lines.at(-1)?.position ?? after
    const wholeEntries = lines.length < linesAtOnce ? lines : lines.filter(({ position }) => position < last)
    if (wholeEntries.length === 0 && lines.length > 0)
      throw new Error(`the entry at ${last} has ${linesAtOnce} lines of one account or more`)
    const text = `${statementCsv({ ...statement, lines: wholeEntries })}\n`
    yield heading ? text : text.slice(text.indexOf('\n') + 1)
    if (lines.length < linesAtOnce) return
    heading = false
    after = last - 1
  }
}

const statementCsvOf = async (
  { db, calendar, journalHead, reader }: BookAccountReads,
  { query, nowMs }: PersonVisit,
): Promise<PageOutcome> => {
  const head = await journalHead()
  const { range, problems, typed } = parseReportQuery(query, head, { nowMs, calendar })
  refuseProblems(problems)
  const book = typed.book === '' ? null : typed.book
  const found = await namedAccount(db, textOf(query, 'name'), { book, below: true })
  return fileOf('statement.csv', Readable.from(statementFile(reader, head, found, range)))
}

/** An account of the books: the accounts below it, or its lines, each with a link to its event. */
export const bookAccountPages = (reads: BookAccountReads): readonly ConsolePage[] => [
  financePage({
    path,
    name: 'showBookAccount',
    summary: 'A ledger account with its lines',
    show: (visit) => account(reads, visit),
  }),
  financePage({
    path: '/console/finance/statement.csv',
    name: 'downloadStatement',
    summary: 'The lines of a ledger account as a file',
    show: (visit) => statementCsvOf(reads, visit),
  }),
]
