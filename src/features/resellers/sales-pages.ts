import { Readable } from 'node:stream'
import type pg from 'pg'
import {
  listMargins,
  type Margin,
  type MarginRow,
  type Period as Span,
} from '../../../projections/margins.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { isoTime } from '../../kernel/clock.ts'
import {
  endOfPeriodMs,
  nextPeriod,
  type Period,
  parsePeriod,
  periodBefore,
  periodOf,
} from '../../kernel/months.ts'
import { type AccountScope as Scope, wholeAccount } from '../../kernel/scopes.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { type AccountVisit, type ConsolePage, fileOf, resellerPage } from '../../platform/ui/page.ts'
import { type Column, figureCard, pageRows, pagerOf, plotOf, tableOf } from '../../platform/ui/table.ts'
import { amountText, buttonLink, countText, dollarText, queryText, timeText } from '../../platform/ui/text.ts'
import { customerRefs } from '../accounts/index.ts'
import { customerIn } from './customer-pages.ts'
import {
  maxStatementLines,
  readStatement,
  type StatementLine,
  type StatementPage,
  statementCsvHead,
  statementCsvLines,
} from './reseller-statement.ts'

/** The month in the page's query; default: the current month. */
const monthIn = (query: URLSearchParams, nowMs: number): Period =>
  parsePeriod(query.get('month') ?? '') ?? periodOf(isoTime(nowMs))

/** From the month's first instant to before the first of the next month; milliseconds, UTC. */
const spanOfMonth = (month: Period): Span & { readonly fromMs: number; readonly toMs: number } => ({
  fromMs: Date.parse(`${month}-01T00:00:00Z`),
  toMs: endOfPeriodMs(month),
})

/** The `from` and `to` parameters for the API. */
const monthQuery = (month: Period): string => `from=${month}-01&to=${nextPeriod(month)}-01`

/** The days of a month that have begun: `2026-11-01` … */
const daysOfMonth = (month: Period, nowMs: number): readonly string[] => {
  const { fromMs, toMs } = spanOfMonth(month)
  const days: string[] = []
  for (let at = fromMs; at < toMs && at <= nowMs; at += 86_400_000) days.push(isoTime(at).slice(0, 10))
  return days
}

/** Links to the neighbouring months on the same page. */
const monthLinks = (
  path: string,
  month: Period,
  nowMs: number,
  more: Readonly<Record<string, string>> = {},
): Html => {
  const linkTo = (each: Period): string => `${path}${queryText({ month: each, ...more })}`
  const next = nextPeriod(month)
  return html`<p><a href="${linkTo(periodBefore(month))}">${periodBefore(month)}</a> <strong>${month}</strong>${next <= periodOf(isoTime(nowMs)) ? html` <a href="${linkTo(next)}">${next}</a>` : null} <span class="soft">Months are in UTC.</span></p>`
}

const marginsPath = '/console/reseller/margins'
const statementPath = '/console/reseller/statement'

/** The most products and customers on the page. The statement has every line. */
const maxRows = 20
/** The most days of a month. */
const monthDays = 31

/** Columns of sums, after the column that names the row. */
const figureColumns: readonly Column<Margin>[] = [
  { title: 'Orders', number: true, cell: ({ orders }) => orders },
  { title: 'Revenue, USD', number: true, cell: ({ revenueCents }) => amountText(revenueCents) },
  { title: 'Your cost, USD', number: true, cell: ({ costCents }) => amountText(costCents) },
  { title: 'Margin, USD', number: true, cell: ({ marginCents }) => amountText(marginCents) },
]

const sumOf = (rows: readonly Margin[]): Margin =>
  rows.reduce(
    (sum, row) => ({
      orders: sum.orders + row.orders,
      revenueCents: sum.revenueCents + row.revenueCents,
      costCents: sum.costCents + row.costCents,
      marginCents: sum.marginCents + row.marginCents,
    }),
    { orders: 0, revenueCents: 0, costCents: 0, marginCents: 0 },
  )

/** Totals of a period, as cards. */
const cardsOf = ({ orders, revenueCents, costCents, marginCents }: Margin): Html =>
  html`<div class="cards">
${figureCard('Sales', countText(orders, 'order'))}
${figureCard('Revenue', dollarText(revenueCents))}
${figureCard('Your cost', dollarText(costCents))}
${figureCard('Margin', dollarText(marginCents))}
</div>`

