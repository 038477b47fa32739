import type { HeldFor, LedgerEvent } from '../src/domain/ledger/events.ts'
import { emptyPurse, movementOf, type Purse, transactionIdOf } from '../src/domain/ledger/movements.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { AccountId } from '../src/kernel/ids.ts'
import type { AccountScope as Scope } from '../src/kernel/scopes.ts'
import { ownerOf } from '../src/kernel/streams.ts'
import { createBatchLoader } from '../src/platform/postgres/batch-loader.ts'
import { beginsWith, contains, countedPage, type Db, sql } from '../src/platform/postgres/kysely.ts'
import {
  column,
  nullable,
  type RowOf,
  type Rows,
  readModel,
  readTable,
} from '../src/platform/projections/read-model.ts'

/** The wallet of an account, micro-dollars; empty before its first money event. Concurrent readers share a query. */
export const createReadPurse = (db: Db): ((account: AccountId) => Promise<Purse>) => {
  const find = createBatchLoader<AccountId, Purse>(async (accounts) => {
    const rows = await db
      .selectFrom('read.balances')
      .select(['accountId', 'availableMicros', 'receivableMicros'])
      .where('accountId', '=', sql<string>`any (${accounts}::text[])`)
      .execute()
    return new Map(rows.map((row) => [row.accountId as AccountId, row]))
  })
  return async (account) => (await find(account)) ?? emptyPurse
}

const transactionsOf = (db: Db, { accountId, customerId }: Scope) => {
  const ofAccount = db.selectFrom('read.transactions').where('accountId', '=', accountId)
  return customerId === null ? ofAccount : ofAccount.where('customerId', '=', customerId)
}

/** For all transactions of an account the number is stored. Those of one customer are few and are counted. */
const countTransactions = (db: Db, scope: Scope) =>
  scope.customerId === null
    ? db.selectFrom('read.balances').select('transactions as total').where('accountId', '=', scope.accountId)
    : transactionsOf(db, scope).select((eb) => eb.fn.countAll<number>().as('total'))

/** The most movements in the sum. `whole` is false for an account with more movements in the time. */
const maxSummedRows = 20_000

export type SpentByDay = {
  /** Micro-dollars by day, e.g. 2026-11-21. */
  readonly days: ReadonlyMap<string, number>
  readonly whole: boolean
}

/**
 * The spending of an account on each day (UTC) since a time: orders, and holds for calls minus releases. Refunds are not
 * deducted. `whole` is false if there were too many movements to sum them all.
 */
export const spentByDay = async (db: Db, account: AccountId, since: string): Promise<SpentByDay> => {
  const { rows } = await sql<{ day: string; micros: number; looked: number; left: number }>`
    with newest as (
      select created_at, type, amount_micros, deposit_id from read.transactions
       where account_id = ${account} order by position desc limit ${sql.lit(maxSummedRows)})
    select to_char(created_at at time zone 'UTC', 'YYYY-MM-DD') as day,
           coalesce(sum(-amount_micros) filter (where type in ('order', 'hold', 'release')
             and deposit_id is null), 0)::bigint as micros,
           (select count(*) from newest)::bigint as looked,
           (select count(*) from newest where created_at < ${since}::timestamptz)::bigint as left
      from newest where created_at >= ${since}::timestamptz group by 1 order by 1`.execute(db)
  const [first] = rows
  return {
    days: new Map(rows.map(({ day, micros }) => [day, micros])),
    // If a movement from before the time was read, all movements since then were read.
    whole: first === undefined || first.looked < maxSummedRows || first.left > 0,
  }
}

/** Up to `limit` transactions within the scope after a position (null: from the start), ordered by position. */
export const transactionsAfter = (
  db: Db,
  scope: Scope,
  page: {
    readonly after: number | null
    readonly limit: number
    readonly type?: TransactionType | undefined
    /** The beginning of the id of an order or a deposit, or a part of a reference. */
    readonly search?: string
    readonly from?: string | null
    readonly until?: string | null
    readonly oldestFirst?: boolean
  },
): Promise<readonly TransactionRow[]> => {
  const { after, type, search, from, until, oldestFirst = false } = page
  let rows = transactionsOf(db, scope)
  if (after !== null) rows = rows.where('position', oldestFirst ? '>' : '<', after)
  if (type !== undefined) rows = rows.where('type', '=', type)
  if (from) rows = rows.where('createdAt', '>=', from)
  if (until) rows = rows.where('createdAt', '<', until)
  if (search)
    rows = rows.where((eb) =>
      eb.or([beginsWith('orderId', search), beginsWith('depositId', search), contains('reference', search)]),
    )
  return rows
    .selectAll()
    .orderBy('position', oldestFirst ? 'asc' : 'desc')
    .limit(page.limit)
    .execute()
}

