import type pg from 'pg'
import type { FoundOrder } from '../../../projections/orders.ts'
import { decidedRefundCents, type Order } from '../../domain/orders/fold.ts'
import type { RefundRequest } from '../../domain/orders/refunds.ts'
import type { OrderId, ProxyId } from '../../kernel/ids.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import {
  choicesOf,
  emptyFormInput,
  type FormInput,
  fieldOf,
  keyField,
  type Problems,
  problemsOf,
} from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  goTo,
  type PersonVisit,
  personPage,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import type { Role } from '../../platform/ui/session.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { amountText, dollarText, idText, parseCents, timeText } from '../../platform/ui/text.ts'
import { chainOf, explainResource, type JournalHead, linkedText } from '../finance/index.ts'
import { isReference, proposalPath } from '../wallet/index.ts'
import { orderState } from './order-state.ts'
import { type RefundOrder, readOrder, refundIdOf } from './refund-order.ts'

/** A table of orders, each with a link to its page for operators. */
export const orderTable = ({
  caption,
  rows,
  empty,
  roles,
}: {
  readonly caption: string
  readonly rows: readonly FoundOrder[]
  readonly empty: string
  readonly roles: ReadonlySet<Role>
}): Html =>
  tableOf({
    caption,
    rows,
    empty: html`<p>${empty}</p>`,
    columns: [
      {
        title: 'Order',
        head: true,
        cell: ({ details }) =>
          html`${linkedText(details.orderId, roles)}<br><small>${details.quantity} ${details.unit} ${details.productId}</small>`,
      },
      { title: 'State', cell: ({ status }) => orderState(status) },
      { title: 'Amount, USD', number: true, cell: ({ details }) => amountText(details.amountCents) },
      { title: 'Came back, USD', number: true, cell: ({ refundedCents }) => amountText(refundedCents) },
      { title: 'Ordered', cell: ({ details }) => timeText(details.createdAt) },
    ],
  })

const pathOf = (orderId: string): string => `/console/operator/orders/${orderId}`

/** The order of the path, from its stream. @throws not_found */
const orderOf = async (log: EventLog, { params }: PersonVisit): Promise<Order> => {
  const id = params.id ?? ''
  const order = /^ord_[0-9a-f]{32}$/.test(id) ? await readOrder(log, id as OrderId) : null
  if (order === null) throw refuse('not_found', 'no order has this id')
  return order
}

const leftOf = (order: Order): number => order.details.amountCents - decidedRefundCents(order)

/** Rentals without a refund. */
const keptRentals = (order: Order): readonly ProxyId[] => {
  const refunded = new Set(order.refunds.flatMap(({ proxyIds }) => proxyIds))
  return order.proxyIds.filter((id) => !refunded.has(id))
}

const events = 100

const shownOrder = async (
  {
    pool,
    log,
    journalHead,
  }: { readonly pool: pg.Pool; readonly log: EventLog; readonly journalHead: JournalHead },
  visit: PersonVisit,
) => {
  const order = await orderOf(log, visit)
  const { details } = order
  const { orderId } = details
  const { roles } = visit.visitor
  const explanation = await explainResource({ pool, log }, orderId, {
    head: await journalHead(),
    limit: events,
  })
  const detailRow = (name: string, value: Html | string | null): Html =>
    value === null ? nothing : html`<dt>${name}</dt><dd>${value}</dd>\n`
  const idLink = (id: string | null): Html | null => (id === null ? null : linkedText(id, roles))
  return show({
    title: `Order of ${details.productId}`,
    acts:
      order.paid && leftOf(order) > 0
        ? html`<a class="button danger" href="${pathOf(orderId)}/refund">Refund</a>`
        : nothing,
    body: html`<dl class="facts">
${detailRow('State', orderState(order.status))}
${detailRow('Order', idText(orderId))}
${detailRow('Account', idLink(details.accountId))}
${detailRow('For customer', details.customerId === null ? null : idText(details.customerId))}
${detailRow('Quantity', `${details.quantity} ${details.unit}`)}
${detailRow('Amount', dollarText(details.amountCents))}
${detailRow("Reseller's cost", details.costCents === undefined ? null : dollarText(details.costCents))}
${detailRow('Came back', order.refundedCents === 0 ? null : dollarText(order.refundedCents))}
${detailRow('Plan', idLink(order.planId))}
${detailRow('Invoice', idLink(order.awaiting?.depositId ?? null))}
${detailRow('Rentals', order.proxyIds.length === 0 ? null : linkedText(order.proxyIds.slice(0, 20).join(' ') + (order.proxyIds.length > 20 ? ` and ${order.proxyIds.length - 20} more` : ''), roles))}
${detailRow('Ordered', timeText(details.createdAt))}
${detailRow('Why it failed', order.failureReason?.replaceAll('_', ' ') ?? null)}
</dl>
<h2>What happened</h2>
${explanation === null ? nothing : chainOf(explanation, roles)}`,
    same: [`npx farebox orders show ${orderId}`, `npx farebox ledger explain ${orderId} --limit ${events}`],
  })
}

/** The largest number of rentals in a form. The command accepts more. */
const maxRentals = 100

