import {
  findSubscription,
  type SubscriptionStatus,
  subscriptionStatuses,
  subscriptionsAfter,
} from '../../../projections/subscriptions.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { SubscriptionId } from '../../kernel/ids.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import { subscriptionStream } from '../../kernel/streams.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { type AccountVisit, accountPage, type ConsolePage, goTo, show } from '../../platform/ui/page.ts'
import { filtersOf, pagedOf, pageRows, pagerOf, tableOf } from '../../platform/ui/table.ts'
import {
  afterOf,
  afterText,
  amountText,
  dollarText,
  idText,
  stateText,
  timeText,
} from '../../platform/ui/text.ts'
import { type SubscriptionRecord, subscriptionRecord } from './subscription-record.ts'
import type { Subscriptions } from './subscription-service.ts'

const root = '/console/subscriptions'

const subscriptionBadges: Readonly<Record<SubscriptionStatus, readonly [string, 'good' | 'bad' | 'off']>> = {
  active: ['active', 'good'],
  past_due: ['past due', 'bad'],
  canceled: ['canceled', 'off'],
  expired: ['expired', 'off'],
}

const subscriptionState = ({ status, cancelAtPeriodEnd }: SubscriptionRecord): Html =>
  status === 'active' && cancelAtPeriodEnd
    ? stateText('ends with its period', 'warn')
    : stateText(...subscriptionBadges[status])

