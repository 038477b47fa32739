import { createAvailableMicros, spentByDay } from '../../../projections/balances.ts'
import { ordersAfter } from '../../../projections/orders.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import { createBatchLoader } from '../../platform/postgres/batch-loader.ts'
import { type Db, sql } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { type ConsolePage, goTo, personPage, type ShownAccount } from '../../platform/ui/page.ts'
import { barsOf, figureCard, tableOf } from '../../platform/ui/table.ts'
import { bytesText, countText, dollarText, timeText } from '../../platform/ui/text.ts'
import { noticesOf } from '../notices/index.ts'
import { orderColumns } from '../orders/index.ts'

const dayMs = 86_400_000
const daysShown = 30

/** A task for the account, with a link. */
type AttentionItem = { readonly text: string; readonly href: string }

const attentionList = (items: readonly (AttentionItem | false)[]): Html => {
  const shown = items.filter((item) => item !== false)
  return shown.length === 0
    ? html`<p>Nothing to do.</p>`
    : html`<ul>${shown.map(({ text, href }) => html`<li><a href="${href}">${text}</a></li>`)}</ul>`
}

/** The first page: the balance, the spending, and the tasks for the account. */
export const overviewPages = ({
  db,
  reads,
  catalog,
}: {
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
  readonly catalog: { current(): Pick<Catalog, 'resolve'> }
}): readonly ConsolePage[] => {
  const availableMicros = createAvailableMicros(db)
  /** Sums of many rows. Requests during a query share the next query. */
  const spentSince = createBatchLoader<string, Awaited<ReturnType<typeof spentByDay>>>(
    async (keys) =>
      new Map(
        await Promise.all(
          keys.map(async (key) => {
            const [accountId = '', since = ''] = key.split(' ')
            return [key, await spentByDay(db, accountId as AccountId, since)] as const
          }),
        ),
      ),
  )

  const lowPlans = ({ accountId }: ShownAccount, now: string) =>
    db
      .selectFrom('read.low_traffic as l')
      .innerJoin('read.plans as p', 'p.planId', 'l.planId')
      .leftJoin('work.traffic as t', 't.planId', 'p.planId')
      .where('l.accountId', '=', accountId)
      .where('l.lowSince', 'is not', null)
      .where((eb) => eb.or([eb('p.expiresAt', 'is', null), eb('p.expiresAt', '>', now)]))
      .orderBy('l.lowSince', 'desc')
      .limit(10)
      .select([
        'p.planId',
        'p.productId',
        sql<number>`greatest(0, p.total_bytes - greatest(p.used_bytes, coalesce(t.used_bytes, 0)))::bigint`.as(
          'left',
        ),
      ])
      .execute()

  const openOrders = async ({ accountId }: ShownAccount) =>
    (await db
      .selectFrom('read.order_counts')
      .where('accountId', '=', accountId)
      .select(['awaitingPayment', 'processing'])
      .executeTakeFirst()) ?? { awaitingPayment: 0, processing: 0 }

  const unreadNotices = async (account: ShownAccount, nowMs: number): Promise<number> =>
    (await noticesOf(db, account, nowMs)).filter(({ unread }) => unread).length

  const overview = async (account: ShownAccount, nowMs: number): Promise<View> => {
    const now = isoTime(nowMs)
    const since = isoTime(nowMs - (nowMs % dayMs) - (daysShown - 1) * dayMs)
    await reads.settled(account.accountId)
    const [available, spent, low, open, unread, orders] = await Promise.all([
      availableMicros(account.accountId),
      spentSince(`${account.accountId} ${since}`),
      lowPlans(account, now),
      openOrders(account),
      unreadNotices(account, nowMs),
      ordersAfter(db, wholeAccount(account.accountId), { status: undefined, after: null, limit: 5 }, nowMs),
    ])
    const bars = Array.from({ length: daysShown }, (_, at) => {
      const label = isoTime(Date.parse(since) + at * dayMs).slice(0, 10)
      return { label, cents: microsToCentsFloor(spent?.days.get(label) ?? 0) }
    })
    const spentCents = bars.reduce((sum, { cents }) => sum + cents, 0)
    const spentDays = bars.filter(({ cents }) => cents !== 0).reverse()
    const attention: readonly (AttentionItem | false)[] = [
      account.blocked && {
        text: 'The account is blocked: it can read but not buy.',
        href: '/console/notices',
      },
      ...low.map(({ planId, productId, left }) => ({
        text: `${catalog.current().resolve(productId)?.name ?? productId}: ${bytesText(left)} left`,
        href: `/console/plans/${planId}`,
      })),
      open.awaitingPayment > 0 && {
        text: `${countText(open.awaitingPayment, 'order')} awaiting payment`,
        href: '/console/orders?status=awaiting_payment',
      },
      open.processing > 0 && {
        text: `${countText(open.processing, 'order')} in progress`,
        href: '/console/orders?status=processing',
      },
      unread > 0 && { text: countText(unread, 'unread notice'), href: '/console/notices' },
    ]
    return {
      title: 'Overview',
      body: html`<div class="cards">
${figureCard('Balance', dollarText(microsToCentsFloor(available)), html`<p><a href="/console/transactions">Transactions</a></p>`)}
${figureCard(`Spent in ${daysShown} days`, dollarText(spentCents), html`<p class="soft">Before refunds</p>`)}
<section class="card"><h2>To do</h2>${attentionList(attention)}</section>
</div>
<h2>Spent by day</h2>
<div class="card">${barsOf(`Spent on each of the last ${daysShown} days, in USD`, bars)}
${spent?.whole !== false ? nothing : html`<p class="message warn">Only the newest 20,000 movements are summed here. The CSV of transactions has all.</p>`}
<details><summary>Show as table</summary>${tableOf({
        caption: 'Spent by day',
        rows: spentDays,
        empty: 'Nothing was spent in these days.',
        columns: [
          { title: 'Day (UTC)', head: true, cell: ({ label }) => label },
          { title: 'Spent', number: true, cell: ({ cents }) => dollarText(cents) },
        ],
      })}</details></div>
<h2>Recent orders</h2>
${tableOf({
  caption: 'Recent orders',
  rows: orders,
  empty: 'There are no orders yet.',
  columns: orderColumns(catalog, account),
})}
<p class="soft">As of ${timeText(now)}</p>`,
      cliEquivalents: [
        'curl $API/wallet -H "X-API-Key: $KEY"',
        'curl "$API/orders?limit=5" -H "X-API-Key: $KEY"',
      ],
    }
  }

  return [
    personPage({
      path: '/console',
      name: 'showOverview',
      summary: 'The first page after the sign-in',
      nav: { label: 'Overview', ofAccount: true },
      show: async (visit) => {
        const { account, session, roles } = visit.visitor
        if (account) return overview(account, visit.nowMs)
        return goTo(roles.size > 0 && session.method === 'passkey' ? '/console/staff' : '/console/passkeys')
      },
    }),
  ]
}
