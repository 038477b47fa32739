import type { FoundGatewayChange } from '../../../projections/deposits.ts'
import { decideReview, type ReviewAnswer } from '../../domain/deposits/decide.ts'
import type { GatewayChange } from '../../domain/payments/payments.ts'
import type { Cause } from '../../kernel/event.ts'
import type { DepositId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { depositRef } from './settle-deposit.ts'

/** What happened at the provider, and what the operator must do. */
export const changeTexts: Readonly<Record<GatewayChange['change'], string>> = {
  refunded: 'A payment was refunded at the provider, and the refund could not be booked.',
  other_currency: 'Money moved in another currency than dollars. Nothing was booked.',
  paid_without_money:
    'The provider reports the invoice as paid, but this amount is missing: it may have been marked as paid manually. Money that still arrives is credited automatically and closes this item, so credit nothing by hand before you know that none will come.',
  marked_invalid: 'The provider says that the invoice is invalid, but its payments are credited.',
  payment_changed: 'The provider states another amount of a payment than the one that was credited.',
  payment_undone: 'A credited payment turned out to be none.',
  unknown_status:
    'A payment has a status that this version does not know; it follows the id of the payment. Nothing was credited for it. Look it up at the provider.',
  ended_with_money:
    'Money arrived in a payment that the provider ended as failed or expired; this status follows the id of the payment. Nothing was credited for it. Ask the provider where the money is; then return it to the payer, or credit the wallet by hand.',
  dispute_adjusted: 'A dispute moved another amount in all than the one that was disputed.',
  above_credit: 'A refund or a dispute moved more than was credited for the deposit. The rest is not booked.',
  refund_refused:
    'A refund that an operator requested was not made. No money moved. The error code follows the id of the refund.',
  chargeback_not_moved: 'A dispute took money, and it could not be taken from the wallet or credit.',
}

/** A change in the `--json` output of commands. */
export const changeRecord = (row: FoundGatewayChange) => ({
  depositId: row.depositId,
  number: row.number,
  accountId: row.accountId,
  customerId: row.customerId,
  gatewayId: row.gatewayId,
  change: row.change,
  reference: row.reference,
  amount: row.amount,
  reportedAt: row.reportedAt,
  reviewedAt: row.reviewedAt,
  note: row.note,
})

/** Closes a change that an operator checked. @param note what was done about it */
export const reviewChange = async (
  runner: CommandRunner,
  input: { readonly depositId: DepositId; readonly number: number; readonly note: string },
  cause: Cause,
): Promise<ReviewAnswer> => {
  if (!/^dep_[0-9a-f]{32}$/.test(input.depositId)) return 'unknown_change'
  const { answer } = await runner.run({
    name: 'review-gateway-change',
    streams: depositRef(input.depositId),
    decide: ({ deposit }) => decideReview(deposit, input.number, input.note),
    ...cause,
  })
  return answer
}
