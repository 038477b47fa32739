import type { CommandDecision } from '../../kernel/decider.ts'
import { amountIn, centsToMicros } from '../../kernel/money.ts'
import { depositStream } from '../../kernel/streams.ts'
import type { GatewayChange } from '../payments/payments.ts'
import type { ReportedInvoice } from './decide.ts'
import type { DepositEvent } from './events.ts'
import type { Deposit, DepositState } from './fold.ts'

/**
 * The most changes of a deposit. A provider reports few. The limit protects the log from a server that reports another
 * one in each answer.
 */
const maxChanges = 50

const usdText = (micros: number): string => amountIn(micros, 'usd')

/**
 * What the provider reports about the invoice and no other event books: a payment that was refunded, undone or has
 * another amount than before, an invoice with the status paid but without the money, or an invalid invoice for which
 * money arrived.
 * @param deposit the deposit after the reported payments were credited
 */
export const changesIn = (
  deposit: Deposit,
  { status, payments, undone = [] }: ReportedInvoice,
): readonly GatewayChange[] => {
  const recorded = deposit.payments
  const invoiceId = deposit.invoice?.invoiceId ?? deposit.details.depositId
  const arrivedMicros = [...recorded.values()].reduce((sum, { amountMicros }) => sum + amountMicros, 0)
  const { amountCents } = deposit.details
  return [
    ...undone
      // An undone payment that was never credited needs no action.
      .filter(({ paymentId, why }) => why === 'refunded' || recorded.has(paymentId))
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
    ...(status === 'paid' && arrivedMicros < centsToMicros(amountCents)
      ? [
          {
            change: 'paid_without_money',
            reference: invoiceId,
            amount: usdText(centsToMicros(amountCents)),
          } as const,
        ]
      : []),
    ...(status === 'failed' && recorded.size > 0
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
      return previous === undefined ? !isZeroRefund(change) : previous.amount !== change.amount
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
