import type pg from 'pg'
import {
  listMargins,
  type Margin,
  type MarginRow,
  type Period as Span,
} from '../../../projections/margins.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { utcCalendar } from '../../kernel/calendar.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { nextPeriod, type Period, parsePeriod, periodBefore } from '../../kernel/months.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { listOf } from '../../platform/ui/list.ts'
import { type AccountVisit, type ConsolePage, resellerPage } from '../../platform/ui/page.ts'
import {
  amountColumn,
  type Column,
  figureCard,
  idColumn,
  nameColumn,
  plotOf,
  tableOf,
  timeColumn,
} from '../../platform/ui/table.ts'
import {
  amountText,
  buttonLink,
  countText,
  dollarText,
  microsText,
  queryText,
} from '../../platform/ui/text.ts'
import { type Customers, customerLink, customerRefs } from '../accounts/index.ts'
import { productName } from '../catalog/index.ts'
import { customerIn } from './customer-pages.ts'
import { nameOf, readStatement, type StatementLine } from './reseller-statement.ts'

const dayMs = 86_400_000

/** The month in the page's query; default: the current month. */
const monthIn = (query: URLSearchParams, nowMs: number): Period =>
  parsePeriod(query.get('month') ?? '') ?? utcCalendar.periodOf(nowMs)

/** From the month's first instant to before the first of the next month; milliseconds, UTC. */
const spanOfMonth = (month: Period): Span & { readonly fromMs: number; readonly toMs: number } => ({
  fromMs: utcCalendar.startOfPeriodMs(month),
  toMs: utcCalendar.endOfPeriodMs(month),
})

/** The `from` and `to` parameters for the API. */
const monthQuery = (month: Period): string => `from=${month}-01&to=${nextPeriod(month)}-01`

/** The days of a month that have begun: `2026-11-01` … */
const daysOfMonth = (month: Period, nowMs: number): readonly string[] => {
  const { fromMs, toMs } = spanOfMonth(month)
  const days: string[] = []
  for (let at = fromMs; at < toMs && at <= nowMs; at += dayMs) days.push(isoTime(at).slice(0, 10))
  return days
}

/** Links to the neighbouring months on the same page. */
const monthLinks = (path: string, month: Period, nowMs: number): Html => {
  const linkTo = (each: Period): string => `${path}${queryText({ month: each })}`
  const next = nextPeriod(month)
  return html`<p><a href="${linkTo(periodBefore(month))}">${periodBefore(month)}</a> <strong>${month}</strong>${next <= utcCalendar.periodOf(nowMs) ? html` <a href="${linkTo(next)}">${next}</a>` : null} <span class="soft">Months are in UTC.</span></p>`
}

const marginsPath = '/console/reseller/margins'
const statementPath = '/console/reseller/statement'

/** The statement of a month. */
const statementOf = (month: Period): string =>
  `${statementPath}?from=${month}-01&to=${utcCalendar.dayOf(utcCalendar.endOfPeriodMs(month) - dayMs)}`

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
  {
    title: 'Margin, %',
    number: true,
    place: 'minor',
    cell: (sum) => (sum.revenueCents > 0 ? percentOf(sum) : null),
  },
]

const noMargin: Margin = { orders: 0, revenueCents: 0, costCents: 0, marginCents: 0 }

const sumOf = (rows: readonly Margin[]): Margin =>
  rows.reduce(
    (sum, row) => ({
      orders: sum.orders + row.orders,
      revenueCents: sum.revenueCents + row.revenueCents,
      costCents: sum.costCents + row.costCents,
      marginCents: sum.marginCents + row.marginCents,
    }),
    noMargin,
  )

/** The margin in percent of the revenue. */
const percentOf = ({ marginCents, revenueCents }: Margin): string =>
  `${((marginCents * 100) / revenueCents).toFixed(1)} %`

