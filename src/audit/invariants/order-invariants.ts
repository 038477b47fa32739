import type { OrderDetails } from '../../domain/shared/order-terms.ts'
import { centsToMicros } from '../../kernel/money.ts'
import { column, nullable, type RowOf, readTable } from '../../platform/projections/read-model.ts'
import { type Context, inDollars, invariant, orderIdOf, type Recorded, subjectOf } from './invariant.ts'

/** The cents and the progress of each refund, by refund id. */
type Refunds = Readonly<
  Record<string, { readonly cents: number; readonly credited: boolean; readonly landed: boolean }>
>

/** The state of an order in the log so far. */
export const ordersTable = readTable({
  name: 'audit_orders',
  columns: {
    orderId: column.text(),
    accountId: nullable(column.text()),
    /** Whole cents charged to the payer. */
    priceCents: nullable(column.bigint()),
    /** Amounts taken from the wallet and from the customer's credit; null before the payment, and without a customer. */
    debitedMicros: nullable(column.bigint()),
    chargedMicros: nullable(column.bigint()),
    placed: column.boolean(),
    answer: nullable(column.text()),
    outcome: nullable(column.text()),
    /** The cost to the reseller of an order for a customer, by the order's own stream; null without one. */
    placedCostCents: nullable(column.bigint()),
    /** Sums of refunds: decided, and recorded on the order's own stream. */
    decidedCents: column.bigint(),
    decidedCostCents: column.bigint(),
    refundedCents: column.bigint(),
    refundedCostCents: column.bigint(),
    /** The amounts returned to the wallet and to the customer's credit. */
    returnedMicros: column.bigint(),
    returnedRevenueMicros: column.bigint(),
    refunds: column.jsonb<Refunds>(),
    /** The deposit whose invoice the order awaits or awaited. */
    awaits: nullable(column.text()),
    /** The customer has paid, and the order waits for the reseller's wallet. */
    held: column.boolean(),
    /** The position of the last event about the order. */
    lastPosition: column.bigint(),
  },
  key: ['orderId'],
})

type OrderRow = RowOf<typeof ordersTable>

const emptyOrder = (orderId: string): OrderRow => ({
  orderId,
  accountId: null,
  priceCents: null,
  debitedMicros: null,
  chargedMicros: null,
  placed: false,
  answer: null,
  outcome: null,
  placedCostCents: null,
  decidedCents: 0,
  decidedCostCents: 0,
  refundedCents: 0,
  refundedCostCents: 0,
  returnedMicros: 0,
  returnedRevenueMicros: 0,
  refunds: {},
  awaits: null,
  held: false,
  lastPosition: 0,
})

type Payment = Recorded<'WalletDebited' | 'CustomerCharged'>

/** The price to the customer and the cost to the reseller, in words. */
const sidesText = (revenueMicros: number, costMicros: number): string =>
  `revenue ${inDollars(revenueMicros)}, cost ${inDollars(costMicros)}`
const sidesOf = (stated: { readonly amountCents: number; readonly costCents?: number }): string =>
  sidesText(centsToMicros(stated.amountCents), centsToMicros(stated.costCents ?? 0))
const paidSides = (row: OrderRow): string => sidesText(row.chargedMicros ?? 0, row.debitedMicros ?? 0)

/** Compares the ledger with the order's own stream, once both have the amounts of an order for a customer. */
const checkMargin = (row: OrderRow, amountCents: number | null, { report }: Context): OrderRow => {
  if (amountCents === null || row.placedCostCents === null || row.chargedMicros === null) return row
  const placed = sidesOf({ amountCents, costCents: row.placedCostCents })
  if (placed !== paidSides(row))
    report('margin-order', `order ${row.orderId} was placed at ${placed}, paid was ${paidSides(row)}`)
  return row
}

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

const checkPayment = (event: Payment, row: OrderRow, context: Context): OrderRow => {
  const { report } = context
  const { order } = event.data
  const { orderId, accountId, amountCents, costCents } = order
  if (row.debitedMicros !== null) report('order-twice', `order ${orderId} was paid before`)
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
  const paid = { debitedMicros: debited, chargedMicros: charged }
  const next: OrderRow = { ...row, ...paid, accountId, priceCents: amountCents }
  if (charged !== null && paidSides(next) !== sidesOf(order))
    report('margin-order', `it takes ${paidSides(next)}, its order says ${sidesOf(order)}`)
  return checkMargin(next, row.priceCents, context)
}

