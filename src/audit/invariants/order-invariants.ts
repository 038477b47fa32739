import type { LedgerEvent } from '../../domain/ledger/events.ts'
import type { OrderEvent } from '../../domain/orders/events.ts'
import type { PlanEvent } from '../../domain/plans/events.ts'
import type { StockEvent } from '../../domain/stock/events.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { centsToMicros } from '../../kernel/money.ts'
import type { ReadModel, Rows, Table } from '../../platform/projections/read-model.ts'
import { inDollars, recordViolation } from './violation.ts'

/** The state of an order in the log so far. */
type OrderRow = {
  order_id: string
  account_id: string | null
  /** Whole cents charged to the payer. */
  price_cents: number | null
  /** Amounts taken from the wallet and from the customer's credit; null before the payment, and without a customer. */
  debited_micros: number | null
  charged_micros: number | null
  placed: boolean
  answer: string | null
  outcome: string | null
  decided_cents: number
  refunded_cents: number
  /** The amount returned to the wallet. */
  returned_micros: number
  /** JSON: the cents and the progress of each refund, by refund id. */
  refunds: string
  /** The deposit whose invoice the order awaits or awaited. */
  awaits: string | null
  /** The position of the last event about the order. */
  last_position: number
}

type Refunds = Record<string, { cents: number; credited: boolean; landed: boolean }>

export const ordersTable: Table<OrderRow> = {
  name: 'audit_orders',
  columns: {
    order_id: { type: 'text' },
    account_id: { type: 'text', nullable: true },
    price_cents: { type: 'bigint', nullable: true },
    debited_micros: { type: 'bigint', nullable: true },
    charged_micros: { type: 'bigint', nullable: true },
    placed: { type: 'boolean' },
    answer: { type: 'text', nullable: true },
    outcome: { type: 'text', nullable: true },
    decided_cents: { type: 'bigint' },
    refunded_cents: { type: 'bigint' },
    returned_micros: { type: 'bigint' },
    refunds: { type: 'text' },
    awaits: { type: 'text', nullable: true },
    last_position: { type: 'bigint' },
  },
  key: ['order_id'],
  indexes: [],
}

type OrderRuleEvent = RecordedEvent<LedgerEvent | OrderEvent | StockEvent | PlanEvent>

/** The order that an event is about; null without one. */
const orderIdOf = (event: OrderRuleEvent): string | null => {
  switch (event.type) {
    case 'WalletDebited':
    case 'CustomerCharged':
    case 'OrderCompleted':
    case 'OrderPlaced':
    case 'OrderAwaitingPayment':
      return event.data.order.orderId
    case 'WalletCredited':
      return event.data.source === 'refund' ? event.data.orderId : null
    case 'CustomerRefunded':
    case 'OrderFulfilled':
    case 'OrderFailed':
    case 'OrderPaid':
    case 'OrderCanceled':
    case 'RefundDecided':
    case 'OrderRefunded':
    case 'AddressesAllocated':
    case 'AddressesExtended':
    case 'AllocationRefused':
    case 'PlanActivated':
    case 'PlanToppedUp':
    case 'PlanOrderRefused':
      return event.data.orderId
    default:
      return null
  }
}

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
  refunds: '{}',
  awaits: null,
  last_position: 0,
})

type Report = (rule: string, problem: string) => void

const applyPayment = (
  row: OrderRow,
  event: Extract<OrderRuleEvent, { type: 'WalletDebited' | 'CustomerCharged' }>,
  report: Report,
) => {
  const { order } = event.data
  if (row.debited_micros !== null) report('order-twice', `order ${order.orderId} was paid before`)
  if (event.stream !== `ledger-${order.accountId}`)
    report('order-account', `order ${order.orderId} is of ${order.accountId}`)
  const debitedMicros = event.type === 'CustomerCharged' ? event.data.costMicros : event.data.amountMicros
  const chargedMicros = event.type === 'CustomerCharged' ? event.data.amountMicros : null
  const priceCents = order.amountCents
  const walletCents = event.type === 'CustomerCharged' ? (order.costCents ?? Number.NaN) : priceCents
  if (
    debitedMicros !== centsToMicros(walletCents) ||
    (chargedMicros !== null && chargedMicros !== centsToMicros(priceCents))
  )
    report(
      'order-amount',
      `${inDollars(chargedMicros ?? debitedMicros)} was taken (${inDollars(debitedMicros)} from the wallet), but the order says ${priceCents} cents${order.costCents === undefined ? '' : ` at a cost of ${order.costCents}`}`,
    )
  return {
    ...row,
    account_id: order.accountId,
    price_cents: priceCents,
    debited_micros: debitedMicros,
    charged_micros: chargedMicros,
  }
}

