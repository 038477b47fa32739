import type { InsufficientBalance, SpendCapReached } from '../../domain/ledger/decide.ts'
import { type ApiError, refuse } from '../../platform/http/errors.ts'

/** The answer when the wallet or the cap of the key does not allow a payment. Nothing is charged. */
export const refuseForPayment = (
  refusal: InsufficientBalance | SpendCapReached,
  what: 'order' | 'call',
): ApiError => {
  if (refusal.code === 'insufficient_balance') {
    const { code, balanceCents, amountCents, shortfallCents } = refusal
    const message = `the wallet is short by ${shortfallCents} cents`
    return refuse(code, message, { balanceCents, amountCents, shortfallCents })
  }
  const { code, capCents, spentCents, amountCents } = refusal
  const message = `the ${what} would pass the key's cap of ${capCents} cents in 24 hours; ${spentCents} cents are spent`
  return refuse(code, message, { capCents, spentCents, amountCents })
}