/** The subscriptions of an account. */
export const subscriptionPages = ({
  db,
  reads,
  log,
  catalog,
  subscriptions,
}: {
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
  readonly log: Pick<EventLog, 'lastOf'>
  readonly catalog: { current(): Pick<Catalog, 'resolve'> }
  readonly subscriptions: Pick<Subscriptions, 'cancel'>
}): readonly ConsolePage[] => {
  const productName = (id: string): string => catalog.current().resolve(id)?.name ?? id

  const list = async ({ account, query, nowMs }: AccountVisit) => {
    const status = subscriptionStatuses.find((each) => each === query.get('status'))
    const before = query.get('before')
    const after = afterOf(before)
    await reads.settled(account.accountId)
    const page = { status, after, limit: pageRows + 1 }
    const subscriptionRows = await subscriptionsAfter(db, wholeAccount(account.accountId), page, nowMs)
    const { rows, next } = pagedOf(subscriptionRows, (row) => afterText(row.startedAt, row.subscriptionId))
    const filter: Readonly<Record<string, string>> = status === undefined ? {} : { status }
    return show({
      title: 'Subscriptions',
      body: html`${filtersOf(root, [
        {
          name: 'status',
          label: 'State',
          value: status ?? '',
          choices: [
            { value: '', label: 'any' },
            ...subscriptionStatuses.map((value) => ({ value, label: subscriptionBadges[value][0] })),
          ],
        },
      ])}
${tableOf({
  caption: 'Subscriptions, newest first',
  rows: rows.map((row) => subscriptionRecord(row, nowMs)),
  empty:
    status !== undefined || after !== null
      ? html`<p>No subscription fits. <a href="${root}">Show all</a></p>`
      : html`<p>Nothing is ordered again by itself.</p>`,
  columns: [
    {
      title: 'Subscription',
      head: true,
      cell: ({ subscriptionId, productId }) =>
        html`<a href="${root}/${subscriptionId}">${productName(productId)}</a>`,
    },
    { title: 'Quantity', number: true, cell: ({ quantity }) => String(quantity) },
    { title: 'Every', cell: ({ interval }) => interval },
    { title: 'State', cell: subscriptionState },
    { title: 'This period, USD', number: true, cell: ({ amountCents }) => amountText(amountCents) },
    {
      title: 'Next charge',
      cell: ({ status: each, cancelAtPeriodEnd, currentPeriodEnd }) =>
        timeText(
          (each === 'active' || each === 'past_due') && !cancelAtPeriodEnd ? currentPeriodEnd : null,
          'none',
        ),
    },
    { title: 'Since', cell: ({ startedAt }) => timeText(startedAt) },
  ],
})}
${pagerOf(root, filter, { before: after === null ? null : before, next })}`,
      same: [
        `curl "$API/subscriptions${status === undefined ? '' : `?status=${status}`}" -H "X-API-Key: $KEY"`,
      ],
    })
  }

  /** The account's subscription of the path, including a cancellation by another process. @throws not_found */
  const ownSubscription = async ({ account, params, nowMs }: AccountVisit): Promise<SubscriptionRecord> => {
    const id = params.id ?? ''
    const last = await log.lastOf(subscriptionStream(id as SubscriptionId))
    await reads.settled(account.accountId, last?.position ?? 0)
    const row = await findSubscription(db, wholeAccount(account.accountId), id)
    if (!row) throw refuse('not_found', 'no subscription has this id')
    return subscriptionRecord(row, nowMs)
  }

  const isOver = ({ status }: SubscriptionRecord): boolean => status === 'canceled' || status === 'expired'

  const oneView = (subscription: SubscriptionRecord) => {
    const path = `${root}/${subscription.subscriptionId}`
    const detailRow = (name: string, value: Html | string | null): Html =>
      value === null ? nothing : html`<dt>${name}</dt><dd>${value}</dd>\n`
    return {
      title: `Subscription to ${productName(subscription.productId)}`,
      acts:
        isOver(subscription) || subscription.cancelAtPeriodEnd
          ? html`<a href="${root}">All subscriptions</a>`
          : html`<a class="button danger" href="${path}/cancel">Cancel it</a>`,
      body: html`<dl class="facts">
${detailRow('State', subscriptionState(subscription))}
${detailRow('Subscription', idText(subscription.subscriptionId))}
${detailRow('Quantity', String(subscription.quantity))}
${detailRow('Every', subscription.interval)}
${detailRow('This period cost', dollarText(subscription.amountCents))}
${detailRow('Period began', timeText(subscription.currentPeriodStart))}
${detailRow('Period ends', timeText(subscription.currentPeriodEnd))}
${detailRow('Paid by', html`<a href="/console/orders/${subscription.orderId}">${idText(subscription.orderId)}</a>`)}
${detailRow('Plan', subscription.planId === null ? null : html`<a href="/console/plans/${subscription.planId}">${idText(subscription.planId)}</a>`)}
${detailRow('Country', subscription.fulfillmentMeta?.country ?? null)}
${detailRow(
  'Addresses',
  subscription.proxyIds.length === 0
    ? null
    : html`${subscription.proxyIds.map((id) => html`<a href="/console/addresses/${id}">${idText(id)}</a><br>`)}`,
)}
${detailRow('Tried again until', subscription.graceEndsAt === null ? null : timeText(subscription.graceEndsAt))}
${detailRow('Why', subscription.reason?.replaceAll('_', ' ') ?? null)}
${detailRow('Ended', subscription.endedAt === null ? null : timeText(subscription.endedAt))}
${detailRow('Since', timeText(subscription.startedAt))}
</dl>
<p class="soft">The next period costs what the product costs then.</p>`,
      same: [
        `curl $API/subscriptions/${subscription.subscriptionId} -H "X-API-Key: $KEY"`,
        `curl -X DELETE $API/subscriptions/${subscription.subscriptionId} -H "X-API-Key: $KEY"`,
      ],
    }
  }

  return [
    accountPage({
      path: '/console/subscriptions',
      name: 'showSubscriptions',
      summary: 'The subscriptions of the account',
      nav: { label: 'Subscriptions' },
      show: list,
    }),
    accountPage({
      path: '/console/subscriptions/{id}',
      name: 'showSubscription',
      summary: 'One subscription and its period',
      show: async (visit) => show(oneView(await ownSubscription(visit))),
    }),
    accountPage({
      path: '/console/subscriptions/{id}/cancel',
      name: 'cancelSubscriptionPage',
      summary: 'Cancels a subscription',
      show: async (visit) => {
        const subscription = await ownSubscription(visit)
        const { subscriptionId, productId, status, currentPeriodEnd } = subscription
        const path = `${root}/${subscriptionId}`
        return show({
          title: `Cancel ${productName(productId)}`,
          body: html`<p>Nothing more is charged. ${
            status === 'past_due'
              ? 'Its period is over: it ends at once.'
              : html`What is paid lasts until ${timeText(currentPeriodEnd)}.`
          }</p>
<form method="post" action="${path}/cancel"><div class="acts"><button class="danger">Cancel the subscription</button> <a href="${path}">Keep it</a></div></form>`,
          same: [`curl -X DELETE $API/subscriptions/${subscriptionId} -H "X-API-Key: $KEY"`],
        })
      },
      act: {
        run: async ({ account, params, cause }) => {
          const canceled = await subscriptions.cancel({
            ...cause,
            accountId: account.accountId,
            subscriptionId: (params.id ?? '') as SubscriptionId,
          })
          if (!canceled) throw refuse('not_found', 'no subscription has this id')
          return goTo(
            `${root}/${params.id}`,
            canceled.subscription.ended === null
              ? 'Nothing more is charged: it ends with its period.'
              : 'The subscription is over.',
          )
        },
      },
    }),
  ]
}
