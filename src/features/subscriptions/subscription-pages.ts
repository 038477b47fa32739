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
import { formOf } from '../../platform/ui/form.ts'
import { html } from '../../platform/ui/html.ts'
import { labelled, listPage } from '../../platform/ui/list.ts'
import { type AccountVisit, accountPage, type ConsolePage, goTo } from '../../platform/ui/page.ts'
import {
  amountColumn,
  countColumn,
  detailsOf,
  nameColumn,
  stateColumn,
  textColumn,
  timeColumn,
} from '../../platform/ui/table.ts'
import {
  afterText,
  type BadgeTone,
  buttonLink,
  dollarText,
  idText,
  stateText,
  timeText,
} from '../../platform/ui/text.ts'
import { productName } from '../catalog/index.ts'
import { type SubscriptionRecord, subscriptionRecord } from './subscription-record.ts'
import type { Subscriptions } from './subscription-service.ts'

const root = '/console/subscriptions'

const subscriptionBadges: Readonly<Record<SubscriptionStatus, readonly [string, BadgeTone]>> = {
  active: ['active', 'good'],
  past_due: ['past due', 'bad'],
  canceled: ['canceled', 'off'],
  expired: ['expired', 'off'],
}

const subscriptionBadge = ({
  status,
  cancelAtPeriodEnd,
}: SubscriptionRecord): readonly [string, BadgeTone] =>
  status === 'active' && cancelAtPeriodEnd ? ['ends with its period', 'warn'] : subscriptionBadges[status]

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
  /** The account's subscription of the path, including a cancellation by another process. @throws not_found */
  const ownSubscription = async ({ account, params, nowMs }: AccountVisit): Promise<SubscriptionRecord> => {
    const id = params.id ?? ''
    const last = await log.lastOf(subscriptionStream(id as SubscriptionId))
    await reads.settled(account.accountId, last?.position ?? 0)
    const row = await findSubscription(db, wholeAccount(account.accountId), id)
    if (!row) throw refuse('not_found', 'no subscription has this id')
    return subscriptionRecord(row, nowMs)
  }

  return [
    listPage(accountPage, {
      path: '/console/subscriptions',
      name: 'showSubscriptions',
      summary: 'The subscriptions of the account',
      title: 'Subscriptions',
      filters: { status: { label: 'State', choices: labelled(subscriptionStatuses) } },
      caption: 'Subscriptions',
      orderedBy: 'Since',
      file: 'subscriptions',
      load: async ({ account, nowMs }, page) => {
        await reads.settled(account.accountId)

        const rows = await subscriptionsAfter(db, wholeAccount(account.accountId), page, nowMs)
        return rows.map((row) => subscriptionRecord(row, nowMs))
      },
      keyOf: ({ startedAt, subscriptionId }) => afterText(startedAt, subscriptionId),
      columns: (_) => [
        nameColumn('Subscription', ({ subscriptionId, productId }) => ({
          text: productName(catalog, productId),
          href: `${root}/${subscriptionId}`,
        })),
        stateColumn('State', subscriptionBadge),
        countColumn('Quantity', ({ quantity }) => quantity),
        textColumn('Every', ({ interval }) => interval),
        amountColumn('This period', ({ amountCents }) => amountCents, { place: 'lead' }),
        timeColumn(
          'Next charge',
          ({ status, cancelAtPeriodEnd, currentPeriodEnd }) =>
            (status === 'active' || status === 'past_due') && !cancelAtPeriodEnd ? currentPeriodEnd : null,
          { none: 'none' },
        ),
        timeColumn('Since', ({ startedAt }) => startedAt, { place: 'minor' }),
      ],
      empty: 'You have no subscriptions. Start one by the API: it buys the same product again each period.',
      cliEquivalents: () => ['curl $API/subscriptions -H "X-API-Key: $KEY"'],
    }),
    accountPage({
      path: '/console/subscriptions/{id}',
      name: 'showSubscription',
      crumb: 'Subscription',
      summary: 'One subscription and its period',
      show: async (visit) => {
        const subscription = await ownSubscription(visit)
        const { subscriptionId, orderId, planId, proxyIds, graceEndsAt, endedAt } = subscription
        const isOver = subscription.status === 'canceled' || subscription.status === 'expired'
        return {
          title: `Subscription to ${productName(catalog, subscription.productId)}`,
          actions:
            isOver || subscription.cancelAtPeriodEnd
              ? html`<a href="${root}">All subscriptions</a>`
              : buttonLink(`${visit.path}/cancel`, 'Cancel subscription', 'danger'),
          body: html`${detailsOf([
            ['State', stateText(...subscriptionBadge(subscription))],
            ['Subscription', idText(subscriptionId)],
            ['Quantity', String(subscription.quantity)],
            ['Every', subscription.interval],
            ['Price of this period', dollarText(subscription.amountCents)],
            ['Period started', timeText(subscription.currentPeriodStart)],
            ['Period ends', timeText(subscription.currentPeriodEnd)],
            ['Paid by', idText(orderId, `/console/orders/${orderId}`)],
            ['Plan', planId && idText(planId, `/console/plans/${planId}`)],
            ['Country', subscription.fulfillmentMeta?.country],
            [
              'Addresses',
              proxyIds.length === 0
                ? null
                : html`${proxyIds.map((id) => html`${idText(id, `/console/addresses/${id}`)}<br>`)}`,
            ],
            ['Retried until', graceEndsAt && timeText(graceEndsAt)],
            ['Reason', subscription.reason?.replaceAll('_', ' ')],
            ['Ended', endedAt && timeText(endedAt)],
            ['Since', timeText(subscription.startedAt)],
          ])}
<p class="soft">Each period is charged at the product's current price.</p>`,
          cliEquivalents: [
            `curl $API/subscriptions/${subscriptionId} -H "X-API-Key: $KEY"`,
            `curl -X DELETE $API/subscriptions/${subscriptionId} -H "X-API-Key: $KEY"`,
          ],
        }
      },
    }),
    accountPage({
      path: '/console/subscriptions/{id}/cancel',
      name: 'cancelSubscriptionPage',
      summary: 'Cancels a subscription',
      show: async (visit) => {
        const { subscriptionId, productId, status, currentPeriodEnd } = await ownSubscription(visit)
        return {
          title: `Cancel ${productName(catalog, productId)}`,
          body: html`<p>You will not be charged again. ${
            status === 'past_due'
              ? 'The paid period is over, so it ends at once.'
              : html`The paid period lasts until ${timeText(currentPeriodEnd)}.`
          }</p>
${formOf(visit.form, { submit: 'Cancel subscription', danger: true, back: `${root}/${subscriptionId}`, backLabel: 'Keep it' })}`,
          cliEquivalents: [`curl -X DELETE $API/subscriptions/${subscriptionId} -H "X-API-Key: $KEY"`],
        }
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
              ? 'The subscription ends with its period.'
              : 'The subscription has ended.',
          )
        },
      },
    }),
  ]
}
