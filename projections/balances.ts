import type { Kysely } from 'kysely'
import type { HeldFor, LedgerEvent } from '../src/domain/ledger/events.ts'
import { movementOf } from '../src/domain/ledger/movements.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { type AccountId, compactUuid } from '../src/kernel/ids.ts'
import type { AccountScope as Scope } from '../src/kernel/scopes.ts'
import { ownerOf } from '../src/kernel/streams.ts'
import { createBatchLoader } from '../src/platform/postgres/batch-loader.ts'
import { countedPage, sql } from '../src/platform/postgres/kysely.ts'
import type { ReadModel, Rows, Table } from '../src/platform/projections/read-model.ts'

/** The read tables that the queries of this file name. */
type QueriedTables = {
  'read.balances': BalanceRow
  'read.transactions': TransactionRow
}

export type BalanceQueries = Kysely<QueriedTables>

/** What an account can spend, micro-dollars; 0 before its first money. Readers at once share one statement. */
export const createAvailableMicros = (db: BalanceQueries): ((account: AccountId) => Promise<number>) => {
  const find = createBatchLoader<AccountId, number>(async (accounts) => {
    const rows = await db
      .selectFrom('read.balances')
      .select(['account_id', 'available_micros'])
      .where('account_id', '=', sql<string>`any (${accounts}::text[])`)
      .execute()
    return new Map(rows.map((row) => [row.account_id as AccountId, row.available_micros]))
  })
  return async (account) => (await find(account)) ?? 0
}

const transactionsOf = (db: BalanceQueries, { accountId, customerId }: Scope) => {
  const ofAccount = db.selectFrom('read.transactions').where('account_id', '=', accountId)
  return customerId === null ? ofAccount : ofAccount.where('customer_id', '=', customerId)
}

/** Of all of an account's transactions it is known; a customer has few. */
const countTransactions = (db: BalanceQueries, scope: Scope) =>
  scope.customerId === null
    ? db.selectFrom('read.balances').select('transactions as total').where('account_id', '=', scope.accountId)
    : transactionsOf(db, scope).select((is) => is.fn.countAll<number>().as('total'))

/** Movements that are summed at the most: an account with more in the time is told so. */
const summedAtMost = 20_000

/**
 * What an account spent on each day (UTC) since a time: orders, and holds less what was released; refunds are not taken
 * off. `whole` is false when there were too many movements to sum them all.
 */
export const spentByDay = async (
  db: BalanceQueries,
  account: AccountId,
  since: string,
): Promise<{ readonly days: ReadonlyMap<string, number>; readonly whole: boolean }> => {
  const { rows } = await sql<{ day: string; micros: number; looked: number; left: number }>`
    with newest as (
      select created_at, type, amount_micros from read.transactions
       where account_id = ${account} order by position desc limit ${sql.lit(summedAtMost)})
    select to_char(created_at at time zone 'UTC', 'YYYY-MM-DD') as day,
           coalesce(sum(-amount_micros) filter (where type in ('order', 'hold', 'release')), 0)::bigint as micros,
           (select count(*) from newest)::bigint as looked,
           (select count(*) from newest where created_at < ${since}::timestamptz)::bigint as left
      from newest where created_at >= ${since}::timestamptz group by 1 order by 1`.execute(db)
  const [first] = rows
  return {
    days: new Map(rows.map(({ day, micros }) => [day, micros])),
    // Where one from before the time was looked at, all since then were.
    whole: first === undefined || first.looked < summedAtMost || first.left > 0,
  }
}

/**
 * Up to `limit` transactions within the scope, newest first, before a position; null: from the newest on. However many
 * there are, it reads as many rows as it gives.
 */
export const transactionsBefore = (
  db: BalanceQueries,
  scope: Scope,
  page: { readonly before: number | null; readonly limit: number },
): Promise<readonly TransactionRow[]> => {
  const rows = transactionsOf(db, scope).selectAll().orderBy('position', 'desc').limit(page.limit)
  return (page.before === null ? rows : rows.where('position', '<', page.before)).execute()
}

/** A page of the transactions within the scope, newest first, and how many there are in all. */
export const listTransactions = async (
  db: BalanceQueries,
  scope: Scope,
  page: { readonly limit: number; readonly offset: number },
): Promise<{ readonly transactions: readonly TransactionRow[]; readonly total: number }> => {
  const { rows, total } = await countedPage(
    transactionsOf(db, scope).selectAll().orderBy('position', 'desc'),
    countTransactions(db, scope),
    page,
  )
  return { transactions: rows, total }
}

/** `GET /wallet`: one row an account, from its first money event on. Micro-dollars. */
export type BalanceRow = {
  account_id: string
  /** What can be spent: the wallet less open holds. */
  available_micros: number
  held_micros: number
  /** What a chargeback left owing; the next credits pay it first. */
  receivable_micros: number
  /** The revision of the ledger's last event that is folded in. */
  revision: number
  /** How many rows the account has in `transactions`: the `total` of its list. */
  transactions: number
}

export type TransactionType =
  | 'deposit'
  | 'credit'
  | 'refund'
  | 'correction'
  | 'goodwill'
  | 'chargeback'
  | 'order'
  | 'hold'
  | 'capture'
  | 'release'

/** `GET /wallet/transactions`. Newest first is `position desc`. */
export type TransactionRow = {
  transaction_id: string
  account_id: string
  position: number
  type: TransactionType
  /**
   * How the available balance moved, signed: each `balance_after_micros` is the former one plus this. A credit that
   * paid a debt moved it by less than was paid in; a capture does not move it, the hold did.
   */
  amount_micros: number
  balance_after_micros: number
  /** The reseller's customer whose order moved it; null for what the account did for itself. */
  customer_id: string | null
  order_id: string | null
  deposit_id: string | null
  /** What a hold, a capture or a release is for, e.g. `tiktok/profile`. */
  scraper: string | null
  reference: string | null
  created_at: string
}

