import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import { createReadPurse, type SpentByDay, spentByDay } from '../../../projections/balances.ts'
import { depositsAfter } from '../../../projections/deposits.ts'
import { ordersAfter } from '../../../projections/orders.ts'
import { type FoundPlan, plansAfter } from '../../../projections/plans.ts'
import { failingEndpoints } from '../../../projections/webhooks.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { microsToCentsCeil, microsToCentsFloor } from '../../kernel/money.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import { type Db, sql } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { type ConsolePage, goTo, personPage, type ShownAccount } from '../../platform/ui/page.ts'
import { figureCard, nameColumn, plotOf, tableOf } from '../../platform/ui/table.ts'
import { buttonLink, bytesText, countText, dollarText, timeText } from '../../platform/ui/text.ts'
import { blockMessage, type Contact } from '../accounts/index.ts'
import { productLinks, productName } from '../catalog/index.ts'
import { noticesOf } from '../notices/index.ts'
import { orderColumns, ordersWithCustomers } from '../orders/index.ts'
import { planLeft, planPath } from '../plans/index.ts'
import { salesSummary } from '../resellers/index.ts'

const dayMs = 86_400_000
const daysShown = 30
/** A failed payment is shown for this time, milliseconds. */
const failureShownMs = 7 * dayMs
/** The largest number of tasks, and of plans, on the page. */
const maxShown = 5

/** The most accounts with cached spending. */
const maxCachedSpending = 1_000

/** A task for the account, with a link. */
export type AttentionItem = { readonly text: string; readonly href: string }

export const attentionList = (items: readonly (AttentionItem | false)[]): Html => {
  const tasks = items.filter((item) => item !== false)
  if (tasks.length === 0) return html`<p>Nothing to do.</p>`
  const linksOf = (some: readonly AttentionItem[]): Html =>
    html`<ul>${some.map(({ text, href }) => html`<li><a href="${href}">${text}</a></li>`)}</ul>`
  const more = tasks.slice(maxShown)
  return html`${linksOf(tasks.slice(0, maxShown))}${more.length === 0 ? null : html`<details><summary>${more.length} more</summary>${linksOf(more)}</details>`}`
}

/** The number of days that a balance lasts at the spending of the shown days, as a sentence. */
const runwayText = (availableMicros: number, spentMicros: number): string | null => {
  if (spentMicros <= 0 || availableMicros <= 0) return null
  const days = Math.floor((availableMicros * daysShown) / spentMicros)
  return days > 365
    ? 'It lasts for more than a year at the current spending.'
    : `It lasts about ${countText(days, 'day')} at the current spending.`
}

/** The change from an amount to another, in percent. */
const changeText = (before: number, now: number): string => {
  const percent = Math.round(((now - before) * 100) / before)
  return percent === 0 ? 'No change' : `${Math.abs(percent)} % ${percent > 0 ? 'more' : 'less'}`
}

/** The steps of a new account. It is left out after the first request through a proxy. */
const firstSteps = (done: {
  readonly paid: boolean
  readonly bought: boolean
  readonly planId?: string | undefined
  readonly products: Html
}): Html => {
  const step = (text: Html | string, isDone: boolean): Html =>
    html`<li>${isDone ? html`<s>${text}</s> Done.` : text}</li>`
  const lines =
    done.planId === undefined
      ? html`Get proxy lines`
      : html`<a href="${planPath(done.planId, '/lines')}">Get proxy lines</a>`
  return html`<section class="card"><h2>First steps</h2><ol>
${step(html`<a href="/console/top-up">Top up the wallet</a>`, done.paid)}
${step(html`<a href="/console/catalogue">Buy proxies</a>${done.bought ? null : html`: ${done.products}`}`, done.bought)}
${step(lines, false)}
${step('Send a request through a proxy line', false)}
</ol></section>`
}

