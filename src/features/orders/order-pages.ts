import type { PayUrlOf } from '../../../projections/deposits.ts'
import { type FoundOrder, findOrder, ordersAfter } from '../../../projections/orders.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { OrderEvent } from '../../domain/orders/events.ts'
import { orderStatuses } from '../../domain/orders/fold.ts'
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
import { accountPage, type ConsolePage, type ShownAccount } from '../../platform/ui/page.ts'
import { type Column, detailsOf, listOf, timelineOf } from '../../platform/ui/table.ts'
import {
  afterText,
  amountText,
  countText,
  dollarText,
  idText,
  oneOf,
  queryText,
  timeText,
} from '../../platform/ui/text.ts'
import { orderState } from './order-state.ts'
import { orderRecord } from './routes.ts'

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
          title: 'Customer',
          cell: ({ details }: FoundOrder) =>
            details.customerId === null ? 'yourself' : html`<code>${details.customerId}</code>`,
        },
      ]
    : []),
  { title: 'Amount, USD', number: true, cell: ({ details }) => amountText(details.amountCents) },
  { title: 'Ordered', cell: ({ details }) => timeText(details.createdAt) },
]

/** The customer's text for an event of an order: one line, and possibly more. */
const timelineText = (event: OrderEvent): { readonly heading: string; readonly detail: string | null } => {
  switch (event.type) {
    case 'OrderCompleted':
      return {
        heading: 'Ordered, paid from the wallet and delivered',
        detail: `${dollarText(event.data.order.amountCents)}; wallet balance ${dollarText(event.data.balanceCents)} after it`,
      }
    case 'OrderPlaced':
      return {
        heading: 'Ordered and paid from the wallet',
        detail: `${dollarText(event.data.order.amountCents)}; wallet balance ${dollarText(event.data.balanceCents)} after it`,
      }
    case 'OrderAwaitingPayment':
      return { heading: 'Awaiting payment', detail: `invoice ${event.data.depositId}` }
    case 'OrderPaid':
      return { heading: 'Paid', detail: dollarText(event.data.order.amountCents) }
    case 'OrderHeld':
      return {
        heading: 'Paid by the customer; your wallet balance is too low',
        detail: `retried until ${event.data.until}`,
      }
    case 'OrderFulfilled':
      return { heading: 'Delivered', detail: null }
    case 'OrderFailed':
      return { heading: 'Failed', detail: event.data.reason.replaceAll('_', ' ') }
    case 'RefundDecided':
      return { heading: 'Refund decided', detail: dollarText(event.data.amountCents) }
    case 'OrderRefunded':
      return {
        heading: 'Refunded',
        detail: `${dollarText(event.data.amountCents)}; ${dollarText(event.data.refundedCents)} in total`,
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
  return actor.kind === 'operator' ? 'by an operator' : 'by the service'
}

/** The orders of an account, and the page of one order with its events. */
export const orderPages = ({
  db,
  reads,
  log,
  catalog,
  payUrlOf,
}: {
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
  readonly log: Pick<EventLog, 'readStream'>
  readonly catalog: Products
  readonly payUrlOf: PayUrlOf
}): readonly ConsolePage[] => {
  const timeline = async (orderId: string): Promise<Html> => {
    const items = []
    for await (const stored of log.readStream(orderStream(orderId as OrderId))) {
      const event = decode(stored) as RecordedEvent<OrderEvent>
      const at = html`${timeText(event.metadata.recordedAt)} ${actorLabel(event)}`
      items.push({ ...timelineText(event), at })
    }
    return timelineOf(items)
  }

  return [
    accountPage({
      path: '/console/orders',
      name: 'showOrders',
      summary: 'The orders of the account',
      nav: { label: 'Orders' },
      show: async (visit) => {
        const { account, query, nowMs } = visit
        const status = oneOf(orderStatuses, query.get('status'))
        await reads.settled(account.accountId)
        return {
          title: 'Orders',
          body: await listOf(visit, {
            caption: 'Orders, newest first',
            filters: [{ name: 'status', label: 'State', value: status, choices: orderStatuses }],
            load: (page) => ordersAfter(db, wholeAccount(account.accountId), { status, ...page }, nowMs),
            keyOf: ({ details }) => afterText(details.createdAt, details.orderId),
            columns: orderColumns(catalog, account),
            empty: 'There are no orders yet.',
          }),
          cliEquivalents: [`curl "$API/orders${queryText(status ? { status } : {})}" -H "X-API-Key: $KEY"`],
        }
      },
    }),
    accountPage({
      path: '/console/orders/{id}',
      name: 'showOrder',
      summary: 'One order with its history',
      show: async ({ account, params, nowMs }) => {
        const orderId = params.id ?? ''
        await reads.settled(account.accountId)
        const orderRow = await findOrder(db, wholeAccount(account.accountId), orderId, nowMs, payUrlOf)
        if (!orderRow) throw refuse('not_found', 'no order has this id')
        const order = orderRecord(orderRow, account.reseller)
        const { planId, customerId, fulfillmentMeta, yourCostCents, marginCents } = order
        return {
          title: `Order of ${productName(catalog, order.productId)}`,
          actions:
            order.payUrl === null
              ? nothing
              : html`<a class="button first" href="${order.payUrl}" rel="noreferrer">Pay ${dollarText(order.chargeCents ?? order.amountCents)}</a>`,
          body: html`${detailsOf([
            ['State', orderState(order.status)],
            ['Order', idText(order.orderId)],
            ['Quantity', `${order.quantity} ${order.unit}`],
            ['Amount', dollarText(order.amountCents)],
            ['Refunded', order.refundedCents === 0 ? null : dollarText(order.refundedCents)],
            ['Your cost', yourCostCents === undefined ? null : dollarText(yourCostCents)],
            ['Margin', marginCents === undefined ? null : dollarText(marginCents)],
            ['Customer', customerId && idText(customerId)],
            ['Country', fulfillmentMeta?.country],
            ['Days', fulfillmentMeta ? String(fulfillmentMeta.period_days) : null],
            ['Plan', planId && html`<a href="/console/plans/${planId}">${idText(planId)}</a>`],
            ['Addresses', order.proxyIds.length === 0 ? null : countText(order.proxyIds.length, 'rental')],
            ['Ordered', timeText(order.createdAt)],
            ['Failure', order.failureReason?.replaceAll('_', ' ')],
          ])}
<h2>History</h2>
${await timeline(orderId)}`,
          cliEquivalents: [
            `curl $API/orders/${order.orderId} -H "X-API-Key: $KEY"`,
            `npx farebox ledger explain ${order.orderId}`,
          ],
        }
      },
    }),
  ]
}
