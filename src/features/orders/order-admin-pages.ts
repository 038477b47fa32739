import type pg from 'pg'
import { type FoundOrder, ordersAfter } from '../../../projections/orders.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { decidedRefundCents, type Order, orderStatuses, waitsFor } from '../../domain/orders/fold.ts'
import type { RefundRequest } from '../../domain/orders/refunds.ts'
import type { OrderId, ProxyId } from '../../kernel/ids.ts'
import { allAccounts } from '../../kernel/scopes.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { CaughtUp } from '../../platform/projections/read-your-writes.ts'
import { checkboxField, formPage, pageForm, textField } from '../../platform/ui/form-page.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { labelled, listPage } from '../../platform/ui/list.ts'
import {
  type ConsolePage,
  goTo,
  operatorPage,
  type PersonVisit,
  refused,
  staffPage,
} from '../../platform/ui/page.ts'
import {
  amountColumn,
  type Column,
  detailsOf,
  nameColumn,
  stateColumn,
  timeColumn,
} from '../../platform/ui/table.ts'
import { afterText, buttonLink, dollarText, idText, parseCents, timeText } from '../../platform/ui/text.ts'
import { emailsOf } from '../accounts/index.ts'
import { productName } from '../catalog/index.ts'
import { chainOf, explainResource, type JournalHead, linkedText } from '../finance/index.ts'
import { isReference, notProposedText, proposalPath } from '../wallet/index.ts'
import { productSearch } from './order-pages.ts'
import { orderBadge, orderState } from './order-state.ts'
import { type RefundOrder, readOrder, refundIdOf } from './refund-order.ts'

type Products = { current(): Pick<Catalog, 'products' | 'resolve'> }

/** The columns of an order table for staff. */
export const operatorOrderColumns = (catalog: Products): readonly Column<FoundOrder>[] => [
  nameColumn('Order', ({ details }) => ({
    text: productName(catalog, details.productId),
    href: pathOf(details.orderId),
    note: `${details.quantity} ${details.unit}`,
  })),
  stateColumn('State', orderBadge),
  amountColumn('Amount', ({ details }) => details.amountCents, { place: 'lead' }),
  amountColumn('Refunded', ({ refundedCents }) => refundedCents, { place: 'minor' }),
  timeColumn('Ordered', ({ details }) => details.createdAt, { place: 'plain' }),
]

const pathOf = (orderId: string): string => `/console/operator/orders/${orderId}`

const leftOf = (order: Order): number => order.details.amountCents - decidedRefundCents(order)

/** Rentals without a refund. */
const continuingRentals = (order: Order): readonly ProxyId[] => {
  const refunded = new Set(order.refunds.flatMap(({ proxyIds }) => proxyIds))
  return order.proxyIds.filter((id) => !refunded.has(id))
}

/** The largest number of events on the page of an order. */
const maxEvents = 100
/** The largest number of rentals in a list of ids. */
const maxListed = 20
/** The largest number of rentals in a form. The command accepts more. */
const maxRentals = 100