/** Totals of a period, as cards. */
const cardsOf = ({ orders, revenueCents, costCents, marginCents }: Margin): Html =>
  html`<div class="cards">
${figureCard('Sales', countText(orders, 'order'))}
${figureCard('Revenue', dollarText(revenueCents))}
${figureCard('Your cost', dollarText(costCents))}
${figureCard('Margin', dollarText(marginCents), revenueCents > 0 ? html`<p class="soft">${percentOf({ orders, revenueCents, costCents, marginCents })} of the revenue</p>` : null)}
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

/** The number of customers in the summary. */
const summaryCustomers = 5

/** The sales of a reseller today, in seven days and in the month, and the customers that need attention. */
export const salesSummary = async (
  { db, pool }: { readonly db: Db; readonly pool: pg.Pool },
  accountId: AccountId,
  nowMs: number,
): Promise<Html> => {
  const month = utcCalendar.periodOf(nowMs)
  const { fromMs: monthMs, toMs } = spanOfMonth(month)
  const todayMs = nowMs - (nowMs % dayMs)
  const weekMs = todayMs - 6 * dayMs
  const scope = wholeAccount(accountId)
  const [days, customers, debtors] = await Promise.all([
    listMargins(pool, scope, {
      fromMs: Math.min(weekMs, monthMs),
      toMs,
      groupBy: 'day',
      limit: monthDays + 7,
      offset: 0,
    }),
    listMargins(pool, scope, {
      fromMs: monthMs,
      toMs,
      groupBy: 'customer',
      limit: summaryCustomers,
      offset: 0,
    }),
    db
      .selectFrom('read.customers')
      .where('accountId', '=', accountId)
      .where('receivableMicros', '>', 0)
      .select(['customerId', 'receivableMicros'])
      .orderBy('receivableMicros', 'desc')
      .limit(summaryCustomers)
      .execute(),
  ])
  const refs = await customerRefs(pool, accountId, [
    ...customers.margins.map(({ key }) => key),
    ...debtors.map(({ customerId }) => customerId),
  ])
  const linkOf = (id: string): Html => customerLink(id, refs.get(id))
  const salesCard = (title: string, fromMs: number): Html => {
    const sum = sumOf(days.margins.filter(({ key }) => Date.parse(key) >= fromMs))
    return figureCard(
      title,
      dollarText(sum.revenueCents),
      html`<p>Margin ${dollarText(sum.marginCents)}${sum.revenueCents > 0 ? `, ${percentOf(sum)}` : ''}</p><p class="soft">${countText(sum.orders, 'order')}</p>`,
    )
  }
  return html`<div class="cards">
${salesCard('Sales today', todayMs)}
${salesCard('Sales in 7 days', weekMs)}
${salesCard('Sales this month', monthMs)}
${debtors.length === 0 ? null : html`<section class="card"><h2>Customers with debts</h2><ul>${debtors.map(({ customerId, receivableMicros }) => html`<li>${linkOf(customerId)}: ${`$${microsText(receivableMicros)}`}</li>`)}</ul></section>`}
</div>
${sumsTable('Customers with the highest revenue this month', 'Customer', customers.margins, ({ key }) => linkOf(key))}
<p><a href="${marginsPath}">All margins</a></p>`
}

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
    show: async ({ account, query, nowMs }) => {
      const { accountId } = account
      const month = monthIn(query, nowMs)
      const scope = wholeAccount(accountId)
      await bookReads.settled(accountId)
      const by = (groupBy: 'day' | 'product' | 'customer', limit: number, of = month) =>
        listMargins(pool, scope, { ...spanOfMonth(of), groupBy, limit, offset: 0 })
      const monthBefore = periodBefore(month)
      const [days, daysBefore, products, customers] = await Promise.all([
        by('day', monthDays),
        by('day', monthDays, monthBefore),
        by('product', maxRows),
        by('customer', maxRows),
      ])
      const refs = await customerRefs(
        pool,
        accountId,
        customers.margins.map(({ key }) => key),
      )
      const barsOf = (of: Period, { margins }: typeof days) => {
        const rowsByKey = new Map(margins.map((row) => [row.key, row]))
        return daysOfMonth(of, nowMs).map((label) => ({
          label,
          value: rowsByKey.get(label)?.marginCents ?? 0,
        }))
      }
      const bars = barsOf(month, days)
      const earlier = barsOf(monthBefore, daysBefore).slice(0, bars.length)
      const omittedNote = (total: number, of: string): Html | null =>
        total <= maxRows
          ? null
          : html`<p class="soft">The ${maxRows} with the highest revenue of ${countText(total, of)}. <a href="${statementOf(month)}">The statement</a> has all lines.</p>`
      return {
        title: 'Margins',
        actions: buttonLink(statementOf(month), 'Statement', 'first'),
        body: html`${monthLinks(marginsPath, month, nowMs)}
