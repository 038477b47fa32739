import type pg from 'pg'
import { createBatchLoader } from '../../../platform/postgres/batch-loader.ts'
import { emptyFormInput, fieldOf, problemsOf } from '../../../platform/ui/form.ts'
import { html, nothing } from '../../../platform/ui/html.ts'
import { type ConsolePage, type PersonVisit, personPage, show } from '../../../platform/ui/page.ts'
import { pagedOf, pageRows, pagerOf } from '../../../platform/ui/table.ts'
import { bookForms, momentForms } from '../input-forms.ts'
import type { AccountSums, JournalHead } from '../journal.ts'
import { type FinanceReader, isRange, type ReportRange } from '../reader.ts'
import { asOfBanner } from '../trail-pages.ts'
import { trialBalanceCsv } from '../trial-balance.ts'
import {
  asOfIn,
  checkBook,
  nonEmptyFields,
  problemOf,
  questionOf,
  refuseProblems,
  textOf,
} from './question.ts'
import { spanOf, sumsRow, sumsTable, totalRow } from './sums.ts'

const path = '/console/finance/balance'
/** The default number of parts of an account's name: wallets are one line. */
const usualDepth = 2
const depths = ['1', '2', '3', 'all'] as const

const keyOf = ({ book, account }: AccountSums): string => `${book} ${account}`

const asQuery = (from: string, to: string): string =>
  `?${new URLSearchParams(nonEmptyFields(from === '' ? { as_of: to } : { from, to })).toString()}`.replace(
    /^\?$/,
    '',
  )

type Balances = Awaited<ReturnType<FinanceReader['trialBalance']>>

/** Shares reads, because they sum many postings: equal requests during a read share the next one. */
const createBalances = (reader: Pick<FinanceReader, 'trialBalance'>, journalHead: JournalHead) => {
  type BalanceRequest = {
    readonly range: ReportRange
    readonly book: string | null
    readonly depth: number | null
  }
  const read = async ({ range, ...filter }: BalanceRequest): Promise<Balances> =>
    reader.trialBalance(range, await journalHead(), filter)
  const loadBalances = createBatchLoader<string, Balances>(
    async (keys) =>
      new Map(await Promise.all(keys.map(async (key) => [key, await read(JSON.parse(key))] as const))),
  )
  return async (request: BalanceRequest): Promise<Balances> =>
    (await loadBalances(JSON.stringify(request))) ?? read(request)
}

type BalanceReads = {
  readonly pool: pg.Pool
  readonly journalHead: JournalHead
  readonly balances: ReturnType<typeof createBalances>
}

const readBalances = async ({ balances, journalHead, pool }: BalanceReads, { query, nowMs }: PersonVisit) => {
  const head = await journalHead()
  const { asked: range, problems, typed } = questionOf(query, head, nowMs)
  const depthText = textOf(query, 'depth')
  const depth = depths.find((each) => each === depthText) ?? String(usualDepth)
  let book: string | null = typed.book === '' ? null : typed.book
  let allProblems = problems
  await checkBook(pool, book ?? undefined).catch((error) => {
    allProblems = { ...allProblems, book: problemOf(error) }
    book = null
  })
  const { span, books } = await balances({ range, book, depth: depth === 'all' ? null : Number(depth) })
  return { span, books, depth, typed, problems: allProblems, ranged: isRange(range) }
}

