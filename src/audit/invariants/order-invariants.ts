import type { OrderDetails } from '../../domain/shared/order-terms.ts'
import { centsToMicros } from '../../kernel/money.ts'
import {
  bigint,
  boolean,
  type Context,
  inDollars,
  invariant,
  json,
  nullable,
  orderIdOf,
  type Recorded,
  type RowOf,
  ruleTable,
  subjectOf,
  text,
} from './invariant.ts'

/** The cents and the progress of each refund, by refund id. */
type Refunds = Readonly<
  Record<string, { readonly cents: number; readonly credited: boolean; readonly landed: boolean }>
>

/** The state of an order in the log so far. */
export const ordersTable = ruleTable('audit_orders', {
  order_id: text,
  account_id: nullable(text),
  /** Whole cents charged to the payer. */
  price_cents: nullable(bigint),
  /** Amounts taken from the wallet and from the customer's credit; null before the payment, and without a customer. */
  debited_micros: nullable(bigint),
  charged_micros: nullable(bigint),
  placed: boolean,
  answer: nullable(text),
  outcome: nullable(text),
  decided_cents: bigint,
  refunded_cents: bigint,
  /** The amount returned to the wallet. */
  returned_micros: bigint,
  refunds: json<Refunds>(),
  /** The deposit whose invoice the order awaits or awaited. */
  awaits: nullable(text),
  /** The position of the last event about the order. */
  last_position: bigint,
})

type OrderRow = RowOf<typeof ordersTable>

const emptyOrder = (orderId: string): OrderRow => ({
  order_id: orderId,
  account_id: null,
  price_cents: null,
  debited_micros: null,
  charged_micros: null,
  placed: false,
  answer: null,
  outcome: null,
  decided_cents: 0,
  refunded_cents: 0,
  returned_micros: 0,
  refunds: {},
  awaits: null,
  last_position: 0,
})

type Payment = Recorded<'WalletDebited' | 'CustomerCharged'>

/** The problem of the payer of an order; null without one. */
const payerProblem = (event: Payment, { orderId, keyId }: OrderDetails): string | null => {
  const { actor } = event.metadata
  const accountId = subjectOf(event)
  if (actor.kind === 'session') {
    if (actor.subjectId !== accountId)
      return `a session of ${actor.subjectId} paid order ${orderId} of ${accountId}`
    return keyId === null ? null : `a session paid order ${orderId}, which names key ${keyId}`
  }
  if (actor.kind !== 'key') return null
  if (actor.accountId !== accountId)
    return `a key of ${actor.accountId} paid order ${orderId} of ${accountId}`
  return keyId === null ? `key ${actor.keyId} paid order ${orderId}, which names no key` : null
}

const checkPayment = (event: Payment, row: OrderRow, { report }: Context): OrderRow => {
  const { order } = event.data
  const { orderId, accountId, amountCents, costCents } = order
  if (row.debited_micros !== null) report('order-twice', `order ${orderId} was paid before`)
  if (event.stream !== `ledger-${accountId}`) report('order-account', `order ${orderId} is of ${accountId}`)
  const problem = payerProblem(event, order)
  if (problem !== null) report('order-payer', problem)
  const isForCustomer = event.type === 'CustomerCharged'
  const debited = isForCustomer ? event.data.costMicros : event.data.amountMicros
  const charged = isForCustomer ? event.data.amountMicros : null
  const walletCents = isForCustomer ? (costCents ?? Number.NaN) : amountCents
  if (debited !== centsToMicros(walletCents) || (charged !== null && charged !== centsToMicros(amountCents)))
    report(
      'order-amount',
      `${inDollars(charged ?? debited)} was taken (${inDollars(debited)} from the wallet), but the order says ${amountCents} cents${costCents === undefined ? '' : ` at a cost of ${costCents}`}`,
    )
  return {
    ...row,
    account_id: accountId,
    price_cents: amountCents,
    debited_micros: debited,
    charged_micros: charged,
  }
}

