import { type CustomerRecord, findCustomer } from '../../market/customers/vault.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { ShownAccount } from '../pages/page.ts'
import type { ResellerPagesDeps } from './deps.ts'

/** The reseller's customer of this id. @throws not_found, for an absent one and a foreign one alike */
export const customerIn = async (
  { pool }: Pick<ResellerPagesDeps, 'pool'>,
  { accountId }: ShownAccount,
  customerId: string,
): Promise<CustomerRecord> => {
  const found = await findCustomer(pool, accountId, customerId)
  if (found === null) throw refuse('not_found', 'you have no customer with this id')
  return found
}
