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
 * Derives customer ids with a keyed hash (HMAC-SHA256, RFC 2104, cut to 128 bits) instead of `deriveId`. A reseller's
 * own id may be a telephone number, and the log stores `cus_…` permanently. Without the master key nobody can find the
 * person by brute force.
 */
export const createCustomerIds = (master: MasterKey): CustomerIdOf => {
  const key = deriveKey(master, 'customer id v1')
  return (reseller, ref) =>
    `cus_${createHmac('sha256', key)
      .update(JSON.stringify([reseller, ref]))
      .digest('hex')
      .slice(0, 32)}` as CustomerId
}

/** The customer of a resource, in every answer to a reseller: our id, and the reseller's own id. */
export const customerIdField = z
  .string()
  .nullable()
  .meta({ description: "The reseller's customer that it is for, by our id; null: the account itself." })
export const customerField = z
  .string()
  .nullable()
  .meta({ description: "The same customer by the reseller's own id; null once that was erased." })

/**
 * Checks that a charging request names the customer of a plan or a rental, so that a customer's resource is paid by
 * that customer and never by mistake by the reseller. A resource that was found within the scope of a request that
 * names a customer belongs to that customer.
 * @param holder the customer to whom it belongs; null: the account itself
 * @param requestCustomer the customer of the request; null: none
 * @param resourceText the resource, for the message of the refusal
 * @throws ApiError invalid_customer_id (it belongs to a customer, and the request names none)
 */
export const requireHolderNamed = (
  holder: string | null,
  requestCustomer: string | null,
  resourceText: string,
): void => {
  if (holder === requestCustomer) return
  if (requestCustomer !== null)
    throw new Error(`${resourceText} was found for a customer who does not hold it`)
  throw refuse(
    'invalid_customer_id',
    `${resourceText} is held for a customer: name the customer with X-Reseller-Customer-Id, whose credit pays`,
  )
}

/** A reseller's relations to its customers, by the reseller's own ids. */
export type Customers = {
  /** Our id, whether or not the relation exists. */
  readonly idOf: CustomerIdOf
  /**
   * Returns our id and creates the relation if it does not exist. Call it after all checks, so that a refused request
   * leaves no customer.
   */
  ensure(reseller: AccountId, ref: string): Promise<CustomerId>
}

const maxCached = 100_000

export const createCustomers = ({
  pool,
  master,
}: {
  readonly pool: pg.Pool
  readonly master: MasterKey
}): Customers => {
  const idOf = createCustomerIds(master)
  // Relations that this process has seen, so that only a customer's first order here needs a query.
  const knownCustomers = new LRUCache<CustomerId, true>(growingCacheOptions(maxCached))
  return {
    idOf,
    ensure: async (accountId, ref) => {
      const customerId = idOf(accountId, ref)
      if (knownCustomers.has(customerId)) return customerId
      await storeCustomer(pool, { customerId, accountId, ref })
      knownCustomers.set(customerId, true)
      return customerId
    },
  }
}
