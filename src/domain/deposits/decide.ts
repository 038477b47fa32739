import { isoTime } from '../../kernel/clock.ts'
import { applyDecided, type CommandDecision, type StatesOf, type StreamRefs } from '../../kernel/decider.ts'
import { centsToMicros } from '../../kernel/money.ts'
import { depositStream, ledgerStream } from '../../kernel/streams.ts'
import type { LedgerState } from '../ledger/fold.ts'
import type { CancelReason } from '../orders/events.ts'
import type { GatewayPayment, InvoiceStatus, UndonePayment } from '../payments/payments.ts'
import type { Crediting, PaymentToCredit } from './credit-payment.ts'
import type { DepositDetails, DepositEvent, DepositFailed } from './events.ts'
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
}

export type OpenAnswer =
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
  const isLate = isClosed(deposit) || reported.status === 'expired' || reported.status === 'failed'
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

export type ReceiptAnswer = {
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
    const creditedEvent: DepositEvent = { type: 'DepositPaymentCredited', data }
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