const answerWith =
  (answer: 'fulfilled' | 'refused') =>
  (_event: unknown, row: OrderRow, { report }: Context): OrderRow => {
    if (row.answer !== null)
      report('arbiter-twice', `order ${row.orderId} was ${row.answer} before; the first answer is final`)
    if (row.debitedMicros === null) report('unpaid', `order ${row.orderId} is not paid`)
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
  if (row.accountId !== null && data.accountId !== row.accountId)
    report('order-of-another', `order ${row.orderId} is of ${row.accountId}, not of ${data.accountId}`)
}

const endAs = (
  outcome: 'fulfilled' | 'failed' | 'canceled',
  row: OrderRow,
  { report }: Context,
): OrderRow => {
  const order = `order ${row.orderId}`
  if (row.outcome !== null) report('order-ends-twice', `${order} was ${row.outcome} before`)
  if (outcome === 'fulfilled' && row.answer !== 'fulfilled')
    report('not-allocated', `${order} was fulfilled without an allocation or a plan`)
  // An order that ended before its debit was known gives back its fulfilment and its money (docs/architecture.md,
  // "Every state and its next step").
  if (outcome === 'failed' && row.answer === 'fulfilled' && row.placed)
    report('failed-though-allocated', `${order} failed, though it was allocated`)
  if (outcome === 'fulfilled' && row.debitedMicros === null) report('unpaid', `${order} is not paid`)
  return { ...row, outcome }
}

const checkPlacement = (
  { data: { order } }: Recorded<'OrderCompleted' | 'OrderPlaced' | 'OrderPaid'>,
  row: OrderRow,
  context: Context,
): OrderRow => {
  const { report } = context
  const { orderId, accountId, amountCents, costCents = 0, customerId } = order
  if (row.placed) report('order-twice', `order ${orderId} was placed before`)
  if (orderId !== row.orderId)
    report('order-renamed', `it is about order ${row.orderId}, but holds order ${orderId}`)
  if (row.priceCents !== null && (row.priceCents !== amountCents || row.accountId !== accountId))
    report('order-amount', `it is not the order that was paid: ${amountCents} cents of ${accountId}`)
  const placedCostCents = customerId === null ? null : costCents
  const next: OrderRow = { ...row, placed: true, accountId, priceCents: amountCents, placedCostCents }
  return checkMargin(next, amountCents, context)
}

const checkRefundCredit = (
  event: Recorded<'WalletCredited' | 'CustomerRefunded'>,
  row: OrderRow,
  { report }: Context,
): OrderRow => {
  const { reference: refundId, amountMicros } = event.data
  const isForCustomer = event.type === 'CustomerRefunded'
  const walletMicros = isForCustomer ? event.data.costMicros : amountMicros
  if (row.accountId !== null && subjectOf(event) !== row.accountId)
    report('refund-of-another', `order ${row.orderId} is of ${row.accountId}`)
  const refund = row.refunds[refundId]
  if (refund === undefined) report('refund-undecided', `refund ${refundId} was never decided`)
  else if (refund.credited) report('refund-twice', `refund ${refundId} was credited before`)
  else if (centsToMicros(refund.cents) !== amountMicros)
    report(
      'refund-amount',
      `${inDollars(amountMicros)} came back, but refund ${refundId} was decided as ${refund.cents} cents`,
    )
  const returnedMicros = row.returnedMicros + walletMicros
  if (returnedMicros > (row.debitedMicros ?? 0))
    report('refund-above-price', `more came back to the wallet than order ${row.orderId} took from it`)
  const returnedRevenueMicros = row.returnedRevenueMicros + (isForCustomer ? amountMicros : 0)
  const isAboveDecided =
    returnedRevenueMicros > centsToMicros(row.decidedCents) ||
    returnedMicros > centsToMicros(row.decidedCostCents)
  if (isForCustomer && isAboveDecided)
    report('margin-refund', `more came back of order ${row.orderId} than was decided`)
  const refunds =
    refund === undefined ? row.refunds : { ...row.refunds, [refundId]: { ...refund, credited: true } }
  return { ...row, returnedMicros, returnedRevenueMicros, refunds }
}

