import type { FoundOrder } from '../../../projections/orders.ts'
import { decidedRefundCents, type Order } from '../../domain/orders/fold.ts'
import type { RefundRequest } from '../../domain/orders/refunds.ts'
import type { OrderId, ProxyId } from '../../kernel/ids.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import { choicesOf, type FormInput, fieldOf, formOf, problemsIn } from '../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  type FormRefusal,
  goTo,
  operatorPage,
  type PageOutcome,
  type PersonVisit,
  type Role,
  refused,
} from '../../platform/ui/page.ts'
import { type Column, detailsOf } from '../../platform/ui/table.ts'
import { amountText, buttonLink, dollarText, idText, parseCents, timeText } from '../../platform/ui/text.ts'
import { chainOf, explainResource, type JournalHead, linkedText } from '../finance/index.ts'
import { isReference, proposalPath } from '../wallet/index.ts'
import { orderState } from './order-state.ts'
import { type RefundOrder, readOrder, refundIdOf } from './refund-order.ts'

/** The columns of an order table for operators. Each order links to its page for operators. */
export const operatorOrderColumns = (roles: ReadonlySet<Role>): readonly Column<FoundOrder>[] => [
  {
    title: 'Order',
    head: true,
    cell: ({ details }) =>
      html`${linkedText(details.orderId, roles)}<br><small>${details.quantity} ${details.unit} ${details.productId}</small>`,
  },
  { title: 'State', cell: ({ status }) => orderState(status) },
  { title: 'Amount, USD', number: true, cell: ({ details }) => amountText(details.amountCents) },
  { title: 'Refunded, USD', number: true, cell: ({ refundedCents }) => amountText(refundedCents) },
  { title: 'Ordered', cell: ({ details }) => timeText(details.createdAt) },
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

/** The operators' page of an order, and its refund. */
export const orderAdminPages = ({
  db,
  log,
  journalHead,
  refundOrder,
}: {
  readonly db: Db
  readonly log: EventLog
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

  const refund = async (visit: PersonVisit, typed: FormInput): Promise<PageOutcome | FormRefusal> => {
    const order = await orderOf(visit)
    const { orderId } = order.details
    const amount = typed.text('amount')
    const cents = amount === '' ? null : parseCents(amount, order.details.amountCents)
    const selected = [...new Set(typed.all('rentals'))]
    const reference = typed.text('reference')
    const currentRentals: readonly string[] = continuingRentals(order)
    const isAmountInvalid = cents === undefined || (cents !== null && (cents === 0 || cents > leftOf(order)))
    const problems = problemsIn({
      amount: isAmountInvalid
        ? `Type dollars such as 2.50, at most the ${dollarText(leftOf(order))} that are left.`
        : cents !== null && selected.length > 0 && 'Type an amount or tick rentals, not both.',
      rentals:
        selected.some((id) => !currentRentals.includes(id)) &&
        'Tick rentals of this order that are not refunded.',
      reference: !isReference(reference) && 'Give a reason of at most 200 characters.',
    })
    if (problems || cents === undefined) return refused(problems ?? {})
    const request: RefundRequest =
      cents !== null
        ? { kind: 'cents', cents, reference }
        : selected.length > 0
          ? { kind: 'proxies', proxyIds: selected as ProxyId[], reference }
          : { kind: 'whole', reference }
    const refundId = refundIdOf(orderId, reference)
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
          : refused(
              {
                reference: `A proposal with this reason and another amount is open: ${proposal.proposalId}.`,
              },
              409,
            )
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
    operatorPage({
      path: '/console/operator/orders/{id}',
      name: 'showAnyOrder',
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
            order.paid && leftOf(order) > 0
              ? buttonLink(`${pathOf(orderId)}/refund`, 'Refund', 'danger')
              : nothing,
          body: html`${detailsOf([
            ['State', orderState(order.status)],
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
            `npx farebox orders show ${orderId}`,
            `npx farebox ledger explain ${orderId} --limit ${maxEvents}`,
          ],
        }
      },
    }),
    operatorPage({
      path: '/console/operator/orders/{id}/refund',
      name: 'refundOrder',
      summary: 'Refunds an order, an amount of it, or some of its rentals',
      confirmed: true,
      show: async (visit) => {
        const { form } = visit
        const order = await orderOf(visit)
        const { orderId, accountId, amountCents, kind } = order.details
        const rentals = kind === 'extension' ? [] : continuingRentals(order)
        return {
          title: 'Refund an order',
          body: html`<p>${idText(orderId)} of ${linkedText(accountId, visit.visitor.roles)}: ${dollarText(amountCents)} paid, ${dollarText(leftOf(order))} left to refund.</p>
<p class="soft">Refunded to the original payment method. A full refund cancels the plan or rental, and so does a refund of rentals; a refund of an amount keeps it.</p>
${formOf(form, {
  fields: [
    fieldOf(
      {
        name: 'amount',
        label: 'Amount, USD',
        inputmode: 'decimal',
        hint: 'Empty: all that is left, or the price of the ticked rentals.',
      },
      form,
    ),
    rentals.length === 0
      ? null
      : choicesOf(
          {
            name: 'rentals',
            legend: 'Only these rentals',
            choices: rentals.slice(0, maxRentals).map((id) => ({ value: id, label: id })),
            chosen: [],
          },
          form,
        ),
    rentals.length > maxRentals
      ? html`<p class="hint">The first ${maxRentals} of ${rentals.length}. The command accepts all.</p>`
      : null,
    fieldOf(
      {
        name: 'reference',
        label: 'Reason',
        hint: 'It stays in the log: do not include personal data. The same reason refunds this order only once.',
        required: true,
        maxlength: 200,
      },
      form,
    ),
  ],
  submit: 'Refund order',
  danger: true,
  back: pathOf(orderId),
})}`,
          cliEquivalents: [
            `npx farebox orders refund --order ${orderId} --reference WHY`,
            `npx farebox orders refund --order ${orderId} --cents CENTS --reference WHY`,
          ],
        }
      },
      act: { once: true, run: refund },
    }),
  ]
}
