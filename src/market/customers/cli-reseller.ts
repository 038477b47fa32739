import type { AccountId } from '../../kernel/ids.ts'
import type { CliContext } from '../../platform/cli/cli.ts'
import { CliMisuse } from '../../platform/cli/output.ts'
import { createAccounts } from '../accounts/service.ts'

/** The account, which must be a reseller: no other has customers. @throws CliMisuse */
export const resellerOf = async (context: CliContext, accountId: AccountId): Promise<AccountId> => {
  const account = await createAccounts(context).read(accountId, context)
  if (!account)
    throw new CliMisuse(`no account has the id ${accountId}; "accounts create" makes one`, {}, 'not_found')
  if (!account.reseller) throw new CliMisuse(`${accountId} is not a reseller, so it has no customers`)
  return accountId
}
