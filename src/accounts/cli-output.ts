import { CliMisuse, CliRefusal } from '../cli/output.ts'
import type { KeyId } from '../ids.ts'
import type { AccountState, KeyState } from './fold.ts'
import type { AccountsRefusal, AccountsResult } from './service.ts'

/** What an operator is told, with what to do. */
export const messageOf = (refusal: AccountsRefusal): string => {
  switch (refusal.code) {
    case 'unknown_account':
      return 'no account has this id; "accounts create" makes one'
    case 'account_exists':
      return 'the account exists already'
    case 'email_taken':
      return `${refusal.accountId} has this e-mail; choose another one`
    case 'invalid_email':
      return 'the e-mail must be an address such as name@example.com'
    case 'unknown_key':
      return 'no key has this id; "keys list" shows them'
    case 'key_revoked':
      return 'the key is revoked for good; "keys create" makes another one'
    case 'too_many_keys':
      return `the account has ${refusal.limit} keys that work, as many as one may have; revoke one first`
    default:
      return refusal satisfies never
  }
}

const refusalOf = (refusal: AccountsRefusal): CliRefusal => {
  const { code } = refusal
  if (code === 'email_taken')
    return new CliRefusal(code, messageOf(refusal), { accountId: refusal.accountId })
  return code === 'unknown_account' || code === 'unknown_key'
    ? new CliMisuse(messageOf(refusal), {}, 'not_found')
    : new CliRefusal(code, messageOf(refusal))
}

/** The result, or the refusal thrown as the command line's. */
export const done = <Made>(result: AccountsResult<Made>): { readonly changed: boolean } & Made => {
  if (result.outcome === 'refused') throw refusalOf(result.refusal)
  return result
}

/** A key as the command line shows it. */
export const keyRow = (keyId: KeyId, { scopes, dailyCapCents, displayPrefix, revoked }: KeyState) => ({
  keyId,
  prefix: displayPrefix,
  scopes,
  dailyCapCents,
  revoked,
})
export const keyRows = (state: NonNullable<AccountState>) =>
  [...state.keys].map(([keyId, key]) => keyRow(keyId, key))
