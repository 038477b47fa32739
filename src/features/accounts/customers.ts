import { createHmac } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import { z } from 'zod'
import type { CustomerIdOf } from '../../kernel/external-id.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import type { AccountId, CustomerId } from '../../kernel/ids.ts'
import { refuse } from '../../platform/http/errors.ts'
import { deriveKey, type Keys, type MasterKey } from '../../platform/vault/keys.ts'
import { createRowSigner } from '../../platform/vault/seal.ts'
import { signOldRows } from '../../platform/vault/sign-old-rows.ts'

/** A customer in the vault; `ref` is the reseller's own id, null once it was erased. */
export type CustomerRecord = {
  readonly customerId: CustomerId
  readonly accountId: AccountId
  readonly ref: string | null
  readonly label: string | null
  /** The chat in which the reseller's messaging bot reaches the customer. */
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
 * Creates the relation once, or creates it again after it was erased. (A conflict target would cover only one of the
 * two unique indexes, and the other one fails when two requests create the same relation at once.)
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

/** A customer of this reseller; null for an absent one and for one of another reseller. */
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

/** The reseller of the customer, for the operator; null for an unknown id. */
export const resellerOfCustomer = async (pool: pg.Pool, customerId: string): Promise<AccountId | null> => {
  const { rows } = await pool.query<{ account_id: AccountId }>(
    'select account_id from vault.customers where customer_id = $1::text',
    [customerId],
  )
  return rows[0]?.account_id ?? null
}

/**
 * Maps our customer ids to the reseller's own ids, without those that were erased. An empty list needs no query.
 * @param reseller null: customers of any
 */
export const customerRefs = async (
  pool: pg.Pool,
  reseller: AccountId | null,
  customerIds: Iterable<string | null>,
): Promise<ReadonlyMap<string | null, string>> => {
  const requestedIds = [...new Set(customerIds)].filter((id) => id !== null)
  if (requestedIds.length === 0) return new Map()
  const { rows } = await pool.query<{ customer_id: string; ref: string }>({
    name: 'customer-refs',
    text: `select customer_id, ref from vault.customers
            where customer_id = any ($1::text[]) and ($2::text is null or account_id = $2::text) and ref is not null`,
    values: [requestedIds, reseller],
  })
  return new Map(rows.map(({ customer_id, ref }) => [customer_id, ref]))
}

/** A page of a reseller's customers, newest first, and their total; null: of all resellers. */
export const listCustomers = async (
  pool: pg.Pool,
  reseller: AccountId | null,
  page: { readonly limit: number; readonly offset: number },
): Promise<{ readonly customers: readonly CustomerRecord[]; readonly total: number }> => {
  const [listResult, countResult] = await Promise.all([
    pool.query<Row>({
      name: 'list-customers',
      text: `select ${columns} from vault.customers where $1::text is null or account_id = $1::text
       order by created_at desc, customer_id desc limit $2::bigint offset $3::bigint`,
      values: [reseller, page.limit, page.offset],
    }),
    pool.query<{ total: number }>({
      name: 'count-customers',
      text: 'select count(*) as total from vault.customers where $1::text is null or account_id = $1::text',
      values: [reseller],
    }),
  ])
  return { customers: listResult.rows.map(recordOf), total: countResult.rows[0]?.total ?? 0 }
}

/**
 * Up to `limit` customers of a reseller after `after` (null: the newest), newest first. Empty if `after` is not a
 * customer of the reseller.
 */
export const customersAfter = async (
  pool: pg.Pool,
  reseller: AccountId,
  {
    after,
    limit,
    search,
  }: { readonly after: string | null; readonly limit: number; readonly search: string },
): Promise<readonly CustomerRecord[]> => {
  const { rows } = await pool.query<Row>({
    name: 'customers-after',
    text: `select ${columns} from vault.customers where account_id = $1::text
       and ($3::text is null or (created_at, customer_id) < (select created_at, customer_id from vault.customers where customer_id = $3::text and account_id = $1::text))
       and ($4::text = '' or strpos(lower(coalesce(ref, '') || ' ' || coalesce(label, '')), lower($4::text)) > 0 or starts_with(customer_id, $4::text))
       order by created_at desc, customer_id desc limit $2::bigint`,
    values: [reseller, limit, after, search],
  })
  return rows.map(recordOf)
}

/** The signed fields of a customer's chat. */
export type SignedChat = { readonly customerId: string; readonly accountId: string; readonly chatId: string }

/** Signs the chats of customers. */
export type ChatSigner = {
  sign(chat: SignedChat): Buffer
  isSigned(chat: SignedChat & { readonly signature: Uint8Array | null }): boolean
}

export const createChatSigner = (master: MasterKey): ChatSigner => {
  const signer = createRowSigner(master, 'customer chat v1')
  const fieldsOf = ({ customerId, accountId, chatId }: SignedChat) => [customerId, accountId, chatId]
  return {
    sign: (chat) => signer.sign(fieldsOf(chat)),
    isSigned: (chat) => signer.isSigned(fieldsOf(chat), chat.signature),
  }
}

/** The chat in which a reseller's bot reaches a customer, or null. `forged` if the row has no valid signature. */
export const findChat = async (
  pool: pg.Pool,
  signer: ChatSigner,
  reseller: AccountId,
  customerId: string,
): Promise<{ readonly chatId: string | null } | 'forged'> => {
  const { rows } = await pool.query<{ chat_id: string | null; chat_signature: Buffer | null }>({
    name: 'find-chat',
    text: 'select chat_id, chat_signature from vault.customers where customer_id = $1::text and account_id = $2::text',
    values: [customerId, reseller],
  })
  const { chat_id: chatId = null, chat_signature: signature = null } = rows[0] ?? {}
  if (chatId === null) return { chatId }
  return signer.isSigned({ customerId, accountId: reseller, chatId, signature }) ? { chatId } : 'forged'
}

/** Signs the chats that an older release stored without a signature. */
export const adoptChats = async (pool: pg.Pool, keys: Pick<Keys, 'master'>): Promise<void> => {
  const { sign } = createChatSigner(keys.master)
  await signOldRows<SignedChat>(
    pool,
    `select customer_id as "customerId", account_id as "accountId", chat_id as "chatId" from vault.customers
      where chat_id is not null and chat_signature is null and customer_id > $1::text order by customer_id`,
    ({ customerId }) => customerId,
    (rows) =>
      pool.query(
        `update vault.customers c set chat_signature = s.signature
           from unnest($1::text[], $2::text[], $3::bytea[]) as s (customer_id, chat_id, signature)
          where c.customer_id = s.customer_id and c.chat_id = s.chat_id`,
        [rows.map(({ customerId }) => customerId), rows.map(({ chatId }) => chatId), rows.map(sign)],
      ),
  )
}

/**
 * Changes the given fields; null clears one. Returns the changed customer; null if this reseller has none of that id.
 */
export const changeCustomer = async (
  pool: pg.Pool,
  signer: ChatSigner,
  reseller: AccountId,
  customerId: string,
  change: { readonly label?: string | null; readonly chatId?: string | null },
): Promise<CustomerRecord | null> => {
  const { chatId = null } = change
  const { rows } = await pool.query<Row>(
    `update vault.customers
        set label = case when $3::boolean then $4::text else label end,
            chat_id = case when $5::boolean then $6::text else chat_id end,
            chat_signature = case when $5::boolean then $7::bytea else chat_signature end
      where customer_id = $1::text and account_id = $2::text
      returning ${columns}`,
    [
      customerId,
      reseller,
      change.label !== undefined,
      change.label ?? null,
      change.chatId !== undefined,
      chatId,
      chatId === null ? null : signer.sign({ customerId, accountId: reseller, chatId }),
    ],
  )
  return rows[0] ? recordOf(rows[0]) : null
}

/**
 * Derives customer ids with a keyed hash (HMAC-SHA256, RFC 2104, cut to 128 bits) instead of `deriveId`. A reseller's
 * own id may be a telephone number, and the log stores `cus_…` permanently. Without the master key it is not possible to find the
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
export const customerIdField = z.string().nullable().meta({
  description:
    "The service's id of the reseller's customer that owns the resource. Null: the account owns it.",
})
export const customerField = z.string().nullable().meta({
  description:
    "The reseller's own id of the customer in `customerId`. Null: without a customer, or after the id was erased.",
})

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