/** A page of the transactions within the scope, newest first, and their total number. */
export const listTransactions = async (
  db: Db,
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

export type TransactionType =
  | 'deposit'
  | 'credit'
  | 'refund'
  | 'correction'
  | 'goodwill'
  | 'bad_debt'
  | 'chargeback'
  | 'deposit_refund'
  | 'order'
  | 'hold'
  | 'release'

/** `GET /wallet`: one row per account, from its first money event. Micro-dollars. */
const balancesTable = readTable({
  name: 'balances',
  columns: {
    accountId: column.text(),
    /** The available balance: the wallet minus open holds. */
    availableMicros: column.bigint(),
    heldMicros: column.bigint(),
    /** The debt after a chargeback or a refund at the provider. The next credits pay it first. */
    receivableMicros: column.bigint(),
    /** The revision of the last folded event of the ledger. */
    revision: column.bigint(),
    /** The number of rows of the account in `transactions`: the `total` of its list. */
    transactions: column.bigint(),
  },
  key: ['accountId'],
  rewritten: true,
})

/** `GET /wallet/transactions`. Newest first is `position desc`. */
const transactionsTable = readTable({
  name: 'transactions',
  columns: {
    transactionId: column.text(),
    accountId: column.text(),
    position: column.bigint(),
    type: column.text<TransactionType>(),
    /** The signed amount. A part of it may change the debt: the change of the balance is the sum of both changes. */
    amountMicros: column.bigint(),
    /** Positive: the part of the amount that became a debt. Negative: the part that paid a debt. */
    owedChangeMicros: column.bigint(),
    balanceAfterMicros: column.bigint(),
    owedAfterMicros: column.bigint(),
    /** The reseller's customer of the order; null for a transaction of the account itself. */
    customerId: nullable(column.text()),
    orderId: nullable(column.text()),
    depositId: nullable(column.text()),
    /** The call of a hold or a release, e.g. `tiktok/profile`. A hold for a refund names its deposit. */
    scraper: nullable(column.text()),
    reference: nullable(column.text()),
    createdAt: column.timestamptz(),
  },
  // The order of the list, so that one index is enough.
  key: ['accountId', 'position'],
  // The transactions of one customer of a reseller. Transactions of the account itself are not in this index.
  indexes: ['account_id, customer_id, position where customer_id is not null'],
  appendOnly: true,
})

export type TransactionRow = RowOf<typeof transactionsTable>

type TransactionFields = Pick<
  TransactionRow,
  'type' | 'customerId' | 'orderId' | 'depositId' | 'scraper' | 'reference'
>

/** A hold with its purpose. For a client, the request id identifies a call. */
const holdFields = ({
  platform,
  operation,
  requestId,
  depositId,
  holdId,
}: HeldFor & { readonly holdId: string }): Pick<
  TransactionFields,
  'scraper' | 'depositId' | 'reference'
> => ({
  scraper: platform === undefined ? null : operation === undefined ? platform : `${platform}/${operation}`,
  depositId: depositId ?? null,
  reference: requestId ?? holdId,
})

/** Null: the event changes a customer's credit, or a hold whose amount left the balance before. */
const describe = (event: RecordedEvent<LedgerEvent>): TransactionFields | null => {
  const noReferences = { customerId: null, orderId: null, depositId: null, scraper: null, reference: null }
  switch (event.type) {
    case 'WalletCredited': {
      const { source, orderId, depositId, reference } = event.data
      const type = source === 'manual' ? 'credit' : source
      return { ...noReferences, type, orderId, depositId, reference }
    }
    case 'WalletAdjusted': {
      const { reason, depositId = null, reference } = event.data
      return { ...noReferences, type: reason, depositId, reference }
    }
    case 'WalletDebited':
      return { ...noReferences, type: 'order', orderId: event.data.order.orderId }
    case 'FundsHeld':
      return { ...noReferences, type: 'hold', ...holdFields(event.data) }
    case 'HoldReleased':
      return { ...noReferences, type: 'release', ...holdFields(event.data) }
    case 'CustomerCharged': {
      const { customerId, order } = event.data
      return { ...noReferences, type: 'order', customerId, orderId: order.orderId }
    }
    case 'CustomerRefunded': {
      const { customerId, orderId, reference } = event.data
      return { ...noReferences, type: 'refund', customerId, orderId, reference }
    }
    case 'HoldCaptured':
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
  const owedChangeMicros = movement.receivableMicros
  const owedAfterMicros = (before?.receivableMicros ?? 0) + owedChangeMicros
  const amountMicros = movement.availableMicros - owedChangeMicros
  // An order that costs a reseller nothing is no transaction of its wallet.
  const fields = amountMicros === 0 ? null : describe(event)
  rows.put(balancesTable, {
    accountId,
    availableMicros: availableAfterMicros,
    heldMicros: (before?.heldMicros ?? 0) + movement.heldMicros,
    receivableMicros: owedAfterMicros,
    revision: event.revision,
    transactions: (before?.transactions ?? 0) + (fields === null ? 0 : 1),
  })
  if (fields === null) return
  rows.add(transactionsTable, {
    ...fields,
    transactionId: transactionIdOf(event.id),
    accountId,
    position: event.position,
    amountMicros,
    owedChangeMicros,
    balanceAfterMicros: availableAfterMicros,
    owedAfterMicros,
    createdAt: event.metadata.recordedAt,
  })
}

/** The balance of every account, and its transactions. */
export const balances = readModel({
  name: 'balances',
  version: 9,
  tables: [balancesTable, transactionsTable],
  reads: (event) => {
    if (!isMoney(event)) return []
    return [{ table: balancesTable.name, key: [ownerOf(event.stream)] }]
  },
  apply: (event, rows) => {
    if (isMoney(event)) foldMoney(event, rows)
  },
})