/** The list of all orders and the page of an order for staff, and its refund by operators. */
export const orderAdminPages = ({
  db,
  pool,
  log,
  catalog,
  caughtUp,
  journalHead,
  refundOrder,
}: {
  readonly db: Db
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly catalog: Products
  readonly caughtUp: CaughtUp
  readonly journalHead: JournalHead
  readonly refundOrder: RefundOrder
}): readonly ConsolePage[] => {
  /** The order of the path, from its stream. @throws not_found */
  const orderOf = async ({ params }: PersonVisit): Promise<Order> => {
    const id = params.id ?? ''
    const order = /^ord_[0-9a-f]{32}$/.test(id) ? await readOrder(log, id as OrderId) : null
    if (order === null) throw refuse('not_found', 'no order has this id')
    return order
  }

  const refund = async (
    visit: PersonVisit,
    orderId: OrderId,
    request: RefundRequest & { readonly reference: string },
  ) => {
    const refundId = refundIdOf(orderId, request.reference)
    const answer = await refundOrder({ orderId, refundId, request, ...visit.cause })
    if (answer === null) throw refuse('not_found', 'no order has this id')
    switch (answer.kind) {
      case 'not_approved':
        throw new Error('a refund without a proposal was refused approval')
      case 'four_eyes': {
        const { outcome, proposal } = answer.answer
        return outcome === 'proposed'
          ? goTo(
              proposalPath(proposal.proposalId),
              'No money was moved yet: this refund needs a second approver. Another operator must approve it.',
            )
          : refused({ reference: `It was refused: ${notProposedText(proposal)}.` }, 409)
      }
      case 'refused':
        return refused({ form: `It was refused: ${answer.reason}.` }, 409)
      case 'already_applied':
        return refused({ reference: 'This reason already refunded this order.' }, 409)
      default: {
        const continuingCount = answer.keptProxyIds.length
        const continuingText =
          continuingCount === 0 ? '' : ` ${continuingCount} rentals continue, because they were extended.`
        return goTo(pathOf(orderId), `${dollarText(answer.amountCents)} refunded.${continuingText}`)
      }
    }
  }

  return [
    listPage(staffPage, {
      path: '/console/operator/orders',
      name: 'listAllOrders',
      summary: 'The orders of all accounts, newest first',
      title: 'Orders',
      filters: { status: { label: 'State', choices: labelled(orderStatuses) } },
      caption: 'Orders of all accounts',
      search: 'Product, id or customer',
      orderedBy: 'Ordered',
      file: 'orders',
      load: async ({ nowMs }, { search, ...page }) => {
        await caughtUp()
        const query = { ...page, search: productSearch(catalog, search) }
        const orders = await ordersAfter(db, allAccounts, query, nowMs)
        const emails = await emailsOf(pool, [...new Set(orders.map(({ details }) => details.accountId))])
        return orders.map((order) => ({ ...order, email: emails.get(order.details.accountId) ?? null }))
      },
      keyOf: ({ details }) => afterText(details.createdAt, details.orderId),
      columns: (_) => [
        ...operatorOrderColumns(catalog),
        nameColumn('Account', ({ email, details: { accountId } }) => ({
          text: email ?? 'erased',
          href: `/console/operator/accounts/${accountId}`,
        })),
      ],
      empty: 'There are no orders yet.',
    }),
    staffPage({
      path: '/console/operator/orders/{id}',
      name: 'showAnyOrder',
      crumb: 'Order',
      summary: 'Any order with its history and postings',
      show: async (visit) => {
        const order = await orderOf(visit)
        const { details, proxyIds } = order
        const { orderId, customerId, costCents } = details
        const { roles } = visit.visitor
        const head = await journalHead()
        const explanation = await explainResource({ db, log }, orderId, { head, limit: maxEvents })
        const linked = (id: string | null | undefined): Html | null => (id ? linkedText(id, roles) : null)
        const moreRentals = proxyIds.length > maxListed ? ` and ${proxyIds.length - maxListed} more` : ''
        return {
          title: `Order of ${details.productId}`,
          actions:
            roles.has('operator') && order.paid && leftOf(order) > 0
              ? buttonLink(`${pathOf(orderId)}/refund`, 'Refund', 'danger')
              : nothing,
          body: html`${detailsOf([
            ['State', orderState(order)],
            [
              'Waits for the wallet',
              waitsFor(order) === 'wallet'
                ? html`${dollarText(order.awaiting?.missingCents ?? 0)} were missing when the customer paid; fails at ${timeText(String(order.awaiting?.heldUntil))}`
                : null,
            ],
            ['Order', idText(orderId)],
            ['Account', linked(details.accountId)],
            ['Customer', customerId && idText(customerId)],
            ['Quantity', `${details.quantity} ${details.unit}`],
            ['Amount', dollarText(details.amountCents)],
            ["Reseller's cost", costCents === undefined ? null : dollarText(costCents)],
            ['Refunded', order.refundedCents === 0 ? null : dollarText(order.refundedCents)],
            ['Plan', linked(order.planId)],
            ['Invoice', linked(order.awaiting?.depositId)],
            ['Rentals', linked(proxyIds.slice(0, maxListed).join(' ') + moreRentals)],
            ['Ordered', timeText(details.createdAt)],
            ['Failure', order.failureReason?.replaceAll('_', ' ')],
          ])}
<h2>History</h2>
${explanation && chainOf(explanation, roles)}`,
          cliEquivalents: [
            `bin/farebox orders show ${orderId}`,
            `bin/farebox ledger explain ${orderId} --limit ${maxEvents}`,
          ],
        }
      },
    }),
    formPage(operatorPage, {
      path: '/console/operator/orders/{id}/refund',
      name: 'refundOrder',
      summary: 'Refunds an order, an amount of it, or some of its rentals',
      confirmed: true,
      act: { once: true },
      form: async (visit) => {
        const order = await orderOf(visit)
        const { orderId, accountId, amountCents, kind } = order.details
        const currentRentals = continuingRentals(order)
        const rentals = kind === 'extension' ? [] : currentRentals
        const leftText = dollarText(leftOf(order))
        return pageForm({
          title: 'Refund an order',
          intro: html`<p>${idText(orderId)} of ${linkedText(accountId, visit.visitor.roles)}: ${dollarText(amountCents)} paid, ${leftText} left to refund.</p>
<p class="soft">Refunded to the original payment method. A full refund cancels the plan or rental, and so does a refund of rentals; a refund of an amount keeps it.</p>
${rentals.length > maxRentals ? html`<p class="hint">The first ${maxRentals} of ${rentals.length} rentals are listed. The command accepts all.</p>` : null}`,
          fields: {
            amount: textField({
              label: 'Amount, USD',
              inputmode: 'decimal',
              hint: 'Empty: all that is left, or the price of the ticked rentals.',
              parse: (text) =>
                text === ''
                  ? null
                  : parseCents(text, leftOf(order)) || {
                      problem: `Type dollars such as 2.50, at most the ${leftText} that are left.`,
                    },
            }),
            rentals: checkboxField({
              label: 'Only these rentals',
              choices: rentals.slice(0, maxRentals).map((id) => ({ value: id, label: id })),
              ticked: [],
              parse: (texts) => {
                const ticked = currentRentals.filter((id) => texts.includes(id))
                return ticked.length === new Set(texts).size
                  ? ticked
                  : { problem: 'Tick rentals of this order that are not refunded.' }
              },
            }),
            reference: textField({
              label: 'Reason',
              hint: 'It stays in the log: do not include personal data. The same reason refunds this order only once.',
              required: true,
              maxlength: 200,
              parse: (text) =>
                isReference(text) ? text : { problem: 'Give a reason of at most 200 characters.' },
            }),
          },
          submit: 'Refund order',
          danger: true,
          back: pathOf(orderId),
          cliEquivalents: [
            `bin/farebox orders refund --order ${orderId} --reference WHY`,
            `bin/farebox orders refund --order ${orderId} --cents CENTS --reference WHY`,
          ],
          run: async ({ amount, rentals: proxyIds, reference }) => {
            if (amount !== null && proxyIds.length > 0)
              return refused({ amount: 'Type an amount or tick rentals, not both.' })
            if (amount !== null) return refund(visit, orderId, { kind: 'cents', cents: amount, reference })
            return refund(
              visit,
              orderId,
              proxyIds.length > 0 ? { kind: 'proxies', proxyIds, reference } : { kind: 'whole', reference },
            )
          },
        })
      },
    }),
  ]
}