const applyAnswer = (row: OrderRow, newAnswer: 'fulfilled' | 'refused', report: Report): OrderRow => {
  if (row.answer !== null)
    report('arbiter-twice', `order ${row.order_id} was ${row.answer} before; the first answer stands`)
  if (row.debited_micros === null) report('unpaid', `order ${row.order_id} is not paid`)
  return { ...row, answer: row.answer ?? newAnswer }
}

const applyEnd = (row: OrderRow, outcome: 'fulfilled' | 'failed' | 'canceled', report: Report): OrderRow => {
  if (row.outcome !== null) report('order-ends-twice', `order ${row.order_id} was ${row.outcome} before`)
  if (outcome === 'fulfilled' && row.answer !== 'fulfilled')
    report('not-allocated', `order ${row.order_id} was fulfilled without an allocation or a plan`)
  // An order that ended before its debit was known gives back its fulfilment and its money (docs/architecture.md,
  // "Every state and its next step").
  if (outcome === 'failed' && row.answer === 'fulfilled' && row.placed)
    report('failed-though-allocated', `order ${row.order_id} failed, though it was allocated`)
  if (outcome === 'fulfilled' && row.debited_micros === null)
    report('unpaid', `order ${row.order_id} is not paid`)
  return { ...row, outcome }
}

const applyRefundDecision = (row: OrderRow, refundId: string, cents: number, report: Report): OrderRow => {
  const refunds: Refunds = JSON.parse(row.refunds)
  if (row.debited_micros === null) report('unpaid', `order ${row.order_id} is not paid, so nothing goes back`)
  if (refundId in refunds) report('refund-twice', `refund ${refundId} was decided before`)
  const decidedCents = row.decided_cents + cents
  if (decidedCents > (row.price_cents ?? 0))
    report(
      'refund-above-price',
      `refunds of order ${row.order_id} come to ${decidedCents} cents, more than the ${row.price_cents ?? 0} paid`,
    )
  refunds[refundId] = { cents, credited: false, landed: false }
  return { ...row, decided_cents: decidedCents, refunds: JSON.stringify(refunds) }
}

const applyCredit = (
  row: OrderRow,
  returnedRefund: { readonly refundId: string; readonly payerMicros: number; readonly walletMicros: number },
  report: Report,
): OrderRow => {
  const refunds: Refunds = JSON.parse(row.refunds)
  const refund = refunds[returnedRefund.refundId]
  if (refund === undefined) report('refund-undecided', `refund ${returnedRefund.refundId} was never decided`)
  else if (refund.credited) report('refund-twice', `refund ${returnedRefund.refundId} was credited before`)
  else if (centsToMicros(refund.cents) !== returnedRefund.payerMicros)
    report(
      'refund-amount',
      `${inDollars(returnedRefund.payerMicros)} came back, but refund ${returnedRefund.refundId} was decided as ${refund.cents} cents`,
    )
  const returnedMicros = row.returned_micros + returnedRefund.walletMicros
  if (returnedMicros > (row.debited_micros ?? 0))
    report('refund-above-price', `more came back to the wallet than order ${row.order_id} took from it`)
  if (refund !== undefined) refund.credited = true
  return { ...row, returned_micros: returnedMicros, refunds: JSON.stringify(refunds) }
}

/** A refund is credited to the paying account. */
const checkOwner = (row: OrderRow, { stream }: RecordedEvent, report: Report): void => {
  if (row.account_id !== null && stream !== `ledger-${row.account_id}`)
    report('refund-of-another', `order ${row.order_id} is of ${row.account_id}`)
}

const applyLanding = (
  row: OrderRow,
  event: Extract<OrderRuleEvent, { type: 'OrderRefunded' }>,
  report: Report,
): OrderRow => {
  const { refundId, amountCents, refundedCents, complete } = event.data
  const refunds: Refunds = JSON.parse(row.refunds)
  const refund = refunds[refundId]
  if (refund === undefined || !refund.credited || refund.cents !== amountCents)
    report('refund-not-credited', `refund ${refundId} of ${amountCents} cents did not reach the payer`)
  if (refund?.landed) report('refund-twice', `refund ${refundId} landed before`)
  const sumCents = row.refunded_cents + amountCents
  if (sumCents !== refundedCents)
    report('refund-sum', `refunds come to ${sumCents} cents, not ${refundedCents} as it says`)
  if (complete !== (refundedCents === row.price_cents))
    report('refund-complete', `it says ${complete ? 'all' : 'not all'} of ${row.price_cents} cents came back`)
  if (refund !== undefined) refund.landed = true
  return { ...row, refunded_cents: refundedCents, refunds: JSON.stringify(refunds) }
}

