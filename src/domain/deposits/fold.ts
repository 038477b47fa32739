import { Map as ImmutableMap } from 'immutable'
import type { Fold } from '../../kernel/decider.ts'
import { assertSafe } from '../../kernel/money.ts'
import type { GatewayChange } from '../payments/payments.ts'
import type { DepositDetails, DepositEvent } from './events.ts'

/** All but the first two are closed: their invoice takes no more payments. */
export const depositStatuses = [
  'awaiting_payment',
  'processing',
  'paid',
  'partially_paid',
  'expired',
  'failed',
  'canceled',
] as const
export type DepositStatus = (typeof depositStatuses)[number]

/** The statuses that people and programs see. `charged_back`: a dispute took money of the deposit, and has it. */
export const shownDepositStatuses = [...depositStatuses, 'charged_back'] as const
export type ShownDepositStatus = (typeof shownDepositStatuses)[number]

export const shownDepositStatus = ({
  status,
  chargedBackMicros,
}: {
  readonly status: DepositStatus
  readonly chargedBackMicros: number
}): ShownDepositStatus => (chargedBackMicros > 0 ? 'charged_back' : status)

export type DepositInvoice = {
  readonly invoiceId: string
  readonly expiresAt: string
  readonly watchUntil: string
}
type ReceivedPayment = {
  readonly amountMicros: number
  readonly receivedAtMs: number
  readonly credited: boolean
}

export type Deposit = {
  readonly details: DepositDetails
  readonly openedAt: string
  readonly status: DepositStatus
  readonly invoice: DepositInvoice | null
  /** Whether it was canceled, because its order needed it no more. A later payment changes the status. */
  readonly canceled: boolean
  /** By the provider's payment id. There are few. */
  readonly payments: ImmutableMap<string, ReceivedPayment>
  /** The sum of the payments that were credited. */
  readonly creditedMicros: number
  /** What the provider reported and no other event books, ordered by number. The numbers begin at 1. */
  readonly changes: readonly DepositChange[]
  /** The refunds that operators requested, by id. Refunds that were made at the provider alone are not among them. */
  readonly refunds: ImmutableMap<string, RequestedRefund>
}
export type RequestedRefund = {
  readonly amountCents: number
  readonly reference: string
  /** `requested`: the provider may not know it yet. */
  readonly status: 'requested' | 'made' | 'refused'
  /** Absent: the provider is not known to have made it. */
  readonly providerRefundId?: string
}
type DepositChange = GatewayChange & {
  readonly reviewed: boolean
  /** It was not reviewed: the provider no longer reports it. */
  readonly ended: boolean
}
/** Null before it was opened. */
export type DepositState = Deposit | null

export const isClosed = ({ status }: Pick<Deposit, 'status'>): boolean =>
  status !== 'awaiting_payment' && status !== 'processing'

/**
 * Whether the pay page still takes money. The page of a closed or expired invoice does not. Money that arrives later is
 * still credited.
 */
export const isPayable = (
  { status, expiresAt }: Pick<Deposit, 'status'> & { readonly expiresAt: string | null },
  nowMs: number,
): boolean => !isClosed({ status }) && (expiresAt === null || Date.parse(expiresAt) > nowMs)

/** How long a deposit without an invoice is polled, milliseconds. It is closed before that. */
export const withoutInvoiceMs = 24 * 60 * 60 * 1000

/**
 * Until when the provider still notices payments, milliseconds since the epoch. One poll after that time must be
 * answered.
 */
export const pollUntilMs = ({ invoice, openedAt }: Pick<Deposit, 'invoice' | 'openedAt'>): number =>
  invoice ? Date.parse(invoice.watchUntil) : Date.parse(openedAt) + withoutInvoiceMs

