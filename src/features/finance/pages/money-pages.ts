import { serviceBook } from '../../../domain/ledger/books.ts'
import { isoTime } from '../../../kernel/clock.ts'
import { positionToken } from '../../../kernel/log-position.ts'
import { createBatchLoader } from '../../../platform/postgres/batch-loader.ts'
import type { View } from '../../../platform/ui/frame.ts'
import { type Html, html } from '../../../platform/ui/html.ts'
import { type ConsolePage, financePage, type PersonVisit } from '../../../platform/ui/page.ts'
import { type Bar, barsOf, figureCard, tableOf } from '../../../platform/ui/table.ts'
import { accountText } from '../gateway-names.ts'
import { type AccountSums, closingMicros, type DaySum, type JournalHead } from '../journal.ts'
import type { FinanceReader, ReportRange } from '../reader.ts'
import { bookAccountPath, linkedText } from '../trail-pages.ts'
import { signedWriter } from './report-parts.ts'

const dayMs = 86_400_000
const daysShown = 30
/** The largest number of accounts in a table. The page of their parent account has all. */
const maxRows = 20

const write = (micros: bigint): string => signedWriter([micros])(micros)

const total = (amounts: readonly { readonly amountMicros: bigint }[]): bigint =>
  amounts.reduce((sum, { amountMicros }) => sum + amountMicros, 0n)

const size = (micros: bigint): bigint => (micros < 0n ? -micros : micros)

const compareSizes = (a: bigint, b: bigint): number => (size(a) < size(b) ? 1 : size(a) > size(b) ? -1 : 0)

/** Whole cents of each day; `sign` makes credits positive. */
const barsBy = (days: readonly string[], sums: readonly DaySum[], sign: bigint): readonly Bar[] => {
  const micros = new Map<string, bigint>()
  for (const { day, amountMicros } of sums) micros.set(day, (micros.get(day) ?? 0n) + amountMicros * sign)
  return days.map((label) => ({ label, cents: Number((micros.get(label) ?? 0n) / 10_000n) }))
}

const accountLink = (account: string, gateway?: string | null): Html =>
  html`<a href="${bookAccountPath(serviceBook, account)}">${accountText(account, gateway)}</a>`

/** The daily movements of each account below a parent, one plot each, the largest first. */
const plotsOf = (
  days: readonly string[],
  sums: readonly DaySum[],
  { sign, empty }: { readonly sign: bigint; readonly empty: string },
): Html => {
  const accounts = [...Map.groupBy(sums, ({ account }) => account)].sort(([, a], [, b]) =>
    compareSizes(total(a), total(b)),
  )
  if (accounts.length === 0) return html`<div class="empty"><p>${empty}</p></div>`
  return html`<div class="cards">${accounts.slice(0, maxRows).map(
    ([account, of]) => html`<section class="card"><h3>${accountLink(account)}</h3>
<p class="figure">${write(total(of) * sign)}</p>
${barsOf(`${account} on each of the last ${daysShown} days, in USD`, barsBy(days, of, sign))}
</section>`,
  )}</div>`
}

const balancesOf = (caption: string, accounts: readonly AccountSums[], empty: string): Html => {
  const nonZeroSums = accounts
    .filter((sums) => closingMicros(sums) !== 0n)
    .sort((a, b) => compareSizes(closingMicros(a), closingMicros(b)))
  return tableOf({
    caption,
    rows: nonZeroSums.slice(0, maxRows),
    empty,
    columns: [
      { title: 'Account', head: true, cell: ({ account, gateway }) => accountLink(account, gateway) },
      { title: 'Balance, USD', number: true, cell: (sums) => write(closingMicros(sums)) },
    ],
  })
}

/** The sum of the closing balances. */
const sumOf = (accounts: readonly AccountSums[]): bigint =>
  accounts.reduce((sum, each) => sum + closingMicros(each), 0n)

const card = (title: string, micros: bigint, account: string): Html =>
  figureCard(
    title,
    write(micros),
    html`<p><a href="${bookAccountPath(serviceBook, account)}">Show account</a></p>`,
  )

type MoneyReads = {
  readonly journalHead: JournalHead
  readonly reader: Pick<FinanceReader, 'account' | 'byDay'>
}

