import { isoTime } from '../../kernel/clock.ts'
import {
  type Appends,
  applyDecided,
  type CommandDecision,
  type StatesOf,
  type StreamRefs,
} from '../../kernel/decider.ts'
import type { CustomerId } from '../../kernel/ids.ts'
import { amountIn, centsToMicros } from '../../kernel/money.ts'
import { remembersSince } from '../../kernel/recent-ids.ts'
import { depositStream, ledgerStream } from '../../kernel/streams.ts'
import { accountRef } from '../accounts/fold.ts'
import { decideCredit } from '../ledger/decide.ts'
import { decideCustomerCredit } from '../ledger/decide-customer.ts'
import type { LedgerEvent } from '../ledger/events.ts'
import { type LedgerState, ledgerFold } from '../ledger/fold.ts'
import { decideAwaited } from '../orders/decide-awaited.ts'
import { orderStreams } from '../orders/decide-placement.ts'
import type { CancelReason } from '../orders/events.ts'
import { type OrderState, waitsFor } from '../orders/fold.ts'
import type {
  GatewayChange,
  GatewayPayment,
  InvoiceReport,
  InvoiceStatus,
  UncreditedPayment,
  UndonePayment,
} from '../payments/payments.ts'
import type { DepositDetails, DepositEvent, DepositFailed, PendingOrder } from './events.ts'
import { type Deposit, type DepositInvoice, type DepositState, depositFold, isClosed } from './fold.ts'

/** Why an order is canceled, from the state of its invoice; null while the invoice is open. */
export const cancelReasonOf = (deposit: DepositState): CancelReason | null => {
  if (!deposit) return null
  switch (deposit.status) {
    case 'awaiting_payment':
    case 'processing':
      return null
    case 'expired':
      return 'invoice_expired'
    case 'failed':
    case 'canceled':
      return 'payment_failed'
    case 'partially_paid':
      return 'underpaid'
    case 'paid':
      return 'insufficient_balance'
    default:
      return deposit.status satisfies never
  }
}

/** The invoice as read from the provider and compared with the deposit. Nothing in it comes from a callback. */
export type ReportedInvoice = {
  readonly status: InvoiceStatus
  readonly payments: readonly GatewayPayment[]
  readonly undone?: readonly UndonePayment[]
  readonly unknownStatuses?: readonly UncreditedPayment[]
  readonly endedWithMoney?: readonly UncreditedPayment[]
  /** It is another invoice of the deposit, so it ends no change of the deposit's own invoice. */
  readonly isOther?: boolean
  /** The changes of an invoice in another currency than dollars. Its payments are left out. */
  readonly inOtherCurrency?: readonly GatewayChange[]
}

/**
 * What a report changes. Wallets are in dollars: payments in another currency are not credited, and an operator must
 * check them. The status counts in any currency, so that the invoice closes.
 */
export const reportedOf = (report: InvoiceReport): ReportedInvoice => {
  const { invoiceId, currency, status, payments } = report
  if (currency === 'usd') return report
  const isPaid = status === 'paid' || payments.length > 0
  return {
    ...report,
    payments: [],
    inOtherCurrency: isPaid ? [{ change: 'other_currency', reference: invoiceId, amount: currency }] : [],
  }
}

type OpenAnswer =
  | { readonly kind: 'opened' | 'standing'; readonly deposit: Deposit }
  /** The key was used with another request. */
  | { readonly kind: 'conflict' }

const idsOf = ({ depositId, accountId }: DepositDetails) => ({ depositId, accountId })

const fold = (deposit: DepositState, events: readonly DepositEvent[], nowMs: number): DepositState =>
  applyDecided(depositFold, deposit, events, nowMs)