const refundView = async (
  log: EventLog,
  visit: PersonVisit,
  typed: FormInput,
  problems: Problems,
): Promise<View> => {
  const order = await orderOf(log, visit)
  const { orderId, accountId } = order.details
  const rentals = order.details.kind === 'extension' ? [] : keptRentals(order)
  return {
    title: 'Refund an order',
    body: html`${problemsOf(problems)}
<p>${idText(orderId)} of ${linkedText(accountId, visit.visitor.roles)}: ${dollarText(order.details.amountCents)} paid, ${dollarText(leftOf(order))} left to refund.</p>
<p class="soft">It goes where it came from. With all that is left, and with rentals, the goods end that it pays for; with an amount they stay.</p>
<form method="post" class="stack" novalidate>
${keyField(visit.formKey)}
${fieldOf({ name: 'amount', label: 'Amount, USD', inputmode: 'decimal', hint: 'Left empty: all that is left, or what the ticked rentals cost.' }, typed, problems)}
${
  rentals.length === 0
    ? nothing
    : choicesOf(
        {
          name: 'rentals',
          legend: 'Only these rentals',
          choices: rentals.slice(0, maxRentals).map((id) => ({ value: id, label: id })),
          chosen: [],
        },
        typed,
        problems,
      )
}
${rentals.length > maxRentals ? html`<p class="hint">The first ${maxRentals} of ${rentals.length}: the command takes any.</p>` : nothing}
${fieldOf({ name: 'reference', label: 'What it is for', hint: 'Kept with the refund for good: name no person. The same words refund this order once.', required: true, maxlength: 200 }, typed, problems)}
<div class="acts"><button class="danger">Refund this order</button> <a href="${pathOf(orderId)}">Back</a></div>
</form>`,
    same: [
      `npx farebox orders refund --order ${orderId} --reference WHY`,
      `npx farebox orders refund --order ${orderId} --cents CENTS --reference WHY`,
    ],
  }
}

const refund = async (
  { log, refundOrder }: { readonly log: EventLog; readonly refundOrder: RefundOrder },
  visit: PersonVisit,
  typed: FormInput,
) => {
  const order = await orderOf(log, visit)
  const { orderId } = order.details
  const amount = typed.text('amount')
  const cents = amount === '' ? null : parseCents(amount, order.details.amountCents)
  const selected = [...new Set(typed.all('rentals'))]
  const reference = typed.text('reference')
  const currentRentals: readonly string[] = keptRentals(order)
  const problems: Problems = {
    ...((cents === undefined || cents === 0 || (cents !== null && cents > leftOf(order))) && {
      amount: `Type dollars such as 2.50, at most the ${dollarText(leftOf(order))} that are left.`,
    }),
    ...(cents !== null && selected.length > 0 && { amount: 'Type an amount or tick rentals, not both.' }),
    ...(selected.some((id) => !currentRentals.includes(id)) && {
      rentals: 'Tick rentals of this order that are not refunded.',
    }),
    ...(!isReference(reference) && { reference: 'Say what it is for, in at most 200 characters.' }),
  }
  if (Object.keys(problems).length > 0 || cents === undefined)
    return refusedView(await refundView(log, visit, typed, problems))
  const request: RefundRequest =
    cents !== null
      ? { kind: 'cents', cents, reference }
      : selected.length > 0
        ? { kind: 'proxies', proxyIds: selected as ProxyId[], reference }
        : { kind: 'whole', reference }
  const answer = await refundOrder({
    orderId,
    refundId: refundIdOf(orderId, reference),
    request,
    ...visit.cause,
  })
  if (answer === null) throw refuse('not_found', 'no order has this id')
  if (answer.kind === 'not_approved') throw new Error('a refund that nobody approves was refused approval')
  if (answer.kind === 'four_eyes') {
    const { outcome, proposal } = answer.answer
    if (outcome === 'proposed')
      return goTo(
        proposalPath(proposal.proposalId),
        'Nothing moved yet: this is above what one operator may refund alone. Another operator approves it.',
      )
    return refusedView(
      await refundView(log, visit, typed, {
        reference: `These words wait for approval with another amount, as ${proposal.proposalId}.`,
      }),
      409,
    )
  }
  if (answer.kind === 'refused')
    return refusedView(
      await refundView(log, visit, typed, { form: `It was refused: ${answer.reason}.` }),
      409,
    )
  if (answer.kind === 'already_applied')
    return refusedView(
      await refundView(log, visit, typed, { reference: 'These words refunded this order before.' }),
      409,
    )
  const keptCount = answer.keptProxyIds.length
  return goTo(
    pathOf(orderId),
    `${dollarText(answer.amountCents)} were refunded.${keptCount === 0 ? '' : ` ${keptCount} rentals go on: they were extended meanwhile.`}`,
  )
}

/** The operators' page of an order, and its refund. */
export const orderAdminPages = ({
  pool,
  log,
  journalHead,
  refundOrder,
}: {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly journalHead: JournalHead
  readonly refundOrder: RefundOrder
}): readonly ConsolePage[] => [
  personPage({
    path: '/console/operator/orders/{id}',
    name: 'showAnyOrder',
    summary: 'Any order with all that happened, and what it booked',
    for: ['operator'],
    show: (visit) => shownOrder({ pool, log, journalHead }, visit),
  }),
  personPage({
    path: '/console/operator/orders/{id}/refund',
    name: 'refundOrder',
    summary: 'Gives an order, an amount of it or some of its rentals back',
    for: ['operator'],
    confirmed: true,
    show: async (visit) => show(await refundView(log, visit, emptyFormInput, {})),
    act: { once: true, run: (visit, typed) => refund({ log, refundOrder }, visit, typed) },
  }),
]
