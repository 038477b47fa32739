import { serviceBook } from '../../../domain/ledger/books.ts'
import { elsewhereAccount } from '../../../domain/ledger/postings.ts'
import type { Calendar } from '../../../kernel/calendar.ts'
import { positionToken } from '../../../kernel/log-position.ts'
import { amountWriter } from '../../../kernel/money.ts'
import { createSharedRead } from '../../../platform/postgres/batch-loader.ts'
import type { View } from '../../../platform/ui/frame.ts'
import { type Html, html } from '../../../platform/ui/html.ts'
import { type ConsolePage, financePage, goTo, type PersonVisit } from '../../../platform/ui/page.ts'
import { figureCard, plotOf, tableOf } from '../../../platform/ui/table.ts'
import { dollarText } from '../../../platform/ui/text.ts'
import { accountText } from '../gateway-names.ts'
import { type AccountSums, closingMicros, type DaySum, type JournalHead } from '../journal.ts'
import type { FinanceReader, ReportRange } from '../reader.ts'
import { bookAccountPath, linkedText } from '../trail-pages.ts'

const dayMs = 86_400_000
const daysShown = 30
/** The largest number of accounts in a table. The page of their parent account has all. */
const maxRows = 20

/** The shown days, oldest first. A day begins in the accounting time zone, and noon is on the same day everywhere in it. */
const daysOf = (
  nowMs: number,
  { dayOf, startOfDayMs }: Calendar,
): { readonly days: readonly string[]; readonly before: readonly string[] } => {
  const noonMs = startOfDayMs(dayOf(nowMs)) + dayMs / 2
  const all = Array.from({ length: 2 * daysShown }, (_, day) =>
    dayOf(noonMs - (2 * daysShown - 1 - day) * dayMs),
  )
  return { before: all.slice(0, daysShown), days: all.slice(daysShown) }
}

type ShownDays = ReturnType<typeof daysOf>

/** The sums of the shown days. */
const shownSums = (sums: readonly DaySum[], { days }: ShownDays): readonly DaySum[] =>
  sums.filter(({ day }) => day >= days[0]!)

const write = (micros: bigint): string => amountWriter([micros])(micros).replace('-', '\u2212')

const total = (amounts: readonly { readonly amountMicros: bigint }[]): bigint =>
  amounts.reduce((sum, { amountMicros }) => sum + amountMicros, 0n)

const size = (micros: bigint): bigint => (micros < 0n ? -micros : micros)

const compareSizes = (a: bigint, b: bigint): number => (size(a) < size(b) ? 1 : size(a) > size(b) ? -1 : 0)

/** Rounded half away from zero. */
const wholeCents = (micros: bigint): number => Number((micros + (micros < 0n ? -5_000n : 5_000n)) / 10_000n)

/** Whole cents of each day; `sign` makes credits positive. */
const barsBy = (days: readonly string[], sums: readonly DaySum[], sign: bigint) => {
  const micros = new Map<string, bigint>()
  for (const { day, amountMicros } of sums) micros.set(day, (micros.get(day) ?? 0n) + amountMicros * sign)
  return days.map((label) => ({ label, value: wholeCents(micros.get(label) ?? 0n) }))
}

const accountLink = (account: string, gateway?: string | null): Html =>
  html`<a href="${bookAccountPath(serviceBook, account)}">${accountText(account, gateway)}</a>`