const balancesTable: Table<BalanceRow> = {
  name: 'balances',
  columns: {
    account_id: { type: 'text' },
    available_micros: { type: 'bigint' },
    held_micros: { type: 'bigint' },
    receivable_micros: { type: 'bigint' },
    revision: { type: 'bigint' },
    transactions: { type: 'bigint' },
  },
  key: ['account_id'],
  indexes: [],
  rewritten: true,
}

const transactionsTable: Table<TransactionRow> = {
  name: 'transactions',
  columns: {
    transaction_id: { type: 'text' },
    account_id: { type: 'text' },
    position: { type: 'bigint' },
    type: { type: 'text' },
    amount_micros: { type: 'bigint' },
    balance_after_micros: { type: 'bigint' },
    customer_id: { type: 'text', nullable: true },
    order_id: { type: 'text', nullable: true },
    deposit_id: { type: 'text', nullable: true },
    scraper: { type: 'text', nullable: true },
    reference: { type: 'text', nullable: true },
    created_at: { type: 'timestamptz' },
  },
  // The list's own order, so that one index does.
  key: ['account_id', 'position'],
  // What one customer of a reseller moved; what an account moved for itself is not in it.
  indexes: ['account_id, customer_id, position where customer_id is not null'],
  appendOnly: true,
}

type Described = Pick<
  TransactionRow,
  'type' | 'customer_id' | 'order_id' | 'deposit_id' | 'scraper' | 'reference'
>

/** A hold by what it is for; a call is known to its client by its request id. */
const ofHold = ({
  platform,
  operation,
  requestId,
  holdId,
}: HeldFor & { readonly holdId: string }): Pick<Described, 'scraper' | 'reference'> => ({
  scraper: operation === undefined ? platform : `${platform}/${operation}`,
  reference: requestId ?? holdId,
})

/** Null: the event moves a customer's credit, not the wallet. */
const describe = (event: RecordedEvent<LedgerEvent>): Described | null => {
  const none = { customer_id: null, order_id: null, deposit_id: null, scraper: null, reference: null }
  switch (event.type) {
    case 'WalletCredited': {
      const { source, orderId, depositId, reference } = event.data
      const type = source === 'manual' ? 'credit' : source
      return { ...none, type, order_id: orderId, deposit_id: depositId, reference }
    }
    case 'WalletAdjusted': {
      const { reason, depositId = null, reference } = event.data
      return { ...none, type: reason, deposit_id: depositId, reference }
    }
    case 'WalletDebited':
      return { ...none, type: 'order', order_id: event.data.order.orderId }
    case 'FundsHeld':
      return { ...none, type: 'hold', ...ofHold(event.data) }
    case 'HoldCaptured':
      return { ...none, type: 'capture', ...ofHold(event.data) }
    case 'HoldReleased':
      return { ...none, type: 'release', ...ofHold(event.data) }
    case 'CustomerCharged': {
      const { customerId, order } = event.data
      return { ...none, type: 'order', customer_id: customerId, order_id: order.orderId }
    }
    case 'CustomerRefunded': {
      const { customerId, orderId, reference } = event.data
      return { ...none, type: 'refund', customer_id: customerId, order_id: orderId, reference }
    }
    case 'CustomerCredited':
    case 'CustomerAdjusted':
      return null
    default: {
      const unknown: never = event
      throw new Error(`unknown ledger event ${JSON.stringify(unknown)}`)
    }
  }
}

const moneyEvents: ReadonlySet<string> = new Set<LedgerEvent['type']>([
  'WalletCredited',
  'WalletAdjusted',
  'WalletDebited',
  'FundsHeld',
  'HoldCaptured',
  'HoldReleased',
  'CustomerCredited',
  'CustomerCharged',
  'CustomerRefunded',
  'CustomerAdjusted',
])

const isMoney = (event: RecordedEvent): event is RecordedEvent<LedgerEvent> => moneyEvents.has(event.type)

const foldMoney = (event: RecordedEvent<LedgerEvent>, rows: Rows): void => {
  const accountId = ownerOf(event.stream)
  const before = rows.get(balancesTable, [accountId])
  const movement = movementOf(event)
  const { availableAfterMicros } = event.data
  const described = describe(event)
  rows.put(balancesTable, {
    account_id: accountId,
    available_micros: availableAfterMicros,
    held_micros: (before?.held_micros ?? 0) + movement.heldMicros,
    receivable_micros: (before?.receivable_micros ?? 0) + movement.receivableMicros,
    revision: event.revision,
    transactions: (before?.transactions ?? 0) + (described === null ? 0 : 1),
  })
  if (described === null) return
  rows.add(transactionsTable, {
    ...described,
    transaction_id: `txn_${compactUuid(event.id)}`,
    account_id: accountId,
    position: event.position,
    amount_micros: movement.availableMicros,
    balance_after_micros: availableAfterMicros,
    created_at: event.metadata.recordedAt,
  })
}

/** What every account owns, and how it came to it. */
export const balances: ReadModel = {
  name: 'balances',
  version: 7,
  tables: [balancesTable, transactionsTable],
  reads: (event) => {
    if (!isMoney(event)) return []
    return [{ table: balancesTable.name, key: [ownerOf(event.stream)] }]
  },
  apply: (event, rows) => {
    if (isMoney(event)) foldMoney(event, rows)
  },
}