const sumsTable = (
  caption: string,
  title: string,
  rows: readonly MarginRow[],
  nameOf: (row: MarginRow) => Html | string,
): Html =>
  tableOf({
    caption,
    rows,
    empty: 'There were no sales to customers in this month.',
    columns: [{ title, head: true, cell: nameOf }, ...figureColumns],
  })

/** A reseller's earnings from sales to customers. */
export const marginPages = ({
  pool,
  bookReads,
  catalog,
}: {
  readonly pool: pg.Pool
  /** Of the books projection, from which margins are read. */
  readonly bookReads: Pick<Reads, 'settled'>
  readonly catalog: { current(): Pick<Catalog, 'resolve'> }
}): readonly ConsolePage[] => [
  resellerPage({
    path: marginsPath,
    name: 'showMargins',
    summary: 'Revenue, cost and margin of sales to customers, by day, product and customer',
    nav: { label: 'Margins', group: 'Reseller' },
    show: async ({ account, query, nowMs }) => {
      const { accountId } = account
      const month = monthIn(query, nowMs)
      const scope = wholeAccount(accountId)
      await bookReads.settled(accountId)
      const by = (groupBy: 'day' | 'product' | 'customer', limit: number) =>
        listMargins(pool, scope, { ...spanOfMonth(month), groupBy, limit, offset: 0 })
      const [days, products, customers] = await Promise.all([
        by('day', monthDays),
        by('product', maxRows),
        by('customer', maxRows),
      ])
      const refs = await customerRefs(
        pool,
        accountId,
        customers.margins.map(({ key }) => key),
      )
      const rowsByKey = new Map(days.margins.map((row) => [row.key, row]))
      const bars = daysOfMonth(month, nowMs).map((label) => {
        const cents = rowsByKey.get(label)?.marginCents ?? 0
        return { label, value: cents, text: dollarText(cents) }
      })
      const omittedNote = (total: number, of: string): Html | null =>
        total <= maxRows
          ? null
          : html`<p class="soft">The ${maxRows} with the highest revenue of ${countText(total, of)}. <a href="${statementPath}?month=${month}">The statement</a> has all lines.</p>`
      return {
        title: 'Margins',
        actions: buttonLink(`${statementPath}?month=${month}`, 'Statement', 'first'),
        body: html`${monthLinks(marginsPath, month, nowMs)}
${cardsOf(sumOf(days.margins))}
<h2>Margin by day</h2>
<p class="soft">Refunds count on their own day. Days with a loss are below the line.</p>
${plotOf('Margin on each day of the month, in USD', bars)}
${sumsTable('Margins by day, newest first', 'Day (UTC)', days.margins, ({ key }) => html`<a href="${statementPath}?day=${key}">${key}</a>`)}
<h2>By product</h2>
${sumsTable('Margins by product, by revenue', 'Product', products.margins, ({ key }) => catalog.current().resolve(key)?.name ?? key)}
${omittedNote(products.total, 'product')}
<h2>By customer</h2>
${sumsTable('Margins by customer, by revenue', 'Customer', customers.margins, ({ key }) => html`<a href="/console/reseller/customers/${key}">${refs.get(key) ?? key}</a>`)}
${omittedNote(customers.total, 'customer')}`,
        cliEquivalents: (['day', 'product', 'customer'] as const).map(
          (group) =>
            `curl "$API/reseller/margins?${monthQuery(month)}&group_by=${group}" -H "X-API-Key: $KEY"`,
        ),
      }
    },
  }),
]

const dayMs = 86_400_000

/** The filter of a statement: a day or a month (UTC), and one customer or all. */
const parseStatementQuery = async (pool: pg.Pool, { account, query, nowMs }: AccountVisit) => {
  const month = monthIn(query, nowMs)
  const dayText = query.get('day') ?? ''
  const startMs = /^\d{4}-\d\d-\d\d$/.test(dayText) ? Date.parse(`${dayText}T00:00:00Z`) : Number.NaN
  const day = Number.isNaN(startMs) ? null : dayText
  const period: Span & { readonly fromMs: number; readonly toMs: number } =
    day === null ? spanOfMonth(month) : { fromMs: startMs, toMs: startMs + dayMs }
  const customer =
    query.get('customer') === null ? null : await customerIn(pool, account, query.get('customer') ?? '')
  const scope: Scope = { ...wholeAccount(account.accountId), customerId: customer?.customerId ?? null }
  const filterQuery = {
    ...(day === null ? { month } : { day }),
    ...(customer !== null && { customer: customer.customerId }),
  }
  return { month, day, period, customer, scope, filterQuery }
}