/** Opens a deposit, or returns the existing one. The event is appended before the gateway is called. */
export const decideOpen = (
  currentDeposit: DepositState,
  details: DepositDetails,
  nowMs: number,
): CommandDecision<OpenAnswer> => {
  if (currentDeposit)
    return {
      appends: [],
      answer:
        currentDeposit.details.fingerprint === details.fingerprint
          ? { kind: 'standing', deposit: currentDeposit }
          : { kind: 'conflict' },
    }
  const opened: DepositEvent = { type: 'DepositOpened', data: { ...details, openedAt: isoTime(nowMs) } }
  const deposit = fold(null, [opened], nowMs) as Deposit
  return {
    appends: [{ stream: depositStream(details.depositId), events: [opened] }],
    answer: { kind: 'opened', deposit },
  }
}

/** Records the provider's invoice. The first recorded invoice is final. The answer is the deposit after that. */
export const decideInvoice = (
  deposit: DepositState,
  invoice: DepositInvoice,
  nowMs: number,
): CommandDecision<DepositState> => {
  if (!deposit || deposit.invoice) return { appends: [], answer: deposit }
  const created: DepositEvent = {
    type: 'DepositInvoiceCreated',
    data: { ...idsOf(deposit.details), ...invoice },
  }
  return {
    appends: [{ stream: depositStream(deposit.details.depositId), events: [created] }],
    answer: fold(deposit, [created], nowMs),
  }
}

/** Closes a deposit that can never be paid. A deposit with payments and a closed deposit do not change. */
export const decideFailure = (
  deposit: DepositState,
  reason: DepositFailed['data']['reason'],
  nowMs: number,
): CommandDecision<DepositState> => {
  if (!deposit || isClosed(deposit) || deposit.payments.size > 0) return { appends: [], answer: deposit }
  const failed: DepositEvent = {
    type: 'DepositFailed',
    data: { ...idsOf(deposit.details), reason, failedAt: isoTime(nowMs) },
  }
  return {
    appends: [{ stream: depositStream(deposit.details.depositId), events: [failed] }],
    answer: fold(deposit, [failed], nowMs),
  }
}

/**
 * Closes the invoice of an order that needs it no more: the order was paid otherwise, has another invoice, waits for the
 * reseller's wallet, failed or was canceled. An invoice with a payment that was seen stays open until that is final.
 */
export const decideDepositCancellation = (
  { deposit, order }: { readonly deposit: DepositState; readonly order: OrderState },
  nowMs: number,
): CommandDecision<DepositState> => {
  const isNeeded =
    order === null || (order.awaiting?.depositId === idOf(deposit) && waitsFor(order) === 'payment')
  if (deposit?.status !== 'awaiting_payment' || deposit.payments.size > 0 || isNeeded)
    return { appends: [], answer: deposit }
  const canceled: DepositEvent = {
    type: 'DepositCanceled',
    data: { ...idsOf(deposit.details), canceledAt: isoTime(nowMs) },
  }
  return {
    appends: [{ stream: depositStream(deposit.details.depositId), events: [canceled] }],
    answer: fold(deposit, [canceled], nowMs),
  }
}

const idOf = (deposit: DepositState): string | null => deposit?.details.depositId ?? null

/** The next status event, from the credited money and the reported status, or null. */
const statusStep = (deposit: Deposit, reported: InvoiceStatus, nowMs: number): DepositEvent | null => {
  const { details, status, creditedMicros } = deposit
  const at = isoTime(nowMs)
  const isFullyPaid = creditedMicros >= centsToMicros(details.amountCents)
  const isFinal = isClosed(deposit) || ['paid', 'expired', 'failed'].includes(reported)
  if (creditedMicros > 0 && (isFullyPaid || isFinal)) {
    const settledStatus = isFullyPaid ? 'paid' : 'partially_paid'
    if (settledStatus === status) return null
    return {
      type: 'DepositSettled',
      data: { ...idsOf(details), status: settledStatus, creditedMicros, settledAt: at },
    }
  }
  if (isClosed(deposit)) return null
  if (reported === 'expired') return { type: 'DepositExpired', data: { ...idsOf(details), expiredAt: at } }
  // The status is paid without money, e.g. because the owner marked the invoice by hand. Nothing is credited.
  if (reported === 'failed' || reported === 'paid')
    return { type: 'DepositFailed', data: { ...idsOf(details), reason: 'payment_failed', failedAt: at } }
  if (reported === 'processing' && status === 'awaiting_payment')
    return { type: 'DepositProcessing', data: idsOf(details) }
  return null
}

