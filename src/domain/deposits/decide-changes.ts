import type { CommandDecision } from '../../kernel/decider.ts'
import { amountIn, centsToMicros } from '../../kernel/money.ts'
import { depositStream } from '../../kernel/streams.ts'
import type { GatewayChange } from '../payments/payments.ts'
import type { ReportedInvoice } from './decide.ts'
import type { DepositEvent } from './events.ts'
import type { Deposit, DepositState } from './fold.ts'

/**
 * A provider has a handful of things to say of a deposit. A server that says another one with each answer would have all of
 * them in the log.
 */
const maxChanges = 50

const inUsd = (micros: number): string => amountIn(micros, 'usd')

/**
 * What the provider says of the deposit's invoice and no event books: a payment that was given back, undone, or has another
 * amount than it had; an invoice that is paid in words only, or invalid though money arrived for it.
 * @param deposit after the payments that the provider reports were credited
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
      // A payment that was never credited and turned out to be none leaves nothing to do.
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
          amount: inUsd(amountMicros),
        }),
      ),
    ...(status === 'paid' && arrivedMicros < centsToMicros(amountCents)
      ? [
          {
            change: 'paid_without_money',
            reference: invoiceId,
            amount: inUsd(centsToMicros(amountCents)),
          } as const,
        ]
      : []),
    ...(status === 'failed' && recorded.size > 0
      ? [{ change: 'marked_invalid', reference: invoiceId, amount: inUsd(arrivedMicros) } as const]
      : []),
  ]
}

/** E.g. `0.00 usd`: every refund of a charge failed. */
const isOfNothing = ({ change, amount }: GatewayChange): boolean =>
  change === 'refunded' && amount !== null && /^0(\.0+)? /.test(amount)

/**
 * Those that the deposit does not know yet: another amount than the provider said of it before. A refund that fails makes
 * the amount smaller again.
 */
export const unknownChanges = (
  { changes: known }: Pick<Deposit, 'changes'>,
  reported: readonly GatewayChange[],
): readonly GatewayChange[] =>
  reported
    .filter((change) => {
      const before = known.findLast(
        (other) => other.change === change.change && other.reference === change.reference,
      )
      return before === undefined ? !isOfNothing(change) : before.amount !== change.amount
    })
    .slice(0, Math.max(0, maxChanges - known.length))

/** Records what the provider says, each change once. Answers those that are new. No money moves. */
export const decideChanges = (
  deposit: DepositState,
  reported: readonly GatewayChange[],
): CommandDecision<readonly GatewayChange[]> => {
  const news = deposit ? unknownChanges(deposit, reported) : []
  if (!deposit || news.length === 0) return { appends: [], answer: [] }
  const { depositId, accountId } = deposit.details
  const events = news.map((change, index): DepositEvent => {
    const number = deposit.changes.length + index + 1
    return { type: 'DepositChangeReported', data: { depositId, accountId, number, ...change } }
  })
  return { appends: [{ stream: depositStream(depositId), events }], answer: news }
}

export type ReviewAnswer = 'reviewed' | 'reviewed_before' | 'unknown_change'

/** Closes a change that somebody has looked at. */
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
