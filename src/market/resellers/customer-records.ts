import type { Kysely } from 'kysely'
import type { z } from 'zod'
import type { ReadDatabase } from '../../../projections/database.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { CustomerRecord } from '../customers/vault.ts'
import { customerRecord, type ResellerCustomer } from './record.ts'

/** Customers of a reseller with their credit and totals, in the order that they are given in. */
export const customerRecords = async (
  db: Kysely<ReadDatabase>,
  reseller: AccountId,
  customers: readonly CustomerRecord[],
): Promise<readonly z.infer<typeof ResellerCustomer>[]> => {
  const rows =
    customers.length === 0
      ? []
      : await db
          .selectFrom('read.customers')
          .selectAll()
          .where('account_id', '=', reseller)
          .where(
            'customer_id',
            'in',
            customers.map(({ customerId }) => customerId),
          )
          .execute()
  const known = new Map(rows.map((row) => [row.customer_id, row]))
  return customers.map((customer) => customerRecord(customer, known.get(customer.customerId)))
}
