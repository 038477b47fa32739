import type { Calendar } from '../../../kernel/calendar.ts'
import { createSharedRead } from '../../../platform/postgres/batch-loader.ts'
import type { Db } from '../../../platform/postgres/kysely.ts'
import { choicesFrom, fieldOf, problemsOf, selectOf } from '../../../platform/ui/form.ts'
import { html, nothing } from '../../../platform/ui/html.ts'
import { pagedOf, pageRows, pagerOf } from '../../../platform/ui/list.ts'
import { type ConsolePage, fileOf, financePage, type PersonVisit } from '../../../platform/ui/page.ts'
import { buttonLink, oneOf, queryText } from '../../../platform/ui/text.ts'
import { bookForms, momentForms } from '../input-forms.ts'
import type { AccountSums, JournalHead } from '../journal.ts'
import { type FinanceReader, isRange, type ReportRange } from '../reader.ts'
import { asOfBanner } from '../trail-pages.ts'
import { trialBalanceCsv } from '../trial-balance.ts'
import {
  asOfIn,
  checkBook,
  nonEmptyFields,
  parseReportQuery,
  problemOf,
  refuseProblems,
  spanOf,
  sumsRow,
  sumsTable,
  textOf,
  totalRow,
} from './report-parts.ts'

const path = '/console/finance/balance'
/** The default number of parts of an account's name: all wallets are one line. */
const usualDepth = '2'
const depths = ['1', '2', '3', 'all'] as const

const keyOf = ({ book, account }: AccountSums): string => `${book} ${account}`

const rangeQuery = (from: string, to: string): string =>
  queryText(nonEmptyFields(from === '' ? { as_of: to } : { from, to }))

type Balances = Awaited<ReturnType<FinanceReader['trialBalance']>>

/** Shares reads, because they sum many postings: equal requests during a read share the next one. */
const createBalances = (reader: Pick<FinanceReader, 'trialBalance'>, journalHead: JournalHead) => {
  type BalanceRequest = {
    readonly range: ReportRange
    readonly book: string | null
    readonly depth: number | null
  }
  const read = createSharedRead(async (request: string): Promise<Balances> => {
    const { range, ...filter }: BalanceRequest = JSON.parse(request)
    return reader.trialBalance(range, await journalHead(), filter)
  })
  return (request: BalanceRequest) => read(JSON.stringify(request))
}

/** The trial balance as of now or of another moment, and the changes between two moments. */
export const balancePages = ({
  db,
  calendar,
  journalHead,
  reader,
}: {
  readonly db: Db
  readonly calendar: Calendar
  readonly journalHead: JournalHead
  readonly reader: Pick<FinanceReader, 'trialBalance'>
}): readonly ConsolePage[] => {
  const balances = createBalances(reader, journalHead)

  const readBalances = async ({ query, nowMs }: PersonVisit) => {
    const { range, problems, typed } = parseReportQuery(query, await journalHead(), { nowMs, calendar })
    const depth = oneOf(depths, textOf(query, 'depth')) ?? usualDepth
    const allProblems: Record<string, string> = { ...problems }
    let book: string | null = typed.book || null
    await checkBook(db, book ?? undefined).catch((error) => {
      allProblems.book = problemOf(error)
      book = null
    })
    const { span, books } = await balances({ range, book, depth: depth === 'all' ? null : Number(depth) })
    return { span, books, depth, typed, problems: allProblems, ranged: isRange(range) }
  }

  return [
    financePage({
      path,
      name: 'showTrialBalance',
      summary: 'The balance of every account at a moment, or the changes between two moments',
      show: async (visit) => {
        const { span, books, depth, typed, problems, ranged } = await readBalances(visit)
        const form = { ...visit.form, problems }
        const asOf = asOfIn({ typed, problems })
        const before = textOf(visit.query, 'before') || null
        const { rows, next } = pagedOf(
          books
            .flatMap(({ accounts }) => accounts)
            .filter((sums) => before === null || keyOf(sums) > before)
            .slice(0, pageRows + 1),
          keyOf,
        )
        const times = nonEmptyFields({ from: typed.from, to: typed.to })
        const fields = nonEmptyFields({ ...typed, depth })
        const hrefOf = ({ book, account }: AccountSums): string =>
          `/console/finance/account${queryText({ book, name: account, ...times })}`
        const rangeOptions =
          typed.from === ''
            ? typed.to && ` --as-of ${typed.to}`
            : ` --from ${typed.from}${typed.to && ` --to ${typed.to}`}`
        return {
          title: ranged ? 'Changes' : 'Trial balance',
          actions: buttonLink(`/console/finance/balance.csv${queryText(fields)}`, 'Download CSV'),
          body: html`${asOfBanner(asOf, `${path}${rangeQuery(typed.from, '')}`)}${problemsOf(problems)}
<form method="get" action="${path}" class="stack" role="search" aria-label="Filter" novalidate>
<div class="cards">
${fieldOf({ name: 'from', label: 'Changes since', hint: 'Empty: balances.', value: typed.from }, form)}
${fieldOf({ name: 'to', label: 'As of, or before', hint: 'Empty: now.', value: typed.to }, form)}
${fieldOf({ name: 'book', label: 'Book', hint: `${bookForms}. Empty: all.`, value: typed.book }, form)}
${selectOf({ name: 'depth', label: 'Level of detail', hint: '2: one line for all wallets.', choices: choicesFrom(depths), value: depth }, form)}
</div>
<p class="hint">A moment is ${momentForms}.</p>
<div class="actions"><button class="first">Show</button></div>
</form>
${spanOf(span, ranged, visit.visitor.roles, asOf)}
${
  rows.length === 0
    ? html`<div class="empty"><p>Nothing was booked.</p></div>`
    : [...Map.groupBy(rows, ({ book }) => book)].map(
        ([book, accounts]) => html`<h2>Book ${book}</h2>
${sumsTable({
  caption: `Accounts of the book ${book}`,
  rows: [
    ...accounts.map((sums) => sumsRow(sums, hrefOf)),
    totalRow('Total', books.find((each) => each.book === book)?.accounts ?? []),
  ],
  ranged,
})}`,
      )
}
${pagerOf(path, fields, { before, next }, { first: 'First accounts', next: 'More accounts' })}
${ranged ? html`<p class="soft">Accounts without changes are listed too, so that the columns add up.</p>` : nothing}`,
          cliEquivalents: [
            `curl "$FINANCE/trial-balance${rangeQuery(typed.from, typed.to)}" -H "Authorization: Bearer $TOKEN"`,
            `bin/farebox ledger trial-balance${rangeOptions}${depth === 'all' ? '' : ` --depth ${depth}`}`,
          ],
        }
      },
    }),
    financePage({
      path: '/console/finance/balance.csv',
      name: 'downloadTrialBalance',
      summary: 'The trial balance as a file',
      show: async (visit) => {
        const { books, problems } = await readBalances(visit)
        refuseProblems(problems)
        return fileOf('trial-balance.csv', `${trialBalanceCsv(books)}\n`)
      },
    }),
  ]
}
