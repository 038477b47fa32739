import type { AccountId } from '../../kernel/ids.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import { microsToCentsFloor } from '../../terms/money.ts'
import type { AskedAnswer, Wallets } from '../ledger/service.ts'
import type { DisputeReport } from '../payments/reports.ts'
import type { Deposit } from './fold.ts'

/** What a movement moved, now or when it was asked for before; null when it never moved, and why. */
const movedMicros = (answer: AskedAnswer): number | { readonly refused: string } => {
  if (answer.outcome === 'applied') return answer.amountMicros
  // The service's own movements are never proposed.
  if (answer.outcome !== 'refused') return { refused: answer.outcome }
  const { refusal } = answer
  return refusal.code === 'already_applied' ? refusal.amountMicros : { refused: refusal.code }
}

/**
 * A payment went back to the payer's bank: whoever got the credit bears it, once per dispute, and
 * never more than this deposit was credited: a bank may take more than was paid, when rates moved. One's own wallet: the
 * account is blocked until an operator has looked. A customer's credit: what is missing is the customer's debt to the
 * reseller. Money that the bank gave back later is credited again, once.
 * @returns what became of it, for the inbox; `refused: …` is for an operator to look at
 */
export const bearDispute = async (
  wallets: Pick<Wallets, 'adjust' | 'adjustCustomer'>,
  { details, creditedMicros }: Pick<Deposit, 'details' | 'creditedMicros'>,
  report: DisputeReport,
  cause: Cause,
): Promise<string> => {
  const { accountId, customerId, depositId, provider, gatewayId } = details
  const cents = microsToCentsFloor(Math.min(report.amountMicros, creditedMicros))
  if (cents === 0) return 'nothing was credited: nothing moved'
  const reference = `${provider} ${report.disputeId}`
  const move = async (amountCents: number, what: string) => {
    const movement = { accountId: accountId as AccountId, amountCents, reference: what, depositId } as const
    const answer = await (customerId === null
      ? wallets.adjust({ ...movement, reason: 'chargeback', gateway: provider }, cause)
      : wallets.adjustCustomer({ ...movement, customerId, reason: 'chargeback', gateway: gatewayId }, cause))
    return movedMicros(answer)
  }
  const taken = await move(0 - cents, reference)
  if (typeof taken !== 'number') return `refused: ${taken.refused}`
  if (report.state !== 'reinstated') return report.state
  const back = await move(microsToCentsFloor(0 - taken), `${reference} won`)
  return typeof back === 'number' ? report.state : `refused: ${back.refused}`
}
