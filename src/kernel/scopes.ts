import type { AccountId, CustomerId } from './ids.ts'

/** Whose things a request sees and changes. */
export type AccountScope = {
  readonly accountId: AccountId
  /** Only what is held for this customer of the account; null: whatever the account has, its customers' things too. */
  readonly customerId: CustomerId | null
}

/** All that an account has. */
export const wholeAccount = (accountId: AccountId): AccountScope => ({ accountId, customerId: null })

/** All accounts, for operators. */
export const allAccounts = { accountId: null, customerId: null } as const

/** Whose things an operator lists. */
export type ListScope = AccountScope | typeof allAccounts

/** What an API key may do: `buy` orders and reads what was bought, `scrape` runs scrapers. Neither includes the other. */
export const scopes = ['buy', 'scrape'] as const
export type KeyScope = (typeof scopes)[number]
