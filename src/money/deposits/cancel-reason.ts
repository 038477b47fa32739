import type { CancelReason } from '../../market/orders/events.ts'
import type { DepositState } from './fold.ts'

/** Why an order is canceled by what became of its invoice; null while that is open. */
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
