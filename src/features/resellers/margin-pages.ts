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
import { wholeAccount } from '../../kernel/scopes.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { type AccountVisit, accountPage, type ConsolePage, show } from '../../platform/ui/page.ts'
import { plotOf } from '../../platform/ui/plot.ts'
import { type Column, tableOf } from '../../platform/ui/table.ts'
import { amountText, countText, dollarText } from '../../platform/ui/text.ts'
import { customerRefs } from '../accounts/index.ts'

/** The month in the page's query; default: the current month. */
export const monthIn = (query: URLSearchParams, nowMs: number): Period =>
  parsePeriod(query.get('month') ?? '') ?? periodOf(isoTime(nowMs))

/** From the month's first instant to before the first of the next month; milliseconds, UTC. */
export const spanOfMonth = (month: Period): Span & { readonly fromMs: number; readonly toMs: number } => ({
  fromMs: Date.parse(`${month}-01T00:00:00Z`),
  toMs: endOfPeriodMs(month),
})

/** The `from` and `to` parameters for the API. */
export const monthQuery = (month: Period): string => `from=${month}-01&to=${nextPeriod(month)}-01`

/** The days of a month that have begun: `2026-11-01` … */
export const daysOfMonth = (month: Period, nowMs: number): readonly string[] => {
  const { fromMs, toMs } = spanOfMonth(month)
  const days: string[] = []
  for (let at = fromMs; at < toMs && at <= nowMs; at += 86_400_000) days.push(isoTime(at).slice(0, 10))
  return days
}

/** Links to the neighbouring months on the same page. */
export const monthLinks = (
  path: string,
  month: Period,
  nowMs: number,
  more: Readonly<Record<string, string>> = {},
): Html => {
  const linkTo = (each: Period): string => `${path}?${new URLSearchParams({ month: each, ...more })}`
  const next = nextPeriod(month)
  return html`<p><a href="${linkTo(periodBefore(month))}">${periodBefore(month)}</a> <strong>${month}</strong>${next <= periodOf(isoTime(nowMs)) ? html` <a href="${linkTo(next)}">${next}</a>` : null} <span class="soft">A month is UTC.</span></p>`
}

export const marginsPath = '/console/reseller/margins'

/** The most products and customers on the page. The statement has every line. */
const maxRows = 20
/** The most days of a month. */
const monthDays = 31

/** Columns of sums, after the column that names the row. */
const figureColumns: readonly Column<Margin>[] = [
  { title: 'Orders', number: true, cell: ({ orders }) => String(orders) },
  { title: 'Revenue, USD', number: true, cell: ({ revenueCents }) => amountText(revenueCents) },
  { title: 'Your cost, USD', number: true, cell: ({ costCents }) => amountText(costCents) },
  { title: 'Margin, USD', number: true, cell: ({ marginCents }) => amountText(marginCents) },
]

export const sumOf = (rows: readonly Margin[]): Margin =>
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
export const cardsOf = ({ orders, revenueCents, costCents, marginCents }: Margin): Html => {
  const card = (title: string, figure: string): Html =>
    html`<section class="card"><h2>${title}</h2><p class="figure">${figure}</p></section>`
  return html`<div class="cards">
${card('Sales', countText(orders, 'order'))}
${card('Revenue', dollarText(revenueCents))}
${card('Your cost', dollarText(costCents))}
${card('Margin', dollarText(marginCents))}
</div>`
}

const sumsTable = (
  caption: string,
  title: string,
  rows: readonly MarginRow[],
  nameOf: (row: MarginRow) => Html | string,
): Html =>
  tableOf({
    caption,
    rows,
    empty: html`<p>Nothing was sold to customers in this month.</p>`,
    columns: [{ title, head: true, cell: nameOf }, ...figureColumns],
  })

type MarginReads = {
  readonly pool: pg.Pool
  /** Of the books projection, from which margins are read. */
  readonly bookReads: Pick<Reads, 'settled'>
  readonly catalog: { current(): Pick<Catalog, 'resolve'> }
}

const margins = async (
  { pool, bookReads, catalog }: MarginReads,
  { account, query, nowMs }: AccountVisit,
) => {
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
      : html`<p class="soft">The ${maxRows} with the most revenue, of ${countText(total, of)}. <a href="/console/reseller/statement?month=${month}">The statement</a> has every line.</p>`
  return show({
    title: 'Margins',
    acts: html`<a class="button first" href="/console/reseller/statement?month=${month}">Statement</a>`,
    body: html`${monthLinks(marginsPath, month, nowMs)}
${cardsOf(sumOf(days.margins))}
<h2>Margin by day</h2>
<p class="soft">Refunds count on the day that they were made. A day that lost money hangs below the line.</p>
${plotOf('Margin on each day of the month, in USD', bars)}
${sumsTable('Margins by day, newest first', 'Day (UTC)', days.margins, ({ key }) => html`<a href="/console/reseller/statement?day=${key}">${key}</a>`)}
<h2>By product</h2>
${sumsTable('Margins by product, by revenue', 'Product', products.margins, ({ key }) => catalog.current().resolve(key)?.name ?? key)}
${omittedNote(products.total, 'product')}
<h2>By customer</h2>
${sumsTable('Margins by customer, by revenue', 'Customer', customers.margins, ({ key }) => html`<a href="/console/reseller/customers/${key}">${refs.get(key) ?? key}</a>`)}
${omittedNote(customers.total, 'customer')}`,
    same: (['day', 'product', 'customer'] as const).map(
      (group) => `curl "$API/reseller/margins?${monthQuery(month)}&group_by=${group}" -H "X-API-Key: $KEY"`,
    ),
  })
}

/** A reseller's earnings from sales to customers. */
export const marginPages = (services: MarginReads): readonly ConsolePage[] => [
  accountPage({
    path: marginsPath,
    name: 'showMargins',
    summary: 'Revenue, cost and margin of sales to customers, by day, product and customer',
    for: ['reseller'],
    nav: { label: 'Margins', group: 'Reseller' },
    show: (visit) => margins(services, visit),
  }),
]
