import type pg from 'pg'
import type { PayUrlOf } from '../../../projections/deposits.ts'
import { type FoundOrder, findOrder, ordersAfter } from '../../../projections/orders.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { OrderEvent } from '../../domain/orders/events.ts'
import { orderStatuses, waitsFor } from '../../domain/orders/fold.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { AccountId, OrderId } from '../../kernel/ids.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import { orderStream } from '../../kernel/streams.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { formOf } from '../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { labelled, listPage } from '../../platform/ui/list.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  goTo,
  type ShownAccount,
} from '../../platform/ui/page.ts'
import {
  amountColumn,
  type Column,
  detailsOf,
  idColumn,
  nameColumn,
  stateColumn,
  textColumn,
  timeColumn,
  timelineOf,
} from '../../platform/ui/table.ts'
import {
  afterText,
  amountText,
  buttonLink,
  countText,
  dollarText,
  idText,
  oneOf,
  queryText,
  timeText,
} from '../../platform/ui/text.ts'
import {
  customerColumn,
  customerLink,
  customerRefs,
  type OfCustomer,
  withCustomers,
} from '../accounts/index.ts'
import { productName } from '../catalog/index.ts'
import type { CancelOrder } from './cancel-order.ts'
import { orderBadge, orderState } from './order-state.ts'
import { orderRecord } from './routes.ts'

type Products = { current(): Pick<Catalog, 'products' | 'resolve'> }

/** A search for orders or plans by an id, a label, or the name of a product; null: none. */
export const productSearch = (catalog: { current(): Pick<Catalog, 'products'> }, text: string) => {
  const wanted = text.toLowerCase()
  const productIds = catalog
    .current()
    .products.filter(({ id, name }) => `${id} ${name}`.toLowerCase().includes(wanted))
    .map(({ id }) => id)
  return text === '' ? null : { text, productIds }
}

const customerIdOf = ({ details }: FoundOrder): string | null => details.customerId

/** The orders with the reseller's own ids of their customers. */
export const ordersWithCustomers = (pool: pg.Pool, reseller: AccountId, orders: readonly FoundOrder[]) =>
  withCustomers(pool, reseller, orders, customerIdOf)