/** The payments that the ledger does not have yet: first the recorded ones, then the new ones. */
const uncreditedPayments = (deposit: Deposit, reported: ReportedInvoice): readonly PaymentToCredit[] => {
  // The service closed a canceled invoice itself. A payment of it places its order, if that still waits.
  const isLate =
    !deposit.canceled && (isClosed(deposit) || reported.status === 'expired' || reported.status === 'failed')
  const recorded = [...deposit.payments]
    .filter(([, { credited }]) => !credited)
    .map(([paymentId, { amountMicros, receivedAtMs }]) => ({
      paymentId,
      amountMicros,
      recordedAtMs: receivedAtMs,
      late: isLate,
    }))
  const newPayments = reported.payments
    .filter(({ paymentId }) => !deposit.payments.has(paymentId))
    .map((payment) => ({ ...payment, recordedAtMs: null, late: isLate }))
  return [...recorded, ...newPayments]
}

type ReceiptAnswer = {
  readonly deposit: DepositState
  /** More payments are waiting: decide again. */
  readonly more: boolean
  /** Ids of payments that were recorded long ago and never confirmed. An operator must check them. */
  readonly unconfirmed: readonly string[]
}

/**
 * Credits at most one payment and updates the status. The order of writes is: the payment is recorded, the ledger
 * moves, the payment is marked as credited, the status changes. If the log can lose the end of that, another decision
 * finishes any prefix, as it does for a manual movement (docs/decisions/0006).
 */
export const decideReceipt = <Refs extends StreamRefs>(
  states: { readonly deposit: DepositState; readonly ledger: LedgerState } & StatesOf<Refs>,
  reported: ReportedInvoice,
  crediting: Crediting<Refs>,
  nowMs: number,
): CommandDecision<ReceiptAnswer> => {
  const { deposit } = states
  if (!deposit) return { appends: [], answer: { deposit, more: false, unconfirmed: [] } }
  const { details } = deposit
  const stream = depositStream(details.depositId)
  const ledger = ledgerStream(details.accountId)
  const unconfirmed: string[] = []
  const payments = uncreditedPayments(deposit, reported)
  for (const [index, payment] of payments.entries()) {
    const credited = crediting.decide(states.ledger, states, payment, nowMs)
    if (credited.outcome === 'unconfirmed') {
      unconfirmed.push(payment.paymentId)
      continue
    }
    const data = { ...idsOf(details), paymentId: payment.paymentId, amountMicros: payment.amountMicros }
    const recorded: DepositEvent[] =
      payment.recordedAtMs === null ? [{ type: 'DepositPaymentReceived', data }] : []
    const { customerId, pending } = details
    const late = { customerId, orderId: pending?.order.orderId ?? null }
    const creditedEvent: DepositEvent = {
      type: 'DepositPaymentCredited',
      data: credited.late === true ? { ...data, late } : data,
    }
    const after = fold(deposit, [...recorded, creditedEvent], nowMs) as Deposit
    const hasMore = index + 1 < payments.length
    const statusEvent = hasMore ? null : statusStep(after, reported.status, nowMs)
    return {
      appends: [
        ...(recorded.length > 0 ? [{ stream, events: recorded }] : []),
        ...(credited.payment.length > 0 ? [{ stream: ledger, events: credited.payment }] : []),
        ...credited.appends,
        { stream, events: statusEvent ? [creditedEvent, statusEvent] : [creditedEvent] },
      ],
      answer: {
        deposit: statusEvent ? fold(after, [statusEvent], nowMs) : after,
        more: hasMore,
        unconfirmed,
      },
    }
  }
  // A payment that may or may not have moved is not a failed payment. The status stays until an operator has checked
  // it.
  const statusEvent = unconfirmed.length > 0 ? null : statusStep(deposit, reported.status, nowMs)
  const events = statusEvent ? [statusEvent] : []
  return {
    appends: statusEvent ? [{ stream, events }] : [],
    answer: { deposit: fold(deposit, events, nowMs), more: false, unconfirmed },
  }
}