/**
 * An order is paid once, with the amount that it names, by its own account: with a key, which the order names, or in a
 * session, which names no key. So no order avoids the cap of its key or uses the cap of another key. The first answer
 * of its allocation owner is final. It ends once, as fulfilled only when it was paid and allocated. Refunds never
 * exceed the payment (docs/architecture.md, invariants 2, 4 and 5). The price of an order for a customer and its cost to
 * the reseller are the same in the ledger and on the order's own stream, and so are their refunds (invariant 9).
 */
export const orderRules = invariant({
  name: 'audit-orders',
  version: 7,
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
        report('awaits-though-over', `order ${row.orderId} awaits a payment, though it was paid or is over`)
      return { ...row, awaits: data.depositId, held: false, accountId: row.accountId ?? data.order.accountId }
    },
    OrderHeld: (event, row, context) => {
      checkAccount(event, row, context)
      return { ...row, held: true }
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
        context.report('canceled-though-paid', `order ${row.orderId} was canceled, though it was paid`)
      return endAs('canceled', row, context)
    },
    RefundDecided: ({ data: { refundId, amountCents: cents, costCents } }, row, { report }) => {
      if (row.debitedMicros === null)
        report('unpaid', `order ${row.orderId} is not paid, so nothing goes back`)
      if (refundId in row.refunds) report('refund-twice', `refund ${refundId} was decided before`)
      const decidedCents = row.decidedCents + cents
      if (decidedCents > (row.priceCents ?? 0))
        report(
          'refund-above-price',
          `refunds of order ${row.orderId} come to ${decidedCents} cents, more than the ${row.priceCents ?? 0} paid`,
        )
      const decidedCostCents = row.decidedCostCents + (costCents ?? 0)
      const isAbovePaid =
        centsToMicros(decidedCents) > (row.chargedMicros ?? 0) ||
        centsToMicros(decidedCostCents) > (row.debitedMicros ?? 0)
      if (costCents !== undefined && isAbovePaid)
        report('margin-refund', `refunds of order ${row.orderId} come to more than was paid on one side`)
      const refunds = { ...row.refunds, [refundId]: { cents, credited: false, landed: false } }
      return { ...row, decidedCents, decidedCostCents, refunds }
    },
    WalletCredited: checkRefundCredit,
    CustomerRefunded: checkRefundCredit,
    OrderRefunded: (event, row, context) => {
      checkAccount(event, row, context)
      const { refundId, amountCents, costCents, refundedCents, complete } = event.data
      const { report } = context
      const refund = row.refunds[refundId]
      if (!refund?.credited || refund.cents !== amountCents)
        report('refund-not-credited', `refund ${refundId} of ${amountCents} cents did not reach the payer`)
      if (refund?.landed) report('refund-twice', `refund ${refundId} landed before`)
      const sumCents = row.refundedCents + amountCents
      if (sumCents !== refundedCents)
        report('refund-sum', `refunds come to ${sumCents} cents, not ${refundedCents} as it says`)
      if (complete !== (refundedCents === row.priceCents))
        report(
          'refund-complete',
          `it says ${complete ? 'all' : 'not all'} of ${row.priceCents} cents came back`,
        )
      const refundedCostCents = row.refundedCostCents + (costCents ?? 0)
      const [revenueMicros, costMicros] = [centsToMicros(sumCents), centsToMicros(refundedCostCents)]
      if (
        costCents !== undefined &&
        (revenueMicros > row.returnedRevenueMicros || costMicros > row.returnedMicros)
      )
        report('margin-refund', `${sidesOf(event.data)} landed, but less came back`)
      const refundedSides = sidesText(revenueMicros, costMicros)
      if (costCents !== undefined && complete && refundedSides !== paidSides(row))
        report(
          'margin-refund',
          `all of order ${row.orderId} is refunded, but ${refundedSides} came back of ${paidSides(row)}`,
        )
      const refunds =
        refund === undefined ? row.refunds : { ...row.refunds, [refundId]: { ...refund, landed: true } }
      return { ...row, refundedCents, refundedCostCents, refunds }
    },
  },
})