const applyPlacement = (
  row: OrderRow,
  event: Extract<OrderRuleEvent, { type: 'OrderCompleted' | 'OrderPlaced' | 'OrderPaid' }>,
  report: Report,
): OrderRow => {
  const { order } = event.data
  if (row.placed) report('order-twice', `order ${order.orderId} was placed before`)
  if (order.orderId !== row.order_id)
    report('order-renamed', `it is about order ${row.order_id}, but holds order ${order.orderId}`)
  if (
    row.price_cents !== null &&
    (row.price_cents !== order.amountCents || row.account_id !== order.accountId)
  )
    report(
      'order-amount',
      `it is not the order that was paid: ${order.amountCents} cents of ${order.accountId}`,
    )
  return { ...row, placed: true, account_id: order.accountId, price_cents: order.amountCents }
}

/** The event that ends or refunds an order names the account of the order. */
const checkNamed = (row: OrderRow, event: OrderRuleEvent, report: Report): void => {
  switch (event.type) {
    case 'OrderPaid':
    case 'OrderFulfilled':
    case 'OrderFailed':
    case 'OrderCanceled':
    case 'OrderRefunded':
      if (row.account_id !== null && event.data.accountId !== row.account_id)
        report(
          'order-of-another',
          `order ${row.order_id} is of ${row.account_id}, not of ${event.data.accountId}`,
        )
      return
    default:
  }
}

const applyEvent = (row: OrderRow, event: OrderRuleEvent, report: Report): OrderRow => {
  checkNamed(row, event, report)
  switch (event.type) {
    case 'WalletDebited':
    case 'CustomerCharged':
      return applyPayment(row, event, report)
    case 'OrderAwaitingPayment':
      if (row.placed || row.outcome !== null)
        report('awaits-though-over', `order ${row.order_id} awaits a payment, though it was paid or is over`)
      return {
        ...row,
        awaits: event.data.depositId,
        account_id: row.account_id ?? event.data.order.accountId,
      }
    case 'OrderCanceled':
      if (row.placed) report('canceled-though-paid', `order ${row.order_id} was canceled, though it was paid`)
      return applyEnd(row, 'canceled', report)
    case 'OrderPlaced':
    case 'OrderPaid':
      return applyPlacement(row, event, report)
    case 'OrderCompleted':
      return applyEnd(applyPlacement(row, event, report), 'fulfilled', report)
    case 'AddressesAllocated':
    case 'AddressesExtended':
    case 'PlanActivated':
    case 'PlanToppedUp':
      return applyAnswer(row, 'fulfilled', report)
    case 'AllocationRefused':
    case 'PlanOrderRefused':
      return applyAnswer(row, 'refused', report)
    case 'OrderFulfilled':
      return applyEnd(row, 'fulfilled', report)
    case 'OrderFailed':
      return applyEnd(row, 'failed', report)
    case 'RefundDecided':
      return applyRefundDecision(row, event.data.refundId, event.data.amountCents, report)
    case 'WalletCredited': {
      const { reference: refundId, amountMicros } = event.data
      checkOwner(row, event, report)
      return applyCredit(row, { refundId, payerMicros: amountMicros, walletMicros: amountMicros }, report)
    }
    case 'CustomerRefunded': {
      const { reference: refundId, amountMicros, costMicros } = event.data
      checkOwner(row, event, report)
      return applyCredit(row, { refundId, payerMicros: amountMicros, walletMicros: costMicros }, report)
    }
    case 'OrderRefunded':
      return applyLanding(row, event, report)
    default:
      return row
  }
}

/**
 * An order is paid once, with the amount that it names. The first answer of its allocation owner is final. It ends
 * once, as fulfilled only when it was paid and allocated. Refunds never exceed the payment (docs/architecture.md,
 * invariants 2, 4 and 5).
 */
export const orderRules: ReadModel = {
  name: 'audit-orders',
  version: 3,
  tables: [ordersTable],
  takes: {
    types: new Set([
      'WalletDebited',
      'CustomerCharged',
      'OrderCompleted',
      'OrderPlaced',
      'OrderAwaitingPayment',
      'WalletCredited',
      'CustomerRefunded',
      'OrderFulfilled',
      'OrderFailed',
      'OrderPaid',
      'OrderCanceled',
      'RefundDecided',
      'OrderRefunded',
      'AddressesAllocated',
      'AddressesExtended',
      'AllocationRefused',
      'PlanActivated',
      'PlanToppedUp',
      'PlanOrderRefused',
    ]),
  },
  reads: (event) => {
    const orderId = orderIdOf(event as OrderRuleEvent)
    return orderId === null ? [] : [{ table: ordersTable.name, key: [orderId] }]
  },
  apply: (recorded, rows: Rows) => {
    const event = recorded as OrderRuleEvent
    const orderId = orderIdOf(event)
    if (orderId === null) return
    const previous = rows.get(ordersTable, [orderId]) ?? emptyOrder(orderId)
    const row = applyEvent(previous, event, (rule, problem) => recordViolation(rows, event, rule, problem))
    rows.put(ordersTable, { ...row, last_position: event.position })
  },
}