/** The columns of an order table. For a reseller they include the customer of an order. */
export const orderColumns = (
  catalog: Products,
  account: ShownAccount,
): readonly Column<OfCustomer<FoundOrder>>[] => [
  nameColumn('Order', ({ details }) => ({
    text: productName(catalog, details.productId),
    href: `/console/orders/${details.orderId}`,
    note: details.kind === 'order' ? null : details.kind,
  })),
  textColumn('Quantity', ({ details }) => `${details.quantity} ${details.unit}`, { place: 'plain' }),
  stateColumn('State', orderBadge),
  ...(account.reseller ? [customerColumn(customerIdOf)] : []),
  amountColumn('Amount', ({ details }) => details.amountCents, { place: 'lead' }),
  timeColumn('Ordered', ({ details }) => details.createdAt, { place: 'plain' }),
  idColumn('Order id', ({ details }) => details.orderId),
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
        detail: [
          ...(event.data.missingCents === undefined
            ? []
            : [`${dollarText(event.data.missingCents)} missing`]),
          `retried until ${event.data.until}`,
        ].join(', '),
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
  pool,
  reads,
  log,
  catalog,
  payUrlOf,
  cancelOrder,
}: {
  readonly db: Db
  readonly pool: pg.Pool
  readonly reads: Pick<Reads, 'settled'>
  readonly log: Pick<EventLog, 'readStream'>
  readonly catalog: Products
  readonly payUrlOf: PayUrlOf
  readonly cancelOrder: CancelOrder
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

  /** The account's order of the path. @throws not_found */
  const ownOrder = async ({ account, params, nowMs }: AccountVisit): Promise<FoundOrder> => {
    await reads.settled(account.accountId)
    const order = await findOrder(db, wholeAccount(account.accountId), params.id ?? '', nowMs, payUrlOf)
    if (!order) throw refuse('not_found', 'no order has this id')
    return order
  }

  return [
    listPage(accountPage, {
      path: '/console/orders',
      name: 'showOrders',
      summary: 'The orders of the account',
      title: 'Orders',
      actions: buttonLink('/console/catalogue', 'Buy proxies', 'first'),
      filters: { status: { label: 'State', choices: labelled(orderStatuses) } },
      caption: 'Orders',
      search: 'Product, id or customer',
      orderedBy: 'Ordered',
      file: 'orders',
      load: async ({ account, nowMs }, { search, ...page }) => {
        await reads.settled(account.accountId)
        const orders = await ordersAfter(
          db,
          wholeAccount(account.accountId),
          { ...page, search: productSearch(catalog, search) },
          nowMs,
        )
        return ordersWithCustomers(pool, account.accountId, orders)
      },
      keyOf: ({ details }) => afterText(details.createdAt, details.orderId),
      columns: ({ account }) => orderColumns(catalog, account),
      empty: html`<p>You have not bought anything yet.</p><p>${buttonLink('/console/catalogue', 'See the catalogue', 'first')}</p>`,
      cliEquivalents: ({ query }) => {
        const status = oneOf(orderStatuses, query.get('status'))
        return [`curl "$API/orders${queryText(status ? { status } : {})}" -H "X-API-Key: $KEY"`]
      },
    }),
    accountPage({
      path: '/console/orders/{id}',
      name: 'showOrder',
      crumb: 'Order',
      summary: 'One order with its history',
      show: async (visit) => {
        const { account } = visit
        const orderRow = await ownOrder(visit)
        const { orderId } = orderRow.details
        const order = orderRecord(orderRow, account.reseller)
        const { planId, customerId, fulfillmentMeta, yourCostCents, marginCents } = order
        const customers = await customerRefs(pool, account.accountId, [customerId])
        const refundFields = {
          customer: customerId ?? '',
          kind: 'goodwill',
          amount: amountText(order.amountCents - order.refundedCents),
          reference: order.orderId,
        }
        return {
          title: `Order of ${productName(catalog, order.productId)}`,
          actions: html`${
            order.payUrl !== null
              ? html`<a class="button first" href="${order.payUrl}" rel="noreferrer">Pay ${dollarText(order.chargeCents ?? order.amountCents)}</a>`
              : planId !== null
                ? buttonLink(`/console/plans/${planId}/lines`, 'Get proxy lines', 'first')
                : order.proxyIds.length > 0
                  ? buttonLink('/console/addresses', 'See addresses', 'first')
                  : nothing
          }${order.waitsFor === null ? nothing : buttonLink(`/console/orders/${order.orderId}/cancel`, 'Cancel order', 'danger')}${customerId === null ? nothing : buttonLink(`/console/reseller/movement${queryText(refundFields)}`, 'Refund the customer')}`,
          body: html`${
            order.waitsFor === 'wallet'
              ? html`<p class="message warn">Your customer has paid, but your wallet lacks ${dollarText(order.walletShortfallCents ?? 0)} for your cost. <a href="/console/top-up">Top up</a>: the order is then placed by itself. Otherwise it fails at ${timeText(String(order.waitsUntil))}, and the customer keeps the credit.</p>`
              : null
          }${
            order.owedCents === undefined
              ? null
              : html`<p class="message warn">${customerId === null ? 'You owe' : 'The customer owes'} ${dollarText(order.owedCents)} after a refund or a dispute. The payment pays it first.</p>`
          }${
            order.shortfallCents === undefined
              ? null
              : html`<p class="message warn">The pay page charges ${dollarText(order.shortfallCents)} less than the order needs now: add this amount to the ${customerId === null ? 'wallet' : 'credit'} before you pay, or the order is not placed.</p>`
          }${detailsOf([
            ['State', orderState(orderRow)],
            ['Order', idText(order.orderId)],
            ['Quantity', `${order.quantity} ${order.unit}`],
            ['Amount', dollarText(order.amountCents)],
            ['Refunded', order.refundedCents === 0 ? null : dollarText(order.refundedCents)],
            ['Your cost', yourCostCents === undefined ? null : dollarText(yourCostCents)],
            ['Margin', marginCents === undefined ? null : dollarText(marginCents)],
            ['Customer', customerId && customerLink(customerId, customers.get(customerId))],
            ['Country', fulfillmentMeta?.country],
            ['Days', fulfillmentMeta ? String(fulfillmentMeta.period_days) : null],
            ['Plan', planId && html`<a href="/console/plans/${planId}">${idText(planId)}</a>`],
            ['Addresses', order.proxyIds.length === 0 ? null : countText(order.proxyIds.length, 'rental')],
            ['Ordered', timeText(order.createdAt)],
            ['Failure', order.failureReason?.replaceAll('_', ' ')],
            ['Canceled because', order.cancelReason?.replaceAll('_', ' ')],
          ])}
<h2>History</h2>
${await timeline(orderId)}`,
          cliEquivalents: [
            `curl $API/orders/${order.orderId} -H "X-API-Key: $KEY"`,
            `bin/farebox ledger explain ${order.orderId}`,
          ],
        }
      },
    }),
    accountPage({
      path: '/console/orders/{id}/cancel',
      name: 'cancelOrderPage',
      summary: 'Cancels an order that waits',
      show: async (visit) => {
        const { details, ...order } = await ownOrder(visit)
        const { orderId } = details
        const isPaid = waitsFor(order) === 'wallet'
        return {
          title: `Cancel order of ${productName(catalog, details.productId)}`,
          body: html`<p>Nothing is charged, and its pay page is closed. ${isPaid ? "The customer's payment stays in the credit." : 'A payment that arrives later is credited.'}</p>
${formOf(visit.form, { submit: 'Cancel order', danger: true, back: `/console/orders/${orderId}`, backLabel: 'Keep it' })}`,
          cliEquivalents: [`curl -X POST $API/orders/${orderId}/cancel -H "X-API-Key: $KEY"`],
        }
      },
      act: {
        run: async (visit) => {
          const { orderId } = (await ownOrder(visit)).details
          await cancelOrder(orderId, visit.cause)
          return goTo(`/console/orders/${orderId}`, 'The order is canceled.')
        },
      },
    }),
  ]
}