/** The daily movements of each account below a parent, one plot each, the largest first. */
const plotsOf = (
  shownDays: ShownDays,
  sums: readonly DaySum[],
  { sign, empty }: { readonly sign: bigint; readonly empty: string },
): Html => {
  const earlier = Map.groupBy(sums, ({ account }) => account)
  const accounts = [...Map.groupBy(shownSums(sums, shownDays), ({ account }) => account)].sort(
    ([, a], [, b]) => compareSizes(total(a), total(b)),
  )
  if (accounts.length === 0) return html`<div class="empty"><p>${empty}</p></div>`
  return html`<div class="cards">${accounts.slice(0, maxRows).map(
    ([account, of]) => html`<section class="card"><h3>${accountLink(account)}</h3>
<p class="figure">${write(total(of) * sign)}</p>
${plotOf({
  title: `${account} on each of the last ${daysShown} days`,
  bars: barsBy(shownDays.days, of, sign),
  write: dollarText,
  table: 'Day',
  before: {
    label: `the ${daysShown} days before`,
    values: barsBy(shownDays.before, earlier.get(account) ?? [], sign).map(({ value }) => value),
  },
})}
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

export type MoneyFigures = ReturnType<typeof createFigures>

type MoneyReads = {
  readonly journalHead: JournalHead
  readonly reader: Pick<FinanceReader, 'account' | 'byDay'>
}

type Figures = {
  readonly head: number
  readonly receivable: readonly AccountSums[]
  /** What the payment providers hold. */
  readonly providers: readonly AccountSums[]
  /** Payments less refunds and disputes at the providers. Fees and payouts do not count. */
  readonly received: readonly DaySum[]
  /** Payments that were received elsewhere. */
  readonly elsewhere: readonly DaySum[]
  readonly revenue: readonly DaySum[]
  readonly expenses: readonly DaySum[]
}

const isAtProvider = ({ account }: { readonly account: string }): boolean => account !== elsewhereAccount

/** The figures of the page from a day on. They sum many postings: requests during a read share the next one. */
export const createFigures = ({ reader, journalHead }: MoneyReads) => {
  return createSharedRead(async (firstDay: string): Promise<Figures> => {
    const head = await journalHead()
    const now: ReportRange = {}
    const recentRange: ReportRange = { from: { kind: 'day', day: firstDay } }
    const accountFilter = (account: string) => ({ book: serviceBook, account })
    const [receivable, gateways, payments, revenue, expenses] = await Promise.all([
      reader.account(now, head, accountFilter('assets:receivable')),
      reader.account(now, head, accountFilter('assets:gateway')),
      reader.byDay(recentRange, head, {
        ...accountFilter('assets:gateway'),
        exceptStatements: true,
      }),
      reader.byDay(recentRange, head, accountFilter('revenue')),
      reader.byDay(recentRange, head, accountFilter('expenses')),
    ])
    return {
      head,
      receivable: receivable.accounts,
      providers: gateways.accounts.filter(isAtProvider),
      received: payments.days.filter(isAtProvider),
      elsewhere: payments.days.filter((sum) => !isAtProvider(sum)),
      revenue: revenue.days,
      expenses: expenses.days,
    }
  })
}

const money = async (
  figures: MoneyFigures,
  calendar: Calendar,
  { nowMs, visitor }: PersonVisit,
): Promise<View> => {
  const days = daysOf(nowMs, calendar)
  const { head, receivable, providers, received, elsewhere, revenue, expenses } = await figures(
    days.before[0]!,
  )
  const earned = -total(shownSums(revenue, days))
  const spent = total(shownSums(expenses, days))
  return {
    title: 'Money',
    body: html`<div class="cards">
${card(`Revenue in ${daysShown} days, USD`, earned, 'revenue')}
${card(`Expenses in ${daysShown} days, USD`, spent, 'expenses')}
${card(`Money received in ${daysShown} days, USD`, total(shownSums(received, days)), 'assets:gateway')}
${card(`Received elsewhere in ${daysShown} days, USD`, total(shownSums(elsewhere, days)), elsewhereAccount)}
${card('Balance at payment providers, USD', sumOf(providers), 'assets:gateway')}
${card('Owed after refunds and disputes, USD', sumOf(receivable), 'assets:receivable')}
</div>
<h2>Revenue by family</h2>
<p class="soft">Sales less refunds, by day (${calendar.zone}). Days with more refunds than sales are below the line.</p>
${plotsOf(days, revenue, { sign: -1n, empty: 'Nothing was sold in these days.' })}
<h2>Expenses</h2>
<p class="soft">Expenses of the service's own book: goodwill, corrections and fees of payment providers. Supplier costs are not in the books.</p>
${plotsOf(days, expenses, { sign: 1n, empty: 'Nothing was spent in these days.' })}
<h2>Money received by payment provider</h2>
<p class="soft">Payments less refunds and disputes, by day. Fees and payouts do not count, and neither do gifts.</p>
${plotsOf(days, received, { sign: 1n, empty: 'No provider received a payment in these days.' })}
<h2>Payments received elsewhere</h2>
<p class="soft">Payments that an operator credited by hand, such as bank transfers, by day.</p>
${plotsOf(days, elsewhere, { sign: 1n, empty: 'No payment was credited by hand in these days.' })}
<h2>Balances at payment providers</h2>
${balancesOf('Balance at each payment provider', providers, 'No provider received a payment yet.')}
<h2>Receivables</h2>
<p class="soft">Refunded and charged-back amounts that the wallet did not cover. The next credits pay them first.</p>
${balancesOf('Accounts with debts, largest first', receivable, 'There are no debts.')}
<p class="soft">As of ${linkedText(positionToken(head), visitor.roles)}</p>`,
    cliEquivalents: [
      `curl "$FINANCE/accounts/revenue?from=${days.days[0]}" -H "Authorization: Bearer $TOKEN"`,
      'bin/farebox ledger account assets:gateway',
      'bin/farebox ledger account assets:receivable',
    ],
  }
}

/** The name of a revenue account: `revenue:orders:residential` is `Residential`. */
const familyName = (account: string): string => {
  const name = account.split(':').at(-1) ?? account
  return /^(?:isp|ipv\d)$/.test(name)
    ? name.toUpperCase().replace('V', 'v')
    : `${name[0]?.toUpperCase()}${name.slice(1)}`
}

/** Dollars with two decimals, or more if the amount has more: nothing is cut off. */
const exactDollars = (micros: bigint): string => {
  let text = write(micros)
  const minLength = text.indexOf('.') + 3
  while (text.length > minLength && text.endsWith('0')) text = text.slice(0, -1)
  return text.startsWith('\u2212') ? `\u2212$${text.slice(1)}` : `$${text}`
}

/** The figures of finance for the home page: revenue, money received, liabilities, and revenue by family. */
export const createFinanceSummary =
  (figures: MoneyFigures, reader: Pick<FinanceReader, 'account'>, calendar: Calendar) =>
  async (nowMs: number): Promise<Html> => {
    const days = daysOf(nowMs, calendar)
    const { providers, head, ...all } = await figures(days.before[0]!)
    const revenue = shownSums(all.revenue, days)
    const expenses = shownSums(all.expenses, days)
    const received = total(shownSums(all.received, days))
    const elsewhere = total(shownSums(all.elsewhere, days))
    const wallets = await reader.account({}, head, { book: serviceBook, account: 'liabilities' })
    const families = [...Map.groupBy(revenue, ({ account }) => account)]
      .map(([account, sums]) => ({ account, micros: -total(sums) }))
      .sort((a, b) => compareSizes(a.micros, b.micros))
    return html`<div class="cards">
${figureCard(`Revenue in ${daysShown} days`, exactDollars(-total(revenue)), html`<p class="soft">${exactDollars(-total(revenue) - total(expenses))} after expenses of the books, such as payment fees. Supplier costs are not in the books.</p>`)}
${figureCard(`Money received in ${daysShown} days`, exactDollars(received), html`<p class="soft">Payments less refunds and disputes at payment providers.${elsewhere === 0n ? null : html` ${exactDollars(elsewhere)} more was received elsewhere.`}</p>`)}
${figureCard('Owed to customers', exactDollars(-sumOf(wallets.accounts)), html`<p class="soft">Wallets and held amounts</p>`)}
${figureCard('Balance at payment providers', exactDollars(sumOf(providers)))}
</div>
<h2>Revenue by family, ${daysShown} days</h2>
${tableOf({
  caption: `Revenue by family in ${daysShown} days`,
  rows: families,
  empty: 'Nothing was sold in these days.',
  columns: [
    {
      title: 'Family',
      head: true,
      cell: ({ account }) =>
        html`<a href="${bookAccountPath(serviceBook, account)}">${familyName(account)}</a>`,
    },
    { title: 'Revenue', number: true, place: 'lead', cell: ({ micros }) => exactDollars(micros) },
  ],
})}
<p class="soft">Sales less refunds. <a href="/console/finance/money">All figures</a></p>`
  }

/** Money received, earned, spent and owed. */
export const moneyPages = (figures: MoneyFigures, calendar: Calendar): readonly ConsolePage[] => [
  financePage({
    path: '/console/finance',
    name: 'showFinance',
    summary: 'Leads to the home page of finance',
    show: async () => goTo('/console/staff'),
  }),
  financePage({
    path: '/console/finance/money',
    name: 'showMoney',
    summary: 'Revenue, expenses, received payments, and debts',
    show: (visit) => money(figures, calendar, visit),
  }),
]