/** Money that arrived for a deposit and must be credited. */
type PaymentToCredit = {
  readonly paymentId: string
  readonly amountMicros: number
  /** When the deposit recorded it; null if the same decision records it. */
  readonly recordedAtMs: number | null
  /** It came after the invoice closed, so it is credited and places no order. */
  readonly late: boolean
}

export type Credited =
  /**
   * `credited`: the money moves now. `standing`: the ledger already has it, and only the steps after it that a crash
   * lost are done.
   */
  | {
      readonly outcome: 'credited' | 'standing'
      /** For the ledger, in one append. */
      readonly payment: readonly LedgerEvent[]
      /** Appended after the payment. */
      readonly appends: Appends
      /** It can place no order: its invoice had closed, or its order no longer waits. */
      readonly late?: boolean
    }
  /** Recorded so long ago that the ledger state no longer shows whether it moved. An operator must check it. */
  | { readonly outcome: 'unconfirmed' }

/** How money of a deposit is credited: the additional streams to decide on, and the pure decision. */
export type Crediting<Refs extends StreamRefs = StreamRefs> = {
  readonly streams: Refs
  decide(ledger: LedgerState, states: StatesOf<Refs>, payment: PaymentToCredit, nowMs: number): Credited
}

const walletCrediting = ({ depositId, provider }: DepositDetails): Crediting => ({
  streams: {},
  decide: (ledger, _states, { paymentId, amountMicros, recordedAtMs, late }) => {
    const reference = paymentId
    const credit = { source: 'deposit', gateway: provider, reference } as const
    const decision = decideCredit(ledger, {
      ...credit,
      depositId,
      orderId: null,
      family: null,
      amountMicros,
    })
    if (decision.outcome === 'refused') return { outcome: 'standing', payment: [], appends: [] }
    if (recordedAtMs !== null && !remembersSince(ledger.movements, recordedAtMs))
      return { outcome: 'unconfirmed' }
    return { outcome: 'credited', payment: decision.events, appends: [], late }
  },
})

const customerCrediting = ({ depositId, gatewayId }: DepositDetails, customerId: CustomerId): Crediting => ({
  streams: {},
  decide: (ledger, _states, { paymentId, amountMicros, recordedAtMs, late }) => {
    const credit = { customerId, reference: paymentId, gateway: gatewayId, depositId, amountMicros }
    const decision = decideCustomerCredit(ledger, credit)
    if (decision.outcome === 'refused') return { outcome: 'standing', payment: [], appends: [] }
    if (recordedAtMs !== null && !remembersSince(ledger.movements, recordedAtMs))
      return { outcome: 'unconfirmed' }
    return { outcome: 'credited', payment: decision.events, appends: [], late }
  },
})

/** A payment for an order also places the order in the same decision. The debit is in the same ledger append. */
const placingCrediting = (
  deposit: DepositDetails & { readonly pending: PendingOrder },
  orderable: boolean,
  credit: Crediting,
): Crediting => {
  const { depositId, accountId, pending } = deposit
  const { order } = pending
  const { ledger: _, ...orderRefs } = orderStreams(order)
  const streams = { account: accountRef(accountId), ...orderRefs }
  const crediting: Crediting<typeof streams> = {
    streams,
    decide: (ledger, states, payment, nowMs) => {
      const credited = credit.decide(ledger, {}, payment, nowMs)
      if (credited.outcome === 'unconfirmed' || payment.late) return credited
      const ledgerAfter = applyDecided(ledgerFold, ledger, credited.payment, nowMs)
      const awaited = decideAwaited(
        { ...states, ledger: ledgerAfter },
        { order, depositId, orderable },
        nowMs,
      )
      return {
        outcome: credited.outcome,
        payment: [...credited.payment, ...awaited.payment],
        appends: awaited.appends,
        late: credited.outcome === 'credited' && awaited.answer.kind === 'over',
      }
    },
  }
  return crediting as unknown as Crediting
}

