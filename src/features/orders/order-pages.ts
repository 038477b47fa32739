import type { PayUrlOf } from '../../../projections/deposits.ts'
import { type FoundOrder, findOrder, ordersAfter } from '../../../projections/orders.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { OrderEvent } from '../../domain/orders/events.ts'
import { type OrderStatus, orderStatuses } from '../../domain/orders/fold.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { OrderId } from '../../kernel/ids.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import { orderStream } from '../../kernel/streams.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  type ShownAccount,
  show,
} from '../../platform/ui/page.ts'
import { type Column, filtersOf, pagedOf, pageRows, pagerOf, tableOf } from '../../platform/ui/table.ts'
import {
  afterOf,
  afterText,
  amountText,
  countText,
  dollarText,
  idText,
  timeText,
} from '../../platform/ui/text.ts'
import { orderRecord } from './order-record.ts'
import { orderState } from './order-state.ts'

type Products = { current(): Pick<Catalog, 'resolve'> }

const productName = (catalog: Products, productId: string): string =>
  catalog.current().resolve(productId)?.name ?? productId

/** The columns of an order table. For a reseller they include the customer of an order. */
export const orderColumns = (catalog: Products, account: ShownAccount): readonly Column<FoundOrder>[] => [
  {
    title: 'Order',
    head: true,
    cell: ({ details }) =>
      html`<a href="/console/orders/${details.orderId}">${productName(catalog, details.productId)}</a>${details.kind === 'order' ? null : html` <small>${details.kind}</small>`}`,
  },
  { title: 'Quantity', number: true, cell: ({ details }) => `${details.quantity} ${details.unit}` },
  { title: 'State', cell: ({ status }) => orderState(status) },
  ...(account.reseller
    ? [
        {
          title: 'For',
          cell: ({ details }: FoundOrder) =>
            details.customerId === null ? 'yourself' : html`<code>${details.customerId}</code>`,
        },
      ]
    : []),
  { title: 'Amount, USD', number: true, cell: ({ details }) => amountText(details.amountCents) },
  { title: 'Ordered', cell: ({ details }) => timeText(details.createdAt) },
]

const statusOf = (text: string | null): OrderStatus | undefined =>
  orderStatuses.find((status) => status === text)

type OrderReads = {
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
  readonly log: Pick<EventLog, 'readStream'>
  readonly catalog: Products
  readonly payUrlOf: PayUrlOf
}

const list = async (
  { db, reads, catalog }: Omit<OrderReads, 'log' | 'payUrlOf'>,
  { account, query, nowMs }: AccountVisit,
) => {
  const status = statusOf(query.get('status'))
  const before = query.get('before')
  const after = afterOf(before)
  await reads.settled(account.accountId)
  const orderRows = await ordersAfter(
    db,
    wholeAccount(account.accountId),
    { status, after, limit: pageRows + 1 },
    nowMs,
  )
  const { rows, next } = pagedOf(orderRows, ({ details }) => afterText(details.createdAt, details.orderId))
  const filter: Readonly<Record<string, string>> = status === undefined ? {} : { status }
  return show({
    title: 'Orders',
    body: html`${filtersOf('/console/orders', [
      {
        name: 'status',
        label: 'State',
        value: status ?? '',
        choices: [
          { value: '', label: 'any' },
          ...orderStatuses.map((value) => ({ value, label: value.replaceAll('_', ' ') })),
        ],
      },
    ])}
${tableOf({
  caption: 'Orders, newest first',
  rows,
  columns: orderColumns(catalog, account),
  empty:
    status !== undefined || after !== null
      ? html`<p>No order fits. <a href="/console/orders">Show all</a></p>`
      : html`<p>Nothing was ordered yet.</p>`,
})}
${pagerOf('/console/orders', filter, { before: after === null ? null : before, next })}`,
    same: [`curl "$API/orders${status === undefined ? '' : `?status=${status}`}" -H "X-API-Key: $KEY"`],
  })
}