const trialBalance = async (reads: BalanceReads, visit: PersonVisit) => {
  const { span, books, depth, typed, problems, ranged } = await readBalances(reads, visit)
  const asOf = asOfIn({ typed, problems })
  const before = textOf(visit.query, 'before') || null
  const allAccounts = books.flatMap(({ accounts }) => accounts)
  const { rows, next } = pagedOf(
    allAccounts.filter((sums) => before === null || keyOf(sums) > before).slice(0, pageRows + 1),
    keyOf,
  )
  const span_ = nonEmptyFields({ from: typed.from, to: typed.to })
  const fields = { ...nonEmptyFields({ ...typed, depth }) }
  const csv = new URLSearchParams(fields).toString()
  const hrefOf = ({ book, account }: AccountSums): string =>
    `/console/finance/account?${new URLSearchParams({ book, name: account, ...span_ })}`
  const accountsByBook = Map.groupBy(rows, ({ book }) => book)
  return show({
    title: ranged ? 'What changed' : 'Trial balance',
    acts: html`<a class="button" href="/console/finance/balance.csv?${csv}">As CSV</a>`,
    body: html`${asOfBanner(asOf, `${path}${asQuery(typed.from, '')}`)}${problemsOf(problems)}
<form method="get" action="${path}" class="stack" role="search" novalidate>
<div class="cards">
${fieldOf({ name: 'from', label: 'What changed since', hint: 'Left empty: balances.', value: typed.from }, emptyFormInput, problems)}
${fieldOf({ name: 'to', label: 'As of, or before', hint: 'Left empty: now.', value: typed.to }, emptyFormInput, problems)}
${fieldOf({ name: 'book', label: 'Book', hint: `${bookForms}; left empty: all.`, value: typed.book }, emptyFormInput, problems)}
<div class="field"><label for="depth">Parts of names</label><p class="hint">2: all wallets are one line.</p><select id="depth" name="depth">${depths.map(
      (each) =>
        html`<option value="${each}"${each === depth ? { html: ' selected' } : null}>${each}</option>`,
    )}</select></div>
</div>
<p class="hint">A moment is ${momentForms}.</p>
<div class="acts"><button class="first">Show</button></div>
</form>
${spanOf(span, ranged, visit.visitor.roles, asOf)}
${
  rows.length === 0
    ? html`<div class="empty"><p>Nothing was booked.</p></div>`
    : [...accountsByBook].map(
        ([book, accounts]) => html`<h2>Book ${book}</h2>
${sumsTable({
  caption: `Accounts of the book ${book}`,
  rows: [
    ...accounts.map((sums) => sumsRow(sums, hrefOf)),
    totalRow('The whole book', books.find((each) => each.book === book)?.accounts ?? []),
  ],
  ranged,
})}`,
      )
}
${pagerOf(path, fields, { before, next }, { first: 'From the start', next: 'More accounts' })}
${ranged ? html`<p class="soft">Changed by nothing: accounts that only stand there are listed too, so that every column adds up to the book.</p>` : nothing}`,
    same: [
      `curl "$FINANCE/trial-balance${asQuery(typed.from, typed.to)}" -H "Authorization: Bearer $TOKEN"`,
      `npx farebox ledger trial-balance${typed.from === '' ? (typed.to === '' ? '' : ` --as-of ${typed.to}`) : ` --from ${typed.from}${typed.to === '' ? '' : ` --to ${typed.to}`}`}${depth === 'all' ? '' : ` --depth ${depth}`}`,
    ],
  })
}

/** The trial balance as of now or of another moment, and the changes between two moments. */
export const balancePages = ({
  pool,
  journalHead,
  reader,
}: {
  readonly pool: pg.Pool
  readonly journalHead: JournalHead
  readonly reader: Pick<FinanceReader, 'trialBalance'>
}): readonly ConsolePage[] => {
  const reads = { pool, journalHead, balances: createBalances(reader, journalHead) }
  return [
    personPage({
      path,
      name: 'showTrialBalance',
      summary: 'The balance of every account at a moment, or what changed between two',
      for: ['finance'],
      nav: { label: 'Trial balance', group: 'Finance' },
      show: (visit) => trialBalance(reads, visit),
    }),
    personPage({
      path: '/console/finance/balance.csv',
      name: 'downloadTrialBalance',
      summary: 'The trial balance as a file',
      for: ['finance'],
      show: async (visit) => {
        const { books, problems } = await readBalances(reads, visit)
        refuseProblems(problems)
        return {
          kind: 'file',
          name: 'trial-balance.csv',
          mediaType: 'text/csv',
          content: `${trialBalanceCsv(books)}\n`,
        }
      },
    }),
  ]
}