const answerWith =
  (answer: 'fulfilled' | 'refused') =>
  (_event: unknown, row: OrderRow, { report }: Context): OrderRow => {
    if (row.answer !== null)
      report('arbiter-twice', `order ${row.order_id} was ${row.answer} before; the first answer is final`)
    if (row.debited_micros === null) report('unpaid', `order ${row.order_id} is not paid`)
    return { ...row, answer: row.answer ?? answer }
  }
const checkFulfilled = answerWith('fulfilled')
const checkRefused = answerWith('refused')

/** The event names the account of the order. */
const checkAccount = (
  { data }: { readonly data: { readonly accountId: string } },
  row: OrderRow,
  { report }: Context,
): void => {
  if (row.account_id !== null && data.accountId !== row.account_id)
    report('order-of-another', `order ${row.order_id} is of ${row.account_id}, not of ${data.accountId}`)
}

const endAs = (
  outcome: 'fulfilled' | 'failed' | 'canceled',
  row: OrderRow,
  { report }: Context,
): OrderRow => {
  const order = `order ${row.order_id}`
  if (row.outcome !== null) report('order-ends-twice', `${order} was ${row.outcome} before`)
  if (outcome === 'fulfilled' && row.answer !== 'fulfilled')
    report('not-allocated', `${order} was fulfilled without an allocation or a plan`)
  // An order that ended before its debit was known gives back its fulfilment and its money (docs/architecture.md,
  // "Every state and its next step").
  if (outcome === 'failed' && row.answer === 'fulfilled' && row.placed)
    report('failed-though-allocated', `${order} failed, though it was allocated`)
  if (outcome === 'fulfilled' && row.debited_micros === null) report('unpaid', `${order} is not paid`)
  return { ...row, outcome }
}

const checkPlacement = (
  { data: { order } }: Recorded<'OrderCompleted' | 'OrderPlaced' | 'OrderPaid'>,
  row: OrderRow,
  { report }: Context,
): OrderRow => {
  const { orderId, accountId, amountCents } = order
  if (row.placed) report('order-twice', `order ${orderId} was placed before`)
  if (orderId !== row.order_id)
    report('order-renamed', `it is about order ${row.order_id}, but holds order ${orderId}`)
  if (row.price_cents !== null && (row.price_cents !== amountCents || row.account_id !== accountId))
    report('order-amount', `it is not the order that was paid: ${amountCents} cents of ${accountId}`)
  return { ...row, placed: true, account_id: accountId, price_cents: amountCents }
}

const checkRefundCredit = (
  event: Recorded<'WalletCredited' | 'CustomerRefunded'>,
  row: OrderRow,
  { report }: Context,
): OrderRow => {
  const { reference: refundId, amountMicros } = event.data
  const walletMicros = event.type === 'CustomerRefunded' ? event.data.costMicros : amountMicros
  if (row.account_id !== null && subjectOf(event) !== row.account_id)
    report('refund-of-another', `order ${row.order_id} is of ${row.account_id}`)
  const refund = row.refunds[refundId]
  if (refund === undefined) report('refund-undecided', `refund ${refundId} was never decided`)
  else if (refund.credited) report('refund-twice', `refund ${refundId} was credited before`)
  else if (centsToMicros(refund.cents) !== amountMicros)
    report(
      'refund-amount',
      `${inDollars(amountMicros)} came back, but refund ${refundId} was decided as ${refund.cents} cents`,
    )
  const returned_micros = row.returned_micros + walletMicros
  if (returned_micros > (row.debited_micros ?? 0))
    report('refund-above-price', `more came back to the wallet than order ${row.order_id} took from it`)
  const refunds =
    refund === undefined ? row.refunds : { ...row.refunds, [refundId]: { ...refund, credited: true } }
  return { ...row, returned_micros, refunds }
}