/** The customer's text for an event of an order: one line, and possibly more. */
const timelineText = (event: OrderEvent): { readonly heading: string; readonly detail: string | null } => {
  switch (event.type) {
    case 'OrderCompleted':
      return {
        heading: 'Ordered, paid from the wallet and delivered',
        detail: `${dollarText(event.data.order.amountCents)}; the wallet had ${dollarText(event.data.balanceCents)} then`,
      }
    case 'OrderPlaced':
      return {
        heading: 'Ordered and paid from the wallet',
        detail: `${dollarText(event.data.order.amountCents)}; the wallet had ${dollarText(event.data.balanceCents)} then`,
      }
    case 'OrderAwaitingPayment':
      return { heading: 'Waits for its payment', detail: `invoice ${event.data.depositId}` }
    case 'OrderPaid':
      return { heading: 'Paid', detail: dollarText(event.data.order.amountCents) }
    case 'OrderHeld':
      return {
        heading: 'Its customer paid, and your wallet is short',
        detail: `tried again until ${event.data.until}`,
      }
    case 'OrderFulfilled':
      return { heading: 'Delivered', detail: null }
    case 'OrderFailed':
      return { heading: 'Failed', detail: event.data.reason.replaceAll('_', ' ') }
    case 'RefundDecided':
      return { heading: 'A refund was decided', detail: dollarText(event.data.amountCents) }
    case 'OrderRefunded':
      return {
        heading: 'Refunded',
        detail: `${dollarText(event.data.amountCents)}; ${dollarText(event.data.refundedCents)} in all`,
      }
    case 'OrderCanceled':
      return { heading: 'Canceled', detail: event.data.reason?.replaceAll('_', ' ') ?? null }
    default:
      return event satisfies never
  }
}

const actorLabel = (event: RecordedEvent): string => {
  const { actor } = event.metadata
  if (actor.kind === 'key') return `by key ${actor.keyId}`
  if (actor.kind === 'session') return 'in the console'
  return actor.kind === 'operator' ? 'by the operator' : 'by the service'
}

const timeline = async (log: OrderReads['log'], orderId: string): Promise<Html> => {
  const items: Html[] = []
  for await (const stored of log.readStream(orderStream(orderId as OrderId))) {
    const event = decode(stored) as RecordedEvent<OrderEvent>
    const { heading, detail } = timelineText(event)
    items.push(
      html`<li><strong>${heading}</strong>${detail === null ? null : html`<br>${detail}`}<br><small>${timeText(event.metadata.recordedAt)} ${actorLabel(event)}</small></li>\n`,
    )
  }
  return html`<ol class="timeline">${items}</ol>`
}

const shownOrder = async (
  { db, reads, log, catalog, payUrlOf }: OrderReads,
  { account, params, nowMs }: AccountVisit,
) => {
  const orderId = params.id ?? ''
  await reads.settled(account.accountId)
  const orderRow = await findOrder(db, wholeAccount(account.accountId), orderId, nowMs, payUrlOf)
  if (!orderRow) throw refuse('not_found', 'no order has this id')
  const order = orderRecord(orderRow, account.reseller)
  const detailRow = (name: string, value: Html | string | null): Html =>
    value === null ? nothing : html`<dt>${name}</dt><dd>${value}</dd>\n`
  return show({
    title: `Order of ${productName(catalog, order.productId)}`,
    acts:
      order.payUrl === null
        ? nothing
        : html`<a class="button first" href="${order.payUrl}" rel="noreferrer">Pay ${dollarText(order.chargeCents ?? order.amountCents)}</a>`,
    body: html`<dl class="facts">
${detailRow('State', orderState(order.status))}
${detailRow('Order', idText(order.orderId))}
${detailRow('Quantity', `${order.quantity} ${order.unit}`)}
${detailRow('Amount', dollarText(order.amountCents))}
${detailRow('Came back', order.refundedCents === 0 ? null : dollarText(order.refundedCents))}
${detailRow('Your cost', order.yourCostCents === undefined ? null : dollarText(order.yourCostCents))}
${detailRow('Margin', order.marginCents === undefined ? null : dollarText(order.marginCents))}
${detailRow('For customer', order.customerId === null ? null : idText(order.customerId))}
${detailRow('Country', order.fulfillmentMeta?.country ?? null)}
${detailRow('Days', order.fulfillmentMeta ? String(order.fulfillmentMeta.period_days) : null)}
${detailRow('Plan', order.planId === null ? null : html`<a href="/console/plans/${order.planId}">${idText(order.planId)}</a>`)}
${detailRow('Addresses', order.proxyIds.length === 0 ? null : countText(order.proxyIds.length, 'rental'))}
${detailRow('Ordered', timeText(order.createdAt))}
${detailRow('Why it failed', order.failureReason?.replaceAll('_', ' ') ?? null)}
</dl>
<h2>What happened</h2>
${await timeline(log, orderId)}`,
    same: [
      `curl $API/orders/${order.orderId} -H "X-API-Key: $KEY"`,
      `npx farebox ledger explain ${order.orderId}`,
    ],
  })
}

/** The orders of an account, and the page of one order with its events. */
export const orderPages = (services: OrderReads): readonly ConsolePage[] => [
  accountPage({
    path: '/console/orders',
    name: 'showOrders',
    summary: 'The orders of the account',
    nav: { label: 'Orders' },
    show: (visit) => list(services, visit),
  }),
  accountPage({
    path: '/console/orders/{id}',
    name: 'showOrder',
    summary: 'One order with what happened to it',
    show: (visit) => shownOrder(services, visit),
  }),
]
