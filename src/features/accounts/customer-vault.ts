import type pg from 'pg'
import type { AccountId, CustomerId } from '../../kernel/ids.ts'

/** What the vault knows of a customer; `ref` is the reseller's own id, null once it was erased. */
export type CustomerRecord = {
  readonly customerId: CustomerId
  readonly accountId: AccountId
  readonly ref: string | null
  readonly label: string | null
  /** Where the reseller's messaging bot reaches the customer. */
  readonly chatId: string | null
  /** ISO 8601 UTC. */
  readonly createdAt: string
}

type Row = {
  readonly customer_id: CustomerId
  readonly account_id: AccountId
  readonly ref: string | null
  readonly label: string | null
  readonly chat_id: string | null
  readonly created_at: string
}

const columns = 'customer_id, account_id, ref, label, chat_id, created_at'

const recordOf = (row: Row): CustomerRecord => ({
  customerId: row.customer_id,
  accountId: row.account_id,
  ref: row.ref,
  label: row.label,
  chatId: row.chat_id,
  createdAt: row.created_at,
})

/**
 * Makes the relation, once; one that was erased is there again. (A conflict target would guard one of the two unique
 * indexes only, and the other one fails when two requests make the same relation at once.)
 */
export const storeCustomer = async (
  pool: pg.Pool,
  customer: { readonly customerId: CustomerId; readonly accountId: AccountId; readonly ref: string },
): Promise<void> => {
  await pool.query({
    name: 'keep-customer',
    text: `with made as (
             insert into vault.customers (customer_id, account_id, ref) values ($1::text, $2::text, $3::text)
             on conflict do nothing)
           update vault.customers set ref = $3::text where customer_id = $1::text and ref is null`,
    values: [customer.customerId, customer.accountId, customer.ref],
  })
}

/** A customer of this reseller, or null: absent and foreign read alike. */
export const findCustomer = async (
  pool: pg.Pool,
  reseller: AccountId,
  customerId: string,
): Promise<CustomerRecord | null> => {
  const { rows } = await pool.query<Row>({
    name: 'find-customer',
    text: `select ${columns} from vault.customers where customer_id = $1::text and account_id = $2::text`,
    values: [customerId, reseller],
  })
  return rows[0] ? recordOf(rows[0]) : null
}

/** The reseller whose customer it is, for the operator; null for an unknown id. */
export const resellerOfCustomer = async (pool: pg.Pool, customerId: string): Promise<AccountId | null> => {
  const { rows } = await pool.query<{ account_id: AccountId }>(
    'select account_id from vault.customers where customer_id = $1::text',
    [customerId],
  )
  return rows[0]?.account_id ?? null
}

/** The reseller's own ids of customers by ours; those that were erased are left out. No query for none. */
export const customerRefs = async (
  pool: pg.Pool,
  reseller: AccountId,
  customerIds: Iterable<string | null>,
): Promise<ReadonlyMap<string | null, string>> => {
  const asked = [...new Set(customerIds)].filter((id) => id !== null)
  if (asked.length === 0) return new Map()
  const { rows } = await pool.query<{ customer_id: string; ref: string }>({
    name: 'customer-refs',
    text: `select customer_id, ref from vault.customers
            where customer_id = any ($1::text[]) and account_id = $2::text and ref is not null`,
    values: [asked, reseller],
  })
  return new Map(rows.map(({ customer_id, ref }) => [customer_id, ref]))
}

/** A page of a reseller's customers, newest first, and how many there are in all. */
export const listCustomers = async (
  pool: pg.Pool,
  reseller: AccountId,
  page: { readonly limit: number; readonly offset: number },
): Promise<{ readonly customers: readonly CustomerRecord[]; readonly total: number }> => {
  const [found, counted] = await Promise.all([
    pool.query<Row>({
      name: 'list-customers',
      text: `select ${columns} from vault.customers where account_id = $1::text
       order by created_at desc, customer_id desc limit $2::bigint offset $3::bigint`,
      values: [reseller, page.limit, page.offset],
    }),
    pool.query<{ total: number }>({
      name: 'count-customers',
      text: 'select count(*) as total from vault.customers where account_id = $1::text',
      values: [reseller],
    }),
  ])
  return { customers: found.rows.map(recordOf), total: counted.rows[0]?.total ?? 0 }
}

/**
 * Up to `limit` customers of a reseller, newest first, that come after one; null: from the newest on. None after a customer
 * that the reseller does not have.
 */
export const customersAfter = async (
  pool: pg.Pool,
  reseller: AccountId,
  { after, limit }: { readonly after: string | null; readonly limit: number },
): Promise<readonly CustomerRecord[]> => {
  const { rows } = await pool.query<Row>({
    name: after === null ? 'newest-customers' : 'customers-after',
    text: `select ${columns} from vault.customers where account_id = $1::text
       ${after === null ? '' : 'and (created_at, customer_id) < (select created_at, customer_id from vault.customers where customer_id = $3::text and account_id = $1::text)'}
       order by created_at desc, customer_id desc limit $2::bigint`,
    values: [reseller, limit, ...(after === null ? [] : [after])],
  })
  return rows.map(recordOf)
}

/** Changes what is given; null takes it away. The customer as it is then, or null when this reseller has none. */
export const changeCustomer = async (
  pool: pg.Pool,
  reseller: AccountId,
  customerId: string,
  change: { readonly label?: string | null; readonly chatId?: string | null },
): Promise<CustomerRecord | null> => {
  const { rows } = await pool.query<Row>(
    `update vault.customers
        set label = case when $3::boolean then $4::text else label end,
            chat_id = case when $5::boolean then $6::text else chat_id end
      where customer_id = $1::text and account_id = $2::text
      returning ${columns}`,
    [
      customerId,
      reseller,
      change.label !== undefined,
      change.label ?? null,
      change.chatId !== undefined,
      change.chatId ?? null,
    ],
  )
  return rows[0] ? recordOf(rows[0]) : null
}