/**
 * An order is paid once, with the amount that it names, by its own account: with a key, which the order names, or in a
 * session, which names no key. So no order avoids the cap of its key or uses the cap of another key. The first answer
 * of its allocation owner is final. It ends once, as fulfilled only when it was paid and allocated. Refunds never
 * exceed the payment (docs/architecture.md, invariants 2, 4 and 5).
 */
export const orderRules = invariant({
  name: 'audit-orders',
  version: 4,
  table: ordersTable,
  key: (event) =>
    event.type === 'WalletCredited'
      ? event.data.source === 'refund'
        ? (event.data.orderId as string)
        : null
      : orderIdOf(event),
  initial: emptyOrder,
  on: {
    WalletDebited: checkPayment,
    CustomerCharged: checkPayment,
    OrderAwaitingPayment: ({ data }, row, { report }) => {
      if (row.placed || row.outcome !== null)
        report('awaits-though-over', `order ${row.order_id} awaits a payment, though it was paid or is over`)
      return { ...row, awaits: data.depositId, account_id: row.account_id ?? data.order.accountId }
    },
    OrderPlaced: checkPlacement,
    OrderPaid: (event, row, context) => {
      checkAccount(event, row, context)
      return checkPlacement(event, row, context)
    },
    OrderCompleted: (event, row, context) => endAs('fulfilled', checkPlacement(event, row, context), context),
    AddressesAllocated: checkFulfilled,
    AddressesExtended: checkFulfilled,
    PlanActivated: checkFulfilled,
    PlanToppedUp: checkFulfilled,
    AllocationRefused: checkRefused,
    PlanOrderRefused: checkRefused,
    OrderFulfilled: (event, row, context) => {
      checkAccount(event, row, context)
      return endAs('fulfilled', row, context)
    },
    OrderFailed: (event, row, context) => {
      checkAccount(event, row, context)
      return endAs('failed', row, context)
    },
    OrderCanceled: (event, row, context) => {
      checkAccount(event, row, context)
      if (row.placed)
        context.report('canceled-though-paid', `order ${row.order_id} was canceled, though it was paid`)
      return endAs('canceled', row, context)
    },
    RefundDecided: ({ data: { refundId, amountCents: cents } }, row, { report }) => {
      if (row.debited_micros === null)
        report('unpaid', `order ${row.order_id} is not paid, so nothing goes back`)
      if (refundId in row.refunds) report('refund-twice', `refund ${refundId} was decided before`)
      const decided_cents = row.decided_cents + cents
      if (decided_cents > (row.price_cents ?? 0))
        report(
          'refund-above-price',
          `refunds of order ${row.order_id} come to ${decided_cents} cents, more than the ${row.price_cents ?? 0} paid`,
        )
      const refunds = { ...row.refunds, [refundId]: { cents, credited: false, landed: false } }
      return { ...row, decided_cents, refunds }
    },
    WalletCredited: checkRefundCredit,
    CustomerRefunded: checkRefundCredit,
    OrderRefunded: (event, row, context) => {
      checkAccount(event, row, context)
      const { refundId, amountCents, refundedCents, complete } = event.data
      const { report } = context
      const refund = row.refunds[refundId]
      if (!refund?.credited || refund.cents !== amountCents)
        report('refund-not-credited', `refund ${refundId} of ${amountCents} cents did not reach the payer`)
      if (refund?.landed) report('refund-twice', `refund ${refundId} landed before`)
      const sumCents = row.refunded_cents + amountCents
      if (sumCents !== refundedCents)
        report('refund-sum', `refunds come to ${sumCents} cents, not ${refundedCents} as it says`)
      if (complete !== (refundedCents === row.price_cents))
        report(
          'refund-complete',
          `it says ${complete ? 'all' : 'not all'} of ${row.price_cents} cents came back`,
        )
      const refunds =
        refund === undefined ? row.refunds : { ...row.refunds, [refundId]: { ...refund, landed: true } }
      return { ...row, refunded_cents: refundedCents, refunds }
    },
  },
})