type Figures = {
  readonly head: number
  readonly receivable: readonly AccountSums[]
  readonly gateways: readonly AccountSums[]
  readonly deposits: readonly DaySum[]
  readonly revenue: readonly DaySum[]
  readonly expenses: readonly DaySum[]
}

/** The figures of the page from a day on. They sum many postings: requests during a read share the next one. */
const createFigures = ({ reader, journalHead }: MoneyReads) => {
  const read = async (firstMs: number): Promise<Figures> => {
    const head = await journalHead()
    const now: ReportRange = {}
    const recentRange: ReportRange = { from: { kind: 'time', atMs: firstMs } }
    const accountFilter = (account: string) => ({ book: serviceBook, account })
    const [receivable, gateways, deposits, revenue, expenses] = await Promise.all([
      reader.account(now, head, accountFilter('assets:receivable')),
      reader.account(now, head, accountFilter('assets:gateway')),
      reader.byDay(recentRange, head, accountFilter('assets:gateway')),
      reader.byDay(recentRange, head, accountFilter('revenue')),
      reader.byDay(recentRange, head, accountFilter('expenses')),
    ])
    return {
      head,
      receivable: receivable.accounts,
      gateways: gateways.accounts,
      deposits: deposits.days,
      revenue: revenue.days,
      expenses: expenses.days,
    }
  }
  const loadFigures = createBatchLoader<number, Figures>(
    async (days) => new Map(await Promise.all(days.map(async (day) => [day, await read(day)] as const))),
  )
  return async (firstMs: number): Promise<Figures> => (await loadFigures(firstMs)) ?? read(firstMs)
}

const money = async (
  figures: ReturnType<typeof createFigures>,
  { nowMs, visitor }: PersonVisit,
): Promise<View> => {
  const firstMs = nowMs - (nowMs % dayMs) - (daysShown - 1) * dayMs
  const days = Array.from({ length: daysShown }, (_, day) => isoTime(firstMs + day * dayMs).slice(0, 10))
  const { head, receivable, gateways, deposits, revenue, expenses } = await figures(firstMs)
  const earned = -total(revenue)
  const spent = total(expenses)
  return {
    title: 'Money',
    body: html`<div class="cards">
${card(`Revenue in ${daysShown} days, USD`, earned, 'revenue')}
${card(`Expenses in ${daysShown} days, USD`, spent, 'expenses')}
${card('Owed after chargebacks, USD', sumOf(receivable), 'assets:receivable')}
${card('Balance at gateways, USD', sumOf(gateways), 'assets:gateway')}
</div>
<h2>Revenue by family</h2>
<p class="soft">Sales less refunds, by day (UTC). Days with more refunds than sales are below the line.</p>
${plotsOf(days, revenue, { sign: -1n, empty: 'Nothing was sold in these days.' })}
<h2>Expenses</h2>
<p class="soft">Expenses of the service's own book: goodwill and corrections. Supplier costs are not in the books.</p>
${plotsOf(days, expenses, { sign: 1n, empty: 'Nothing was spent in these days.' })}
<h2>Deposits by gateway</h2>
<p class="soft">Deposits less refunds, by day.</p>
${plotsOf(days, deposits, { sign: 1n, empty: 'There were no deposits in these days.' })}
<h2>Balances at gateways</h2>
${balancesOf('Balance at each gateway', gateways, 'There were no deposits yet.')}
<h2>Debts</h2>
<p class="soft">Charged-back amounts that the wallet did not cover. The next credits pay them first.</p>
${balancesOf('Accounts with debts, largest first', receivable, 'There are no debts.')}
<p class="soft">As of ${linkedText(positionToken(head), visitor.roles)}</p>`,
    cliEquivalents: [
      `curl "$FINANCE/accounts/revenue?from=${days[0]}" -H "Authorization: Bearer $TOKEN"`,
      'npx farebox ledger account assets:gateway',
      'npx farebox ledger account assets:receivable',
    ],
  }
}

/** Money received, earned, spent and owed. */
export const moneyPages = (reads: MoneyReads): readonly ConsolePage[] => {
  const figures = createFigures(reads)
  return [
    financePage({
      path: '/console/finance/money',
      name: 'showMoney',
      summary: 'Revenue, expenses, deposits by gateway, and debts',
      nav: { label: 'Money', group: 'Finance' },
      show: (visit) => money(figures, visit),
    }),
  ]
}
