import type { AccountId } from '../ids.ts'
import { microsToCentsFloor } from '../ledger/money.ts'
import type { Wallets } from '../ledger/service.ts'
import type { DisputeReport } from '../payments/port.ts'
import type { DepositDetails } from './events.ts'
import type { Cause } from './service.ts'

/**
 * A payment went back to the payer's bank: whoever got the credit bears it, once per dispute (design section 4). One's
 * own wallet: the account is blocked until an operator has looked. A customer's credit: what is missing is the
 * customer's debt to the reseller. Money that the bank gave back later is credited again, once.
 */
export const bearDispute = async (
  wallets: Pick<Wallets, 'adjust' | 'adjustCustomer'>,
  { accountId, customerId, provider, gatewayId }: DepositDetails,
  report: DisputeReport,
  cause: Cause,
): Promise<void> => {
  const cents = microsToCentsFloor(report.amountMicros)
  const reference = `${provider} ${report.disputeId}`
  const move = (amountCents: number, what: string) => {
    const movement = { accountId: accountId as AccountId, amountCents, reference: what } as const
    return customerId === null
      ? wallets.adjust({ ...movement, reason: 'chargeback', gateway: provider }, cause)
      : wallets.adjustCustomer({ ...movement, customerId, reason: 'chargeback', gateway: gatewayId }, cause)
  }
  await move(-cents, reference)
  if (report.state === 'reinstated') await move(cents, `${reference} won`)
}