/** The first page: the balance, the spending, and the tasks for the account. */
export const overviewPages = ({
  db,
  pool,
  reads,
  catalog,
  contact,
}: {
  /** Where customers get help. */
  readonly contact: Contact
  readonly db: Db
  readonly pool: pg.Pool
  readonly reads: Pick<Reads, 'settled'>
  readonly catalog: { current(): Pick<Catalog, 'products' | 'resolve'> }
}): readonly ConsolePage[] => {
  const readPurse = createReadPurse(db)
  /** Many rows are summed. The sums are cached until the account's next money event. */
  const spending = new LRUCache<AccountId, { readonly key: string; readonly spent: SpentByDay }>({
    max: maxCachedSpending,
  })
  const spentSince = async (accountId: AccountId, since: string): Promise<SpentByDay> => {
    const balance = await db
      .selectFrom('read.balances')
      .select('revision')
      .where('accountId', '=', accountId)
      .executeTakeFirst()
    const key = `${since} ${balance?.revision}`
    const cached = spending.get(accountId)
    if (cached?.key === key) return cached.spent
    const spent = await spentByDay(db, accountId, since)
    spending.set(accountId, { key, spent })
    return spent
  }

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

  /** Why the account is blocked. */
  const blockOf = async ({ accountId, blocked }: ShownAccount): Promise<Html | null> => {
    if (!blocked) return null
    const row = await db
      .selectFrom('read.accounts')
      .select('blockedReason')
      .where('accountId', '=', accountId)
      .executeTakeFirst()
    return blockMessage(row?.blockedReason ?? null, contact)
  }

  const unreadNotices = async (account: ShownAccount, nowMs: number): Promise<number> =>
    (await noticesOf(db, account, nowMs)).filter(({ unread }) => unread).length

  const failedPayments = async (account: ShownAccount, nowMs: number): Promise<readonly AttentionItem[]> =>
    (
      await depositsAfter(db, wholeAccount(account.accountId), {
        after: null,
        limit: maxShown,
        status: 'failed',
        search: '',
        from: isoTime(nowMs - failureShownMs),
      })
    ).map(({ depositId, amountCents }) => ({
      text: `The payment of ${dollarText(amountCents)} failed`,
      href: `/console/deposits/${depositId}`,
    }))

  const overview = async (account: ShownAccount, nowMs: number): Promise<View> => {
    const { accountId, reseller } = account
    const now = isoTime(nowMs)
    const firstMs = nowMs - (nowMs % dayMs) - (2 * daysShown - 1) * dayMs
    const scope = wholeAccount(accountId)
    await reads.settled(accountId)
    const [purse, block, spent, low, open, unread, orders, plans, failed, endpoints, sales] =
      await Promise.all([
        readPurse(accountId),
        blockOf(account),
        spentSince(accountId, isoTime(firstMs)),
        lowPlans(account, now),
        openOrders(account),
        unreadNotices(account, nowMs),
        ordersAfter(db, scope, { after: null, limit: maxShown }, nowMs).then((found) =>
          ordersWithCustomers(pool, accountId, found),
        ),
        plansAfter(db, scope, { after: null, limit: maxShown, status: 'active', search: null }, nowMs),
        failedPayments(account, nowMs),
        failingEndpoints(db, accountId, maxShown),
        reseller ? salesSummary({ db, pool }, accountId, nowMs) : null,
      ])
    const { availableMicros: available, receivableMicros: owed } = purse
    const days = Array.from({ length: 2 * daysShown }, (_, at) => {
      const label = isoTime(firstMs + at * dayMs).slice(0, 10)
      const micros = spent.days.get(label) ?? 0
      return { label, micros, value: microsToCentsFloor(micros) }
    })
    const [before, bars] = [days.slice(0, daysShown), days.slice(daysShown)]
    const centsOf = (some: readonly { readonly value: number }[]): number =>
      some.reduce((sum, { value }) => sum + value, 0)
    const [beforeCents, spentCents] = [centsOf(before), centsOf(bars)]
    const runway = runwayText(
      available,
      bars.reduce((sum, { micros }) => sum + micros, 0),
    )
    const nameOf = (productId: string): string => productName(catalog, productId)
    const attention: readonly (AttentionItem | false)[] = [
      owed > 0 && {
        text: `You owe ${dollarText(microsToCentsCeil(owed))} after a refund or a dispute: the next payments pay it first`,
        href: '/console/top-up',
      },
      ...failed,
      ...endpoints.map(({ endpointId, disabledReason, lastError }) => ({
        text: `A webhook endpoint ${disabledReason === null ? 'fails' : 'was disabled'}${lastError === null ? '' : `: ${lastError}`}`,
        href: `/console/webhooks/${endpointId}`,
      })),
      ...low.map(({ planId, productId, left }) => ({
        text: `${nameOf(productId)}: ${bytesText(left)} left`,
        href: planPath(planId),
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
    const [newest] = plans
    const isNew = orders.length < maxShown && plans.every(({ usedBytes }) => usedBytes === 0)
    return {
      title: 'Home',
      actions: html`${buttonLink('/console/catalogue', 'Buy proxies', 'first')}${newest === undefined ? nothing : buttonLink(planPath(newest.planId, '/lines'), 'Get proxy lines')}`,
      body: html`${block}${sales}<div class="cards">
${figureCard('Balance', dollarText(microsToCentsFloor(available)), html`${runway === null ? null : html`<p class="soft">${runway}</p>`}<p class="actions">${buttonLink('/console/top-up', 'Top up')} <a href="/console/transactions">Transactions</a></p>`)}
${figureCard(`Spent in ${daysShown} days`, dollarText(spentCents), html`<p class="soft">Before refunds.${beforeCents > 0 ? ` ${changeText(beforeCents, spentCents)} than in the ${daysShown} days before.` : ''}</p>`)}
${isNew && !reseller ? firstSteps({ paid: available > 0 || orders.length > 0, bought: orders.length > 0, planId: newest?.planId, products: productLinks(catalog) }) : null}
<section class="card"><h2>To do</h2>${attentionList(attention)}</section>
</div>
${
  plans.length === 0
    ? null
    : html`<h2>Active plans</h2>
${tableOf({
  caption: 'Active plans, newest first',
  rows: plans,
  columns: [
    nameColumn<FoundPlan>('Plan', ({ planId, productId, label }) => ({
      text: nameOf(productId),
      href: planPath(planId),
      note: label,
    })),
    { title: 'Left', number: true, place: 'lead', cell: planLeft },
    {
      title: 'Lines',
      place: 'plain',
      cell: ({ planId }) => html`<a href="${planPath(planId, '/lines')}">Get proxy lines</a>`,
    },
  ],
})}`
}
<h2>Spent by day</h2>
<div class="card">${plotOf({
        title: `Spent on each of the last ${daysShown} days`,
        bars,
        write: dollarText,
        table: 'Day (UTC)',
        ...(beforeCents > 0 && {
          before: { label: `the ${daysShown} days before`, values: before.map(({ value }) => value) },
        }),
      })}
${spent.whole ? nothing : html`<p class="message warn">Only the newest 20,000 movements are summed here. The CSV of transactions has all.</p>`}</div>
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
      show: async (visit) => {
        const { account, session, roles } = visit.visitor
        if (account) return overview(account, visit.nowMs)
        return goTo(roles.size > 0 && session.method === 'passkey' ? '/console/staff' : '/console/passkeys')
      },
    }),
  ]
}
