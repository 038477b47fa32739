import type { ReversalRow } from '../../../projections/reversals.ts'
import type { Deposit } from '../../domain/deposits/fold.ts'
import type { ReversalAnswer } from '../../domain/ledger/decide-reversal.ts'
import { movementReference, type Provider, type Reversal } from '../../domain/payments/payments.ts'
import type { Cause } from '../../kernel/event.ts'
import type { Wallets } from '../wallet/index.ts'

/** The movements with their references in the books. */
export const namedMovements = (provider: Provider, { reversalId, movements }: Reversal) =>
  movements.map((movement) => ({
    reference: movementReference(provider, reversalId, movement.transactionId),
    ...movement,
  }))

/**
 * Books the movements of a refund or a dispute. The owner of the credit bears them. The amount that the request of the
 * refund holds returns to the wallet in the same decision.
 */
export const bookReversal = (
  wallets: Pick<Wallets, 'reverse'>,
  { details, creditedMicros }: Pick<Deposit, 'details' | 'creditedMicros'>,
  reversal: Reversal,
  cause: Cause,
): Promise<ReversalAnswer> => {
  const { accountId, customerId, depositId, provider, gatewayId } = details
  return wallets.reverse(
    {
      accountId,
      customerId,
      depositId,
      reason: reversal.reason,
      gateway: customerId === null ? provider : gatewayId,
      creditedMicros,
      heldBy: reversal.request?.refundId ?? null,
      movements: namedMovements(provider, reversal).map(({ reference, amountMicros }) => ({
        reference,
        amountMicros,
      })),
    },
    cause,
  )
}

/** The state of a dispute or a refund, in a word. */
export const reversalState = ({ reason, status }: Pick<ReversalRow, 'reason' | 'status'>): string => {
  switch (status) {
    case 'requested':
      return 'in progress'
    case 'refused':
      return 'not made'
    case 'taken':
      return reason === 'chargeback' ? 'charged back' : 'refunded'
    case 'returned':
      return reason === 'chargeback' ? 'won' : 'failed'
    default:
      return status satisfies never
  }
}
