import { compactUuid } from '../src/kernel/ids.ts'
import type { HeldFor, LedgerEvent } from '../src/money/ledger/events.ts'
import { movementOf } from '../src/money/ledger/movement.ts'
import type { RecordedEvent } from '../src/platform/eventstore/event.ts'
import type { ReadModel, Rows, Table } from './engine/read-model.ts'
import { ownerOf } from './stream-owner.ts'

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
