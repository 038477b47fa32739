import { createHmac } from 'node:crypto'
import type { CustomerId } from '../../kernel/ids.ts'
import { deriveKey, type MasterKey } from '../../platform/vault/master-key.ts'
import type { CustomerIdOf } from '../../terms/own-id.ts'

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
