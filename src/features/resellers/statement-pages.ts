import { Readable } from 'node:stream'
import type pg from 'pg'
import type { Period } from '../../../projections/margins.ts'
import { isoTime } from '../../kernel/clock.ts'
import { type AccountScope as Scope, wholeAccount } from '../../kernel/scopes.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { html } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  type PageOutcome,
  show,
} from '../../platform/ui/page.ts'
import { pageRows, pagerOf, tableOf } from '../../platform/ui/table.ts'
import { amountText, timeText } from '../../platform/ui/text.ts'
import { customerIn } from './customer-pages.ts'
import { cardsOf, monthIn, monthLinks, spanOfMonth } from './margin-pages.ts'
import {
  maxStatementLines,
  readStatement,
  type StatementLine,
  type StatementPage,
  statementCsvHead,
  statementCsvLines,
} from './reseller-statement.ts'

const path = '/console/reseller/statement'
const dayMs = 86_400_000

/** The filter of a statement: a day or a month (UTC), and one customer or all. */
const parseStatementQuery = async (pool: pg.Pool, { account, query, nowMs }: AccountVisit) => {
  const month = monthIn(query, nowMs)
  const dayText = query.get('day') ?? ''
  const startMs = /^\d{4}-\d\d-\d\d$/.test(dayText) ? Date.parse(`${dayText}T00:00:00Z`) : Number.NaN
  const day = Number.isNaN(startMs) ? null : dayText
  const period: Period & { readonly fromMs: number; readonly toMs: number } =
    day === null ? spanOfMonth(month) : { fromMs: startMs, toMs: startMs + dayMs }
  const customer =
    query.get('customer') === null ? null : await customerIn(pool, account, query.get('customer') ?? '')
  const scope: Scope = { ...wholeAccount(account.accountId), customerId: customer?.customerId ?? null }
  const filterQuery = {
    ...(day === null ? { month } : { day }),
    ...(customer !== null && { customer: customer.customerId }),
  }
  return { month, day, period, customer, scope, kept: filterQuery }
}

const read = async (
  pool: pg.Pool,
  scope: Scope,
  lineQuery: Period & { readonly after: string | null; readonly limit: number },
) => {
  const page = await readStatement(pool, scope, lineQuery)
  if (page === null) throw refuse('not_found', 'no line of yours has this name')
  return page
}

type StatementReads = {
  readonly pool: pg.Pool
  /** Of the books projection, from which statements are read. */
  readonly bookReads: Pick<Reads, 'settled'>
}

const statement = async ({ pool, bookReads }: StatementReads, visit: AccountVisit) => {
  const { account, query, nowMs } = visit
  await bookReads.settled(account.accountId)
  const { month, day, period, customer, scope, kept: filterQuery } = await parseStatementQuery(pool, visit)
  const before = query.get('before')
  const { lines, nextAfter, totals } = await read(pool, scope, { ...period, after: before, limit: pageRows })
  const [from, to] = [isoTime(period.fromMs).slice(0, 10), isoTime(period.toMs).slice(0, 10)]
  return show({
    title: 'Statement',
    acts: html`<a class="button" href="${path}.csv?${new URLSearchParams(filterQuery).toString()}">All as CSV</a>`,
    body: html`${day === null ? monthLinks(path, month, nowMs, customer === null ? {} : { customer: customer.customerId }) : html`<p><strong>${day}</strong>, <a href="${path}?month=${day.slice(0, 7)}">its month</a></p>`}
${customer === null ? null : html`<p>Customer <a href="/console/reseller/customers/${customer.customerId}">${customer.ref ?? customer.customerId}</a>. <a href="${path}?month=${month}">All customers</a></p>`}
${cardsOf(totals)}
<p class="soft">From ${from} on and before ${to} (UTC). The sums are those of all lines, on every page of them.</p>
${tableOf<StatementLine>({
  caption: 'Sales and refunds, oldest first',
  rows: lines,
  empty: html`<p>${before === null ? 'Nothing was sold to customers in this time.' : 'No line follows.'}</p>`,
  columns: [
    {
      title: 'What',
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
${pagerOf(path, filterQuery, { before, next: nextAfter }, { first: 'Oldest', next: 'Newer' })}`,
    same: [
      `curl "$API/reseller/statement?from=${from}&to=${to}${customer?.ref ? `&customer_id=${encodeURIComponent(customer.ref)}` : ''}" -H "X-API-Key: $KEY"`,
    ],
  })
}

/** The whole statement, read in pages while the file is sent. */
async function* csvOf(pool: pg.Pool, scope: Scope, period: Period): AsyncGenerator<string> {
  yield statementCsvHead
  let after: string | null = null
  do {
    const page: StatementPage = await read(pool, scope, { ...period, after, limit: maxStatementLines })
    yield statementCsvLines(page.lines)
    after = page.nextAfter
  } while (after !== null)
}

const file = async ({ pool, bookReads }: StatementReads, visit: AccountVisit): Promise<PageOutcome> => {
  await bookReads.settled(visit.account.accountId)
  const { scope, period, day, month } = await parseStatementQuery(pool, visit)
  return {
    kind: 'file',
    name: `statement-${day ?? month}.csv`,
    mediaType: 'text/csv',
    content: Readable.from(csvOf(pool, scope, period)),
  }
}

/** All sales to customers and their refunds. */
export const statementPages = (services: StatementReads): readonly ConsolePage[] => [
  accountPage({
    path,
    name: 'showStatement',
    summary: 'Every sale to customers and every refund, with its order',
    for: ['reseller'],
    nav: { label: 'Statement', group: 'Reseller' },
    show: (visit) => statement(services, visit),
  }),
  accountPage({
    path: '/console/reseller/statement.csv',
    name: 'downloadResellerStatement',
    summary: 'The statement of a reseller, as a file',
    for: ['reseller'],
    show: (visit) => file(services, visit),
  }),
]