const evolveOpen = (
  deposit: Deposit,
  event: Exclude<DepositEvent, { type: 'DepositOpened' }>,
  atMs: number,
): Deposit => {
  switch (event.type) {
    case 'DepositInvoiceCreated': {
      const { invoiceId, expiresAt, watchUntil } = event.data
      return { ...deposit, invoice: { invoiceId, expiresAt, watchUntil } }
    }
    case 'DepositProcessing':
      return { ...deposit, status: 'processing' }
    case 'DepositPaymentReceived': {
      const { paymentId, amountMicros } = event.data
      if (deposit.payments.has(paymentId)) throw new Error(`payment ${paymentId} was received twice`)
      const payment = { amountMicros, receivedAtMs: atMs, credited: false }
      return { ...deposit, payments: deposit.payments.set(paymentId, payment) }
    }
    case 'DepositPaymentCredited': {
      const { paymentId } = event.data
      const payment = deposit.payments.get(paymentId)
      if (!payment || payment.credited) throw new Error(`payment ${paymentId} is not one to credit`)
      const creditedMicros = deposit.creditedMicros + payment.amountMicros
      return {
        ...deposit,
        payments: deposit.payments.set(paymentId, { ...payment, credited: true }),
        creditedMicros: assertSafe(creditedMicros, 'what a deposit was credited'),
      }
    }
    case 'DepositSettled':
      return { ...deposit, status: event.data.status }
    case 'DepositExpired':
      return { ...deposit, status: 'expired' }
    case 'DepositFailed':
      return { ...deposit, status: 'failed' }
    case 'DepositCanceled':
      return { ...deposit, status: 'canceled', canceled: true }
    case 'DepositChangeReported': {
      const { number, change, reference, amount } = event.data
      if (number !== deposit.changes.length + 1) throw new Error(`change ${number} is not the next one`)
      return {
        ...deposit,
        changes: [...deposit.changes, { change, reference, amount, reviewed: false, ended: false }],
      }
    }
    case 'DepositChangeReviewed': {
      const { number, ended = false } = event.data
      if (deposit.changes[number - 1]?.reviewed !== false) throw new Error(`change ${number} is not open`)
      const changes = deposit.changes.with(number - 1, {
        ...deposit.changes[number - 1]!,
        reviewed: true,
        ended,
      })
      return { ...deposit, changes }
    }
    case 'DepositRefundRequested': {
      const { refundId, amountCents, reference } = event.data
      if (deposit.refunds.has(refundId)) throw new Error(`refund ${refundId} was requested twice`)
      const refund = { amountCents, reference, status: 'requested' } as const
      return { ...deposit, refunds: deposit.refunds.set(refundId, refund) }
    }
    case 'DepositRefundMade':
    case 'DepositRefundRefused': {
      const { refundId, providerRefundId } = event.data
      const refund = deposit.refunds.get(refundId)
      if (!refund) throw new Error(`refund ${refundId} was not requested`)
      const status = event.type === 'DepositRefundMade' ? 'made' : 'refused'
      const ended = { ...refund, status, ...(providerRefundId && { providerRefundId }) } as const
      return { ...deposit, refunds: deposit.refunds.set(refundId, ended) }
    }
    default: {
      const unknown: never = event
      throw new Error(`unknown deposit event ${JSON.stringify(unknown)}`)
    }
  }
}

const evolve: Fold<DepositState, DepositEvent>['evolve'] = (before, event) => {
  if (event.type === 'DepositOpened') {
    if (before) throw new Error(`deposit ${event.data.depositId} was opened twice`)
    const { openedAt, ...details } = event.data
    return {
      details,
      openedAt,
      status: 'awaiting_payment',
      invoice: null,
      canceled: false,
      payments: ImmutableMap(),
      creditedMicros: 0,
      changes: [],
      refunds: ImmutableMap(),
    }
  }
  if (!before) throw new Error(`${event.type} before the deposit was opened`)
  return evolveOpen(before, event, event.recordedAtMs)
}

/** Never snapshotted, because a deposit has few events. */
export const depositFold: Fold<DepositState, DepositEvent> = {
  name: 'deposit',
  version: 1,
  initial: null,
  evolve,
}
