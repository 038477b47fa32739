import { type AwaitedInvoice, listOrders } from '../../../projections/orders.ts'
import { type Order, type OrderStatus, type Refund, waitsFor } from '../../domain/orders/fold.ts'
import type { RefundRequest } from '../../domain/orders/refunds.ts'
import { isoTime } from '../../kernel/clock.ts'
import { type DepositId, newId, type OrderId, type ProxyId } from '../../kernel/ids.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import type { InputOf } from '../../platform/cli/input.ts'
import { CliMisuse, CliRefusal, dollars, fields, notFound } from '../../platform/cli/output.ts'
import { customerRefs, type Listing } from '../accounts/index.ts'
import { createDepositPages, readDeposit } from '../deposits/index.ts'
import { approvalNeeded, approvalRefusal } from '../wallet/index.ts'
import type { refundInput } from './commands.ts'
import { readAwaitedInvoice } from './customer-invoices.ts'
import { type RefundDependencies, readOrder, refundIdOf, refundOrder } from './refund-order.ts'
import { orderRecord } from './routes.ts'

export const listing: Listing<ReturnType<typeof orderRecord>> = {
  owner: { table: 'read.orders' },
  reads: (context) => {
    const { pool, db, clock } = context
    return {
      list: async (scope, page) => {
        const filter = { ...page, status: page.status as OrderStatus | undefined, orderIds: undefined }
        const { payUrlOf } = createDepositPages(context)
        const { orders, total } = await listOrders(db, scope, filter, clock(), payUrlOf)
        const customerIds = orders.map(({ details }) => details.customerId)
        const refs = await customerRefs(pool, scope.accountId, customerIds)
        const rows = orders.map((order) => {
          const { customerId, accountId } = order.details
          const customer = refs.get(customerId) ?? null
          return { ...orderRecord({ ...order, customer }, customerId !== null), accountId }
        })
        return { rows, total }
      },
    }
  },
  fields: {
    order: 'orderId',
    created: 'createdAt',
    status: 'status',
    product: 'productId',
    quantity: (row) => `${row.quantity} ${row.unit}`,
    amount: (row) => dollars(row.amountCents),
    refunded: (row) => dollars(row.refundedCents),
    customer: (row) => row.customer ?? row.customerId ?? '-',
  },
}

const noSuchOrder = (id: string) => notFound(`no order has the id ${id}`)

/** An order with its open invoice, and the reseller's own id of its customer from the vault. */
type OrderWithInvoice = Order & { readonly customer: string | null; readonly invoice: AwaitedInvoice | null }

const awaitedInvoice = async (context: CliContext, { status, awaiting, details }: Order) => {
  if (status !== 'awaiting_payment' || !awaiting) return null
  const deposit = await readDeposit(context.runner, awaiting.depositId as DepositId, context)
  const urls = deposit && (await createDepositPages(context).read(deposit.details))
  return deposit && readAwaitedInvoice(context, details, deposit, urls?.payUrl ?? null, context)
}

const shownOf = async (context: CliContext, order: Order): Promise<OrderWithInvoice> => {
  const { accountId, customerId } = order.details
  const refs = await customerRefs(context.pool, accountId, [customerId])
  return {
    ...order,
    customer: refs.get(customerId) ?? null,
    invoice: await awaitedInvoice(context, order),
  }
}

const json = (order: OrderWithInvoice) => ({
  accountId: order.details.accountId,
  // An order for a customer shows both sides: the customer's price, and the reseller's cost.
  ...orderRecord(order, order.details.customerId !== null),
  refunds: order.refunds.map(({ decidedAtMs, ...refund }) => ({
    ...refund,
    decidedAt: isoTime(decidedAtMs),
  })),
})

/** The additional fields of an order for a reseller's customer. */
const customerFields = (order: OrderWithInvoice) => {
  const { customerId, costCents } = order.details
  if (customerId === null || costCents === undefined) return {}
  return {
    customer: order.customer === null ? customerId : `${customerId} (${order.customer})`,
    "reseller's cost": dollars(costCents),
    'cost refunded': dollars(order.refundedCostCents),
  }
}

const refundLine = ({ amountCents, decidedAtMs, reference, landed }: Refund): string =>
  [
    `${dollars(amountCents)} at ${isoTime(decidedAtMs)}`,
    ...(reference === undefined ? [] : [`for "${reference}"`]),
    ...(landed ? [] : ['not credited yet']),
  ].join(' ')