/**
 * The only function that turns a received payment into a ledger decision. For a deposit with an order it decides credit
 * and debit in one ledger append; if the money is too little, it only credits.
 * @param orderable Whether the product of the deposit's order can be ordered at the moment
 */
export const creditingOf = (deposit: DepositDetails, orderable: boolean): Crediting => {
  const { customerId, pending } = deposit
  const credit = customerId === null ? walletCrediting(deposit) : customerCrediting(deposit, customerId)
  return pending === null ? credit : placingCrediting({ ...deposit, pending }, orderable, credit)
}

/**
 * The most changes of a deposit. A provider reports few. The limit protects the log from a server that reports another
 * one in each answer.
 */
const maxChanges = 50

const usdText = (micros: number): string => amountIn(micros, 'usd')

/** The change of a payment that is not credited because of its status. */
const statusChange =
  (change: GatewayChange['change']) =>
  ({ id, status, amount }: UncreditedPayment): GatewayChange => ({
    change,
    reference: `${id} ${status}`,
    amount,
  })

/**
 * What the provider reports about the invoice and no other event books: a payment that was refunded, undone, has another
 * amount than before, has an unknown status or ended although money arrived, an invoice with the status paid but without
 * all of the money, or an invalid invoice for which money arrived.
 * @param deposit the deposit after the reported payments were credited
 */
export const changesIn = (
  deposit: Deposit,
  {
    status,
    payments,
    undone = [],
    unknownStatuses = [],
    endedWithMoney = [],
    inOtherCurrency,
  }: ReportedInvoice,
): readonly GatewayChange[] => {
  const recorded = deposit.payments
  const invoiceId = deposit.invoice?.invoiceId ?? deposit.details.depositId
  const arrivedMicros = [...recorded.values()].reduce((sum, { amountMicros }) => sum + amountMicros, 0)
  const missingMicros = centsToMicros(deposit.details.amountCents) - arrivedMicros
  return [
    ...undone
      // An undone payment that was never credited needs no action.
      .filter(({ paymentId }) => recorded.has(paymentId))
      .map(
        ({ paymentId, why, amount }): GatewayChange => ({
          change: why === 'refunded' ? 'refunded' : 'payment_undone',
          reference: paymentId,
          amount,
        }),
      ),
    ...payments
      .filter(
        ({ paymentId, amountMicros }) =>
          recorded.has(paymentId) && recorded.get(paymentId)?.amountMicros !== amountMicros,
      )
      .map(
        ({ paymentId, amountMicros }): GatewayChange => ({
          change: 'payment_changed',
          reference: paymentId,
          amount: usdText(amountMicros),
        }),
      ),
    ...unknownStatuses.map(statusChange('unknown_status')),
    ...endedWithMoney.map(statusChange('ended_with_money')),
    ...(inOtherCurrency ??
      (status === 'paid' && missingMicros > 0
        ? [{ change: 'paid_without_money', reference: invoiceId, amount: usdText(missingMicros) } as const]
        : [])),
    // A canceled invoice is marked as invalid at the provider.
    ...(status === 'failed' && recorded.size > 0 && !deposit.canceled
      ? [{ change: 'marked_invalid', reference: invoiceId, amount: usdText(arrivedMicros) } as const]
      : []),
  ]
}

/** An amount such as `0.00 usd`: every refund of a charge failed. */
const isZeroRefund = ({ change, amount }: GatewayChange): boolean =>
  change === 'refunded' && amount !== null && /^0(\.0+)? /.test(amount)

/**
 * The reported changes that the deposit does not have yet, or has with another amount. A failed refund makes the amount
 * smaller again.
 */
