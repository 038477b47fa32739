import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import { growingTo } from '../../kernel/growing.ts'
import type { AccountId, CustomerId } from '../../kernel/ids.ts'
import type { MasterKey } from '../../platform/vault/master-key.ts'
import type { CustomerIdOf } from '../../terms/own-id.ts'
import { createCustomerIds } from './identity.ts'
import { keepCustomer } from './vault.ts'

/** A reseller's relations to its customers, by the reseller's own ids of them. */
export type Customers = {
  /** The id inside, whether or not the relation exists. */
  readonly idOf: CustomerIdOf
  /**
   * The id inside; the first use makes the relation. Call it once nothing refuses the request any more: a refused one
   * leaves no customer behind.
   */
  ensure(reseller: AccountId, ref: string): Promise<CustomerId>
}

const maxKept = 100_000

export const createCustomers = ({
  pool,
  master,
}: {
  readonly pool: pg.Pool
  readonly master: MasterKey
}): Customers => {
  const idOf = createCustomerIds(master)
  /** Relations that this process has seen, so that only a customer's first order here asks the vault. */
  const kept = new LRUCache<CustomerId, true>(growingTo(maxKept))
  return {
    idOf,
    ensure: async (accountId, ref) => {
      const customerId = idOf(accountId, ref)
      if (kept.has(customerId)) return customerId
      await keepCustomer(pool, { customerId, accountId, ref })
      kept.set(customerId, true)
      return customerId
    },
  }
}
