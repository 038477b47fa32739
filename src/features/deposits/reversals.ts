import type { Deposit } from '../../domain/deposits/fold.ts'
import type { Reversal } from '../../domain/payments/payments.ts'
import type { Cause } from '../../kernel/event.ts'
import type { Wallets } from '../wallet/index.ts'

/** What the name of a movement adds to the id of its refund or dispute, if it is the first one that returned money. */
const returnedSuffix = { deposit_refund: 'failed', chargeback: 'won' } as const

/**
 * The movements with their names in the books, which are unique at the provider: the id of the refund or dispute for
 * the first movement that took money, `{id} failed` or `{id} won` for the first one that returned it, and `{id}` with
 * the movement's own id for the others.
 */
export const namedMovements = ({ reason, reversalId, movements }: Reversal) => {
  const firstTaken = movements.find(({ amountMicros }) => amountMicros < 0)
  const firstReturned = movements.find(({ amountMicros }) => amountMicros > 0)
  return movements.map((movement) => {
    if (movement === firstTaken) return { name: reversalId, movement }
    const suffix = movement === firstReturned ? returnedSuffix[reason] : movement.transactionId
    return { name: `${reversalId} ${suffix}`, movement }
  })
}

type BookedReversal = {
  /** Why a movement was not booked; null: all are booked, now or before. An operator must look at it. */
  readonly refused: string | null
  /** The part of the movements that is not booked, because it exceeds the credit of the deposit. */
  readonly uncoveredMicros: number
}

/**
 * Books the movements of a refund or a dispute, each once. The owner of the credit bears them, up to the deposit's
 * credited amount, because a bank may take more than was paid if rates changed. A missing amount becomes a debt. A
 * dispute about a payment into a wallet blocks the account. What the provider returns is credited again, up to the
 * amount that was taken.
 */
export const bookReversal = async (
  wallets: Pick<Wallets, 'reverse'>,
  { details, creditedMicros }: Pick<Deposit, 'details' | 'creditedMicros'>,
  reversal: Reversal,
  cause: Cause,
): Promise<BookedReversal> => {
  const { accountId, customerId, depositId, provider, gatewayId } = details
  let takenMicros = 0
  let uncoveredMicros = 0
  for (const { name, movement } of namedMovements(reversal)) {
    const { amountMicros } = movement
    const coveredMicros = Math.max(Math.min(amountMicros, takenMicros), takenMicros - creditedMicros)
    uncoveredMicros += amountMicros - coveredMicros
    if (coveredMicros === 0) continue
    const answer = await wallets.reverse(
      {
        accountId,
        customerId,
        depositId,
        reason: reversal.reason,
        gateway: customerId === null ? provider : gatewayId,
        reference: `${provider} ${name}`,
        amountMicros: coveredMicros,
      },
      cause,
    )
    if (answer.outcome === 'applied') takenMicros -= answer.amountMicros
    else if (answer.refusal.code === 'already_applied') takenMicros -= answer.refusal.amountMicros
    else return { refused: answer.refusal.code, uncoveredMicros }
  }
  return { refused: null, uncoveredMicros }
}
