import type { Cause } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { Customers } from '../accounts/index.ts'
import type { ManualMovementAnswer, Wallets } from '../wallet/index.ts'

type Movement = Omit<Parameters<Wallets['adjustCustomer']>[0], 'accountId'> & {
  /** The reseller's own id; null: the customer exists. */
  readonly ref: string | null
}

/** Moves the credit of a reseller's customer once per reference. The first movement creates the customer. */
export const moveCredit = async (
  {
    wallets,
    customers,
  }: {
    readonly wallets: Pick<Wallets, 'adjustCustomer'>
    readonly customers: Pick<Customers, 'ensure'>
  },
  accountId: AccountId,
  { ref, ...movement }: Movement,
  cause: Cause,
): Promise<ManualMovementAnswer> => {
  const answer = await wallets.adjustCustomer({ accountId, ...movement }, cause)
  // If an earlier movement stopped in between, this one stores the relation.
  const isRefused = answer.outcome === 'refused' && answer.refusal.code !== 'already_applied'
  if (ref !== null && !isRefused) await customers.ensure(accountId, ref)
  return answer
}
