import type { InsufficientBalance, SpendCapReached } from '../../domain/ledger/decide.ts'
import { type ApiError, refuse } from '../../platform/http/errors.ts'

/** A shortfall and the debt in it, in words. */
export const shortfallText = ({
  shortfallCents,
  shortfallMicros,
  owedCents = 0,
}: Pick<InsufficientBalance, 'shortfallCents' | 'shortfallMicros' | 'owedCents'>): string => {
  const shortfall =
    shortfallMicros === undefined ? `${shortfallCents} cents` : `${shortfallMicros} micro-dollars`
  return owedCents === 0
    ? shortfall
    : `${shortfall}, including a debt of ${owedCents} cents after a refund or a dispute`
}

/** The answer when the wallet or the cap of the key does not allow a payment. Nothing is charged. */
export const refuseForPayment = (
  refusal: InsufficientBalance | SpendCapReached,
  what: 'order' | 'call',
): ApiError => {
  if (refusal.code === 'insufficient_balance') {
    const { code, ...figures } = refusal
    return refuse(code, `the wallet is short by ${shortfallText(refusal)}`, figures)
  }
  const { code, capCents, spentCents, amountCents } = refusal
  const message = `the ${what} would pass the key's cap of ${capCents} cents in 24 hours; ${spentCents} cents are spent`
  return refuse(code, message, { capCents, spentCents, amountCents })
}