export const unknownChanges = (
  { changes: recordedChanges }: Pick<Deposit, 'changes'>,
  reported: readonly GatewayChange[],
): readonly GatewayChange[] =>
  reported
    .filter((change) => {
      const previous = recordedChanges.findLast(
        (other) => other.change === change.change && other.reference === change.reference,
      )
      if (previous === undefined || previous.ended) return !isZeroRefund(change)
      // The operator who reviewed it decided about all of the missing money.
      if (previous.change === 'paid_without_money' && previous.reviewed) return false
      return previous.amount !== change.amount
    })
    .slice(0, Math.max(0, maxChanges - recordedChanges.length))

/** Records the reported changes, each once. The answer has the new ones. No money moves. */
export const decideChanges = (
  deposit: DepositState,
  reported: readonly GatewayChange[],
): CommandDecision<readonly GatewayChange[]> => {
  const newChanges = deposit ? unknownChanges(deposit, reported) : []
  if (!deposit || newChanges.length === 0) return { appends: [], answer: [] }
  const { depositId, accountId } = deposit.details
  const events = newChanges.map((change, index): DepositEvent => {
    const number = deposit.changes.length + index + 1
    return { type: 'DepositChangeReported', data: { depositId, accountId, number, ...change } }
  })
  return { appends: [{ stream: depositStream(depositId), events }], answer: newChanges }
}

/** Whether a report of the deposit's own invoice shows that a change of this kind ended, by not repeating it. */
const isShownBy = (
  { change, reference }: GatewayChange,
  { payments }: Pick<ReportedInvoice, 'payments'>,
): boolean => {
  switch (change) {
    case 'paid_without_money':
    case 'marked_invalid':
    case 'unknown_status':
    case 'ended_with_money':
      return true
    // A report may lack a payment. One that it has counts again, with the credited amount.
    case 'payment_changed':
    case 'payment_undone':
    case 'refunded':
      return payments.some(({ paymentId }) => paymentId === reference)
    default:
      return false
  }
}

/** The numbers of the open changes that the provider no longer reports, such as missing money that arrived. */
export const endedChanges = (deposit: Deposit, reported: ReportedInvoice): readonly number[] => {
  if (reported.isOther) return []
  const current = changesIn(deposit, reported)
  const isCurrent = (change: GatewayChange): boolean =>
    current.some(
      (other) =>
        other.change === change.change &&
        other.reference === change.reference &&
        other.amount === change.amount,
    )
  return deposit.changes.flatMap((change, index) =>
    change.reviewed || isCurrent(change) || !isShownBy(change, reported) ? [] : [index + 1],
  )
}

/** Closes the open changes that the provider no longer reports. */
export const decideEndedChanges = (
  deposit: DepositState,
  reported: ReportedInvoice,
): CommandDecision<null> => {
  const numbers = deposit === null ? [] : endedChanges(deposit, reported)
  if (deposit === null || numbers.length === 0) return { appends: [], answer: null }
  const { depositId, accountId } = deposit.details
  const events = numbers.map(
    (number): DepositEvent => ({
      type: 'DepositChangeReviewed',
      data: { depositId, accountId, number, note: 'the provider no longer reports it', ended: true },
    }),
  )
  return { appends: [{ stream: depositStream(depositId), events }], answer: null }
}

export type ReviewAnswer = 'reviewed' | 'reviewed_before' | 'unknown_change'

/** Closes a change that was reviewed. */
export const decideReview = (
  deposit: DepositState,
  number: number,
  note: string,
): CommandDecision<ReviewAnswer> => {
  const change = deposit?.changes[number - 1]
  if (!deposit || !change) return { appends: [], answer: 'unknown_change' }
  if (change.reviewed) return { appends: [], answer: 'reviewed_before' }
  const { depositId, accountId } = deposit.details
  const reviewed: DepositEvent = {
    type: 'DepositChangeReviewed',
    data: { depositId, accountId, number, note },
  }
  return { appends: [{ stream: depositStream(depositId), events: [reviewed] }], answer: 'reviewed' }
}
