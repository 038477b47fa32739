import type { Deposit } from '../../domain/deposits/fold.ts'
import type { ReversalAnswer } from '../../domain/ledger/decide-reversal.ts'
import type { Provider, Reversal } from '../../domain/payments/payments.ts'
import type { Cause } from '../../kernel/event.ts'
import type { Wallets } from '../wallet/index.ts'

/**
 * The movements with their references in the books: the provider, the id of the refund or dispute, and that of the
 * balance transaction. The last one is unique at the provider and never depends on the other movements.
 */
export const namedMovements = (provider: Provider, { reversalId, movements }: Reversal) =>
  movements.map((movement) => ({
    reference: `${provider} ${reversalId} ${movement.transactionId}`,
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
