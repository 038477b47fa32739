import { createHmac } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import { z } from 'zod'
import type { CustomerIdOf } from '../../kernel/external-id.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import type { AccountId, CustomerId } from '../../kernel/ids.ts'
import { refuse } from '../../platform/http/errors.ts'
import { deriveKey, type MasterKey } from '../../platform/vault/keys.ts'
import { storeCustomer } from './customer-vault.ts'

/**
 * A keyed hash (HMAC-SHA256, RFC 2104, cut to 128 bits), not `deriveId`: a reseller's own id may be a telephone number,
 * and the log keeps `cus_…` for ever. Without the master key nobody finds out by trying which person it was.
 */
export const createCustomerIds = (master: MasterKey): CustomerIdOf => {
  const key = deriveKey(master, 'customer id v1')
  return (reseller, ref) =>
    `cus_${createHmac('sha256', key)
      .update(JSON.stringify([reseller, ref]))
      .digest('hex')
      .slice(0, 32)}` as CustomerId
}

/** Whom a thing is for, the same on everything that a reseller reads: our id of the customer, and the reseller's own. */
export const customerIdField = z
  .string()
  .nullable()
  .meta({ description: "The reseller's customer that it is for, by our id; null: the account itself." })
export const customerField = z
  .string()
  .nullable()
  .meta({ description: "The same customer by the reseller's own id; null once that was erased." })

/**
 * That a request which charges names whom a plan or a rental is held for: what a customer holds is paid by that
 * customer, never by mistake by the reseller. What was found within the scope of a request that names a customer is that
 * customer's.
 * @param holder Whom it is held for; null: the account itself
 * @param named The customer of the request; null: none
 * @param what What is held, as the refusal tells it
 * @throws ApiError invalid_customer_id (a customer's, and none is named)
 */
export const requireHolderNamed = (holder: string | null, named: string | null, what: string): void => {
  if (holder === named) return
  if (named !== null) throw new Error(`${what} was found for a customer who does not hold it`)
  throw refuse(
    'invalid_customer_id',
    `${what} is held for a customer: name the customer with X-Reseller-Customer-Id, whose credit pays`,
  )
}

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
  const kept = new LRUCache<CustomerId, true>(growingCacheOptions(maxKept))
  return {
    idOf,
    ensure: async (accountId, ref) => {
      const customerId = idOf(accountId, ref)
      if (kept.has(customerId)) return customerId
      await storeCustomer(pool, { customerId, accountId, ref })
      kept.set(customerId, true)
      return customerId
    },
  }
}