const shortfallText = (order: OrderWithInvoice): string | null => {
  const { shortfallCents } = orderRecord(order, false)
  return shortfallCents === undefined ? null : dollars(shortfallCents)
}

/** What is missing for an order whose customer paid, and what happens then; null for any other order. */
const waitText = (order: OrderWithInvoice): string | null => {
  if (waitsFor(order) !== 'wallet') return null
  const missing = dollars(order.invoice?.walletShortfallCents ?? 0)
  return `${missing} in the reseller's wallet, until ${order.awaiting?.heldUntil}; the customer has paid`
}

const text = (order: OrderWithInvoice): string =>
  fields({
    order: order.details.orderId,
    account: order.details.accountId,
    status: order.status,
    product: order.details.productId,
    quantity: `${order.details.quantity} ${order.details.unit}`,
    amount: dollars(order.details.amountCents),
    invoiced: order.invoice && dollars(order.invoice.chargeCents),
    owed: order.invoice?.owedCents ? dollars(order.invoice.owedCents) : null,
    'missing after the payment': shortfallText(order),
    'waits for': waitText(order),
    refunded: dollars(order.refundedCents),
    ...customerFields(order),
    subscription: order.details.subscription?.subscriptionId ?? null,
    plan: order.planId,
    proxies: order.proxyIds.length === 0 ? null : order.proxyIds.join(' '),
    'created at': order.details.createdAt,
    'fulfilled at': order.fulfilledAt,
    'canceled at': order.canceledAt,
    'refunded at': order.refundedAt,
    refunds: order.refunds.length === 0 ? null : order.refunds.map(refundLine).join('; '),
    failure: order.failureReason ?? order.cancelReason,
  })

/** Writes a plan's used traffic to the log. */
export type SettleTraffic = (context: CliContext) => RefundDependencies['settleTraffic']

type RefundInput = InputOf<typeof refundInput>

const requestOf = ({ cents, proxy, reference }: RefundInput): RefundRequest => {
  if (cents !== undefined && proxy !== undefined)
    throw new CliMisuse('give --cents or --proxy, not both; without them the rest is refunded')
  const referenceField = reference === undefined ? {} : { reference }
  if (cents !== undefined) return { kind: 'cents', cents, ...referenceField }
  if (proxy !== undefined)
    return { kind: 'proxies', proxyIds: [...new Set(proxy)] as ProxyId[], ...referenceField }
  return { kind: 'whole', ...referenceField }
}

export const showOrder = async (context: CliContext, { order: orderId }: { readonly order: OrderId }) => {
  const storedOrder = await readOrder(context.log, orderId)
  if (!storedOrder) throw noSuchOrder(orderId)
  const order = await shownOf(context, storedOrder)
  return { json: json(order), text: text(order) }
}

/** @param settleTraffic writes a plan's used traffic to the log before its order is refunded */
export const refund = (settleTraffic: SettleTraffic) => async (context: CliContext, input: RefundInput) => {
  const { log, runner, actor, correlationId } = context
  const { order: orderId, reference } = input
  const answer = await refundOrder(
    { log, runner, settleTraffic: settleTraffic(context) },
    {
      orderId,
      refundId: reference === undefined ? newId('ref') : refundIdOf(orderId, reference),
      request: requestOf(input),
      actor,
      correlationId,
    },
  )
  if (!answer) throw noSuchOrder(orderId)
  if (answer.kind === 'four_eyes') throw approvalNeeded(answer.answer)
  if (answer.kind === 'not_approved') throw approvalRefusal(answer.refusal)
  if (answer.kind === 'refused') throw new CliRefusal('refund_refused', answer.reason, answer.extended)
  if (answer.kind === 'already_applied')
    throw new CliRefusal('already_applied', 'this reference was refunded before; nothing was moved')
  const order = await shownOf(context, answer.order)
  const { amountCents, keptProxyIds } = answer
  const continuingNote =
    keptProxyIds.length === 0
      ? ''
      : `; these rentals continue, because they were extended meanwhile: ${keptProxyIds.join(' ')}`
  return {
    json: { refundCents: amountCents, keptProxyIds, ...json(order) },
    text: `refunded ${dollars(amountCents)}${continuingNote}\n\n${text(order)}`,
  }
}
