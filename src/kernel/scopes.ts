import type { AccountId, CustomerId } from './ids.ts'

/** The owner of the objects that a request can read and change. */
export type AccountScope = {
  readonly accountId: AccountId
  /**
   * Only objects of this customer of the account. Null: all objects of the account, including those of its customers.
   */
  readonly customerId: CustomerId | null
}

/** All objects of an account. */
export const wholeAccount = (accountId: AccountId): AccountScope => ({ accountId, customerId: null })

/** The objects of all accounts, for operators. */
export const allAccounts = { accountId: null, customerId: null } as const

/** The owners of the objects that an operator lists. */
export type ListScope = AccountScope | typeof allAccounts

/**
 * Permissions of an API key: `buy` orders and reads purchases, `scrape` runs scrapers, `read` reads what both read and
 * changes nothing. `buy` and `scrape` do not include each other.
 */
export const scopes = ['buy', 'scrape', 'read'] as const
export type KeyScope = (typeof scopes)[number]

/** What a key's daily cap limits: the cost of its `orders`, or of its orders and scraper calls, `everything`. */
export const capCoverages = ['orders', 'everything'] as const
export type CapCovers = (typeof capCoverages)[number]

/** The limit of what a key spends in any 24 hours, whole cents. */
export type KeyCap = { readonly cents: number; readonly covers: CapCovers }