${cardsOf(sumOf(days.margins))}
<h2>Margin by day</h2>
<p class="soft">Refunds count on their own day. Days with a loss are below the line.</p>
${plotOf({
  title: 'Margin on each day of the month',
  bars,
  write: dollarText,
  before: { label: monthBefore, values: earlier.map(({ value }) => value) },
})}
${sumsTable('Margins by day, newest first', 'Day (UTC)', days.margins, ({ key }) => html`<a href="${statementPath}?from=${key}&to=${key}">${key}</a>`)}
<h2>By product</h2>
${sumsTable('Margins by product, by revenue', 'Product', products.margins, ({ key }) => productName(catalog, key))}
${omittedNote(products.total, 'product')}
<h2>By customer</h2>
${sumsTable('Margins by customer, by revenue', 'Customer', customers.margins, ({ key }) => customerLink(key, refs.get(key)))}
${omittedNote(customers.total, 'customer')}`,
        cliEquivalents: (['day', 'product', 'customer'] as const).map(
          (group) =>
            `curl "$API/reseller/margins?${monthQuery(month)}&group_by=${group}" -H "X-API-Key: $KEY"`,
        ),
      }
    },
  }),
]

/** All sales to customers and their refunds. */
export const statementPage = ({
  pool,
  bookReads,
  catalog,
  customers,
}: {
  readonly pool: pg.Pool
  readonly catalog: { current(): Pick<Catalog, 'resolve'> }
  /** Of the books projection, from which statements are read. */
  readonly bookReads: Pick<Reads, 'settled'>
  readonly customers: Pick<Customers, 'idOf'>
}): ConsolePage => {
  /** @throws not_found for an id of another reseller's customer */
  const customerIdOf = async ({ account }: AccountVisit, text: string | undefined) => {
    if (!text) return null
    return text.startsWith('cus_')
      ? (await customerIn(pool, account, text)).customerId
      : customers.idOf(account.accountId, text)
  }
  return resellerPage({
    path: statementPath,
    name: 'showStatement',
    summary: 'Every sale to customers and every refund, with its order',
    show: async (visit) => {
      const { accountId } = visit.account
      await bookReads.settled(accountId)
      const customerId = await customerIdOf(visit, visit.query.get('customer')?.trim())
      let totals: Margin = noMargin
      const { body, file, fileLink } = await listOf(visit, {
        caption: 'Sales and refunds',
        filters: { customer: { label: 'Customer', hint: 'Your id or cus_…' } },
        orderedBy: 'Time',
        file: 'statement',
        parseKey: (text: string | null) => text,
        keyOf: nameOf,
        load: async (_, { after, limit, from, until, oldestFirst }) => {
          const page = await readStatement(
            pool,
            { ...wholeAccount(accountId), customerId },
            {
              fromMs: from === null ? null : Date.parse(from),
              toMs: until === null ? null : Date.parse(until),
              after,
              limit,
              newestFirst: !oldestFirst,
            },
          )
          if (page === null) throw refuse('not_found', 'you have no line with this id')
          totals = page.totals
          return page.lines
        },
        columns: (_): readonly Column<StatementLine>[] => [
          nameColumn('Line', ({ type, productId, quantity, orderId }) => ({
            text: `${type === 'sale' ? 'Sale' : 'Refund'} of ${productName(catalog, productId)}, ${quantity}`,
            href: `/console/orders/${orderId}`,
          })),
          timeColumn('Time', ({ at }) => at, { place: 'plain' }),
          {
            title: 'Customer',
            value: ({ customerId, customer }) => customer ?? customerId,
            cell: ({ customerId, customer }) => customerLink(customerId, customer),
          },
          amountColumn('Revenue', ({ revenueCents }) => revenueCents, { place: 'lead' }),
          amountColumn('Your cost', ({ costCents }) => costCents),
          amountColumn('Margin', ({ marginCents }) => marginCents),
          idColumn('Order id', ({ orderId }) => orderId, { place: 'file' }),
          idColumn('Refund id', ({ refundId }) => refundId, { place: 'file' }),
          idColumn('Customer id', ({ customerId }) => customerId, { place: 'file' }),
          idColumn('Position', ({ position }) => position, { place: 'file' }),
        ],
        empty: 'There were no sales to customers yet.',
      })
      if (file !== null) return file
      const { query } = visit
      const dates = query.get('from') || query.get('to') ? 'of the chosen days' : 'of all days'
      return {
        title: 'Statement',
        actions: fileLink,
        body: html`${cardsOf(totals)}
<p class="soft">The totals are ${dates} and include the lines of all pages.</p>
${body}`,
        cliEquivalents: [`curl "$API/reseller/statement" -H "X-API-Key: $KEY"`],
      }
    },
  })
}