const read = async (
  pool: pg.Pool,
  scope: Scope,
  lineQuery: Span & { readonly after: string | null; readonly limit: number },
) => {
  const page = await readStatement(pool, scope, lineQuery)
  if (page === null) throw refuse('not_found', 'you have no line with this id')
  return page
}

/** The whole statement, read in pages while the file is sent. */
async function* csvOf(pool: pg.Pool, scope: Scope, period: Span): AsyncGenerator<string> {
  yield statementCsvHead
  let after: string | null = null
  do {
    const page: StatementPage = await read(pool, scope, { ...period, after, limit: maxStatementLines })
    yield statementCsvLines(page.lines)
    after = page.nextAfter
  } while (after !== null)
}

/** All sales to customers and their refunds. */
export const statementPages = ({
  pool,
  bookReads,
}: {
  readonly pool: pg.Pool
  /** Of the books projection, from which statements are read. */
  readonly bookReads: Pick<Reads, 'settled'>
}): readonly ConsolePage[] => [
  resellerPage({
    path: statementPath,
    name: 'showStatement',
    summary: 'Every sale to customers and every refund, with its order',
    nav: { label: 'Statement', group: 'Reseller' },
    show: async (visit) => {
      const { account, query, nowMs } = visit
      await bookReads.settled(account.accountId)
      const { month, day, period, customer, scope, filterQuery } = await parseStatementQuery(pool, visit)
      const before = query.get('before')
      const page = { ...period, after: before, limit: pageRows }
      const { lines, nextAfter, totals } = await read(pool, scope, page)
      const [from, to] = [isoTime(period.fromMs).slice(0, 10), isoTime(period.toMs).slice(0, 10)]
      const customerQuery = customer === null ? {} : { customer: customer.customerId }
      return {
        title: 'Statement',
        actions: buttonLink(`${statementPath}.csv${queryText(filterQuery)}`, 'Download CSV'),
        body: html`${day === null ? monthLinks(statementPath, month, nowMs, customerQuery) : html`<p><strong>${day}</strong>, <a href="${statementPath}?month=${day.slice(0, 7)}">show the month</a></p>`}
${customer === null ? null : html`<p>Customer <a href="/console/reseller/customers/${customer.customerId}">${customer.ref ?? customer.customerId}</a>. <a href="${statementPath}?month=${month}">All customers</a></p>`}
${cardsOf(totals)}
<p class="soft">From ${from} to before ${to} (UTC). The totals include the lines of all pages.</p>
${tableOf<StatementLine>({
  caption: 'Sales and refunds, oldest first',
  rows: lines,
  empty: before === null ? 'There were no sales to customers in this time.' : 'There are no more lines.',
  columns: [
    {
      title: 'Line',
      head: true,
      cell: ({ at, type, orderId }) =>
        html`${type} of <a href="/console/orders/${orderId}">${orderId}</a><br><small class="soft">${timeText(at)}</small>`,
    },
    {
      title: 'Customer',
      cell: ({ customerId, customer: ref }) =>
        html`<a href="/console/reseller/customers/${customerId}">${ref ?? customerId}</a>`,
    },
    { title: 'Product', cell: ({ productId, quantity }) => `${quantity} × ${productId}` },
    { title: 'Revenue, USD', number: true, cell: ({ revenueCents }) => amountText(revenueCents) },
    { title: 'Your cost, USD', number: true, cell: ({ costCents }) => amountText(costCents) },
    { title: 'Margin, USD', number: true, cell: ({ marginCents }) => amountText(marginCents) },
  ],
})}
${pagerOf(statementPath, filterQuery, { before, next: nextAfter }, { first: 'Oldest', next: 'Newer' })}`,
        cliEquivalents: [
          `curl "$API/reseller/statement?from=${from}&to=${to}${customer?.ref ? `&customer_id=${encodeURIComponent(customer.ref)}` : ''}" -H "X-API-Key: $KEY"`,
        ],
      }
    },
  }),
  resellerPage({
    path: '/console/reseller/statement.csv',
    name: 'downloadResellerStatement',
    summary: 'The statement of a reseller as a file',
    show: async (visit) => {
      await bookReads.settled(visit.account.accountId)
      const { scope, period, day, month } = await parseStatementQuery(pool, visit)
      return fileOf(`statement-${day ?? month}.csv`, Readable.from(csvOf(pool, scope, period)))
    },
  }),
]
