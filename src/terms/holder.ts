import type { AccountId, CustomerId } from '../kernel/ids.ts'

/** Whose things a request sees and changes. */
export type Scope = {
  readonly accountId: AccountId
  /** Only what is held for this customer of the account; null: whatever the account has, its customers' things too. */
  readonly customerId: CustomerId | null
}

/** All that an account has. */
export const wholeAccount = (accountId: AccountId): Scope => ({ accountId, customerId: null })
