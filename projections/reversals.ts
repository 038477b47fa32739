import type {
  DepositRefundMade,
  DepositRefundRefused,
  DepositRefundRequested,
} from '../src/domain/deposits/events.ts'
import { isAtGateway } from '../src/domain/ledger/adjustment-reasons.ts'
import type { WalletAdjusted } from '../src/domain/ledger/events.ts'
import { transactionIdOf } from '../src/domain/ledger/movements.ts'
import { type ReversalReason, reversalIdOf } from '../src/domain/payments/payments.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { centsToMicros } from '../src/kernel/money.ts'
import { ownerOf } from '../src/kernel/streams.ts'
import {
  beginsWith,
  contains,
  countedPage,
  type Db,
  sql,
  type TimePage,
  timePage,
} from '../src/platform/postgres/kysely.ts'
import {
  column,
  nullable,
  type RowOf,
  type Rows,
  readModel,
  readTable,
} from '../src/platform/projections/read-model.ts'

/** `requested` and `refused`: a refund that did not move money yet, or never will. `returned`: the money came back. */
export const reversalStatuses = ['requested', 'refused', 'taken', 'returned'] as const
export type ReversalStatus = (typeof reversalStatuses)[number]

/** A dispute of a payment of a wallet, or its refund to the payer. Those at a reseller's gateway are not among them. */
const reversalsTable = readTable({
  name: 'reversals',
  columns: {
    accountId: column.text(),
    /** The provider's id of the dispute or refund, or the reference of an operator; of a request: the refund's id. */
    reversalId: column.text(),
    /** Names the row in links. */
    rowId: column.text(),
    reason: column.text<ReversalReason>(),
    status: column.text<ReversalStatus>(),
    /** Null: the provider has not made the refund yet. */
    gateway: nullable(column.text()),
    /** Null: it was booked by hand. */
    depositId: nullable(column.text()),
    /** The largest amount that was requested or taken, micro-dollars. */
    amountMicros: column.bigint(),
    /** What it has taken from the wallet until now, micro-dollars. */
    takenMicros: column.bigint(),
    openedAt: column.timestamptz(),
  },
  key: ['accountId', 'reversalId'],
  indexes: ['opened_at desc'],
})

export type ReversalRow = RowOf<typeof reversalsTable>

/** What is mailed once: each dispute that takes money from a wallet. */
const noticesTable = readTable({
  name: 'dispute_notices',
  columns: {
    position: column.bigint(),
    transactionId: column.text(),
    accountId: column.text(),
  },
  key: ['position'],
  appendOnly: true,
})

type ReversalEvent = WalletAdjusted | DepositRefundRequested | DepositRefundMade | DepositRefundRefused

const reversalEvents: ReadonlySet<string> = new Set<ReversalEvent['type']>([
  'WalletAdjusted',
  'DepositRefundRequested',
  'DepositRefundMade',
  'DepositRefundRefused',
])

const isReversal = (event: RecordedEvent): event is RecordedEvent<ReversalEvent> =>
  reversalEvents.has(event.type) &&
  (event.type !== 'WalletAdjusted' || isAtGateway((event as RecordedEvent<WalletAdjusted>).data.reason))

/** The keys of the rows that an event reads. */
const keysOf = (event: RecordedEvent<ReversalEvent>): readonly (readonly [string, string])[] => {
  switch (event.type) {
    case 'WalletAdjusted':
      return [[ownerOf(event.stream), reversalIdOf(event.data.reference)]]
    case 'DepositRefundRequested':
      return []
    case 'DepositRefundMade':
    case 'DepositRefundRefused': {
      const { accountId, refundId, providerRefundId } = event.data
      return providerRefundId === undefined
        ? [[accountId, refundId]]
        : [
            [accountId, refundId],
            [accountId, providerRefundId],
          ]
    }
    default:
      return event satisfies never
  }
}

const foldMovement = (event: RecordedEvent<WalletAdjusted>, rows: Rows): void => {
  const { reference, reason, gateway, depositId = null, amountMicros: signedMicros } = event.data
  if (!isAtGateway(reason)) return
  const { position } = event
  const accountId = ownerOf(event.stream)
  const reversalId = reversalIdOf(reference)
  const transactionId = transactionIdOf(event.id)
  const row = rows.get(reversalsTable, [accountId, reversalId])
  const takenMicros = (row?.takenMicros ?? 0) - signedMicros
  rows.put(reversalsTable, {
    accountId,
    reversalId,
    rowId: row?.rowId ?? transactionId,
    reason,
    status: takenMicros > 0 ? 'taken' : 'returned',
    gateway,
    depositId,
    amountMicros: Math.max(row?.amountMicros ?? 0, Math.abs(takenMicros)),
    takenMicros,
    openedAt: row?.openedAt ?? event.metadata.recordedAt,
  })
  if (reason === 'chargeback' && takenMicros > 0 && (row?.takenMicros ?? 0) <= 0)
    rows.add(noticesTable, { position, transactionId, accountId })
}

const fold = (event: RecordedEvent<ReversalEvent>, rows: Rows): unknown => {
  switch (event.type) {
    case 'WalletAdjusted':
      return foldMovement(event as RecordedEvent<WalletAdjusted>, rows)
    case 'DepositRefundRequested': {
      const { accountId, refundId, depositId, amountCents } = event.data
      return rows.put(reversalsTable, {
        accountId,
        reversalId: refundId,
        rowId: transactionIdOf(event.id),
        reason: 'deposit_refund',
        status: 'requested',
        gateway: null,
        depositId,
        amountMicros: centsToMicros(amountCents),
        takenMicros: 0,
        openedAt: event.metadata.recordedAt,
      })
    }
    case 'DepositRefundMade': {
      const { accountId, refundId, providerRefundId } = event.data
      const requested = rows.get(reversalsTable, [accountId, refundId])
      if (!requested) throw new Error(`refund ${refundId} was made, but not requested`)
      // Its movement may be booked before or after this event.
      const booked = rows.get(reversalsTable, [accountId, providerRefundId])
      rows.remove(reversalsTable, [accountId, refundId])
      const { rowId, openedAt } = requested
      return rows.put(reversalsTable, {
        ...(booked ?? { ...requested, status: 'requested' }),
        reversalId: providerRefundId,
        rowId,
        openedAt,
      })
    }
    case 'DepositRefundRefused': {
      const { accountId, refundId, providerRefundId = refundId } = event.data
      const requested = rows.get(reversalsTable, [accountId, refundId])
      const row = requested ?? rows.get(reversalsTable, [accountId, providerRefundId])
      if (!row) throw new Error(`refund ${refundId} was refused, but not requested`)
      if (requested) rows.remove(reversalsTable, [accountId, refundId])
      return rows.put(reversalsTable, { ...row, reversalId: providerRefundId, status: 'refused' })
    }
    default:
      return event satisfies never
  }
}

/** Disputes and refunds of payments, for staff, and the disputes that are mailed. */
export const reversals = readModel({
  name: 'reversals',
  version: 2,
  tables: [reversalsTable, noticesTable],
  reads: (event) =>
    isReversal(event) ? keysOf(event).map((key) => ({ table: reversalsTable.name, key })) : [],
  apply: (event, rows) => {
    if (isReversal(event)) fold(event, rows)
  },
})

/** A dispute or refund with the state of its account. */
export type FoundReversal = ReversalRow & { readonly blocked: boolean }

/** A page of the disputes and refunds of all accounts. `search` is a part of an id. */
export const reversalsAfter = (
  db: Db,
  page: TimePage & {
    readonly reason?: ReversalReason | undefined
    readonly status?: ReversalStatus | undefined
    /** Only those of accounts that are blocked. */
    readonly blocked?: boolean
    readonly search: string
  },
): Promise<readonly FoundReversal[]> => {
  let matching = db
    .selectFrom('read.reversals as r')
    .innerJoin('read.accounts as a', 'a.accountId', 'r.accountId')
    .selectAll('r')
    .select('a.blocked')
  if (page.reason !== undefined) matching = matching.where('r.reason', '=', page.reason)
  if (page.status !== undefined) matching = matching.where('r.status', '=', page.status)
  if (page.blocked !== undefined) matching = matching.where('a.blocked', '=', page.blocked)
  if (page.search !== '')
    matching = matching.where((eb) =>
      eb.or([
        contains('r.reversalId', page.search),
        beginsWith('r.depositId', page.search),
        beginsWith('r.accountId', page.search),
      ]),
    )
  return timePage(matching, { time: 'r.openedAt', id: 'r.rowId' }, page).execute()
}

/** A page of the disputes and refunds of all accounts, newest first, and their total number. */
export const listReversals = async (
  db: Db,
  {
    reason,
    ...page
  }: { readonly reason: ReversalReason | undefined; readonly limit: number; readonly offset: number },
): Promise<{ readonly reversals: readonly ReversalRow[]; readonly total: number }> => {
  const matching = db
    .selectFrom('read.reversals as r')
    .$if(reason !== undefined, (rows) => rows.where('r.reason', '=', reason as ReversalReason))
  const { rows, total } = await countedPage(
    matching.selectAll('r').orderBy('r.openedAt', 'desc').orderBy('r.rowId', 'desc'),
    matching.select((eb) => eb.fn.countAll<number>().as('total')),
    page,
  )
  return { reversals: rows, total }
}

/** The disputes and refunds that need action. */
export type ReversalTasks = {
  /** Accounts with a dispute that are blocked. */
  readonly blockedAccounts: number
  /** Disputes since `since`. */
  readonly disputes: number
  /** Refunds that were requested before `until` and did not move money yet. */
  readonly openRefunds: number
}

/** @param times ISO 8601 UTC */
export const countReversalTasks = (
  db: Db,
  { since, until }: { readonly since: string; readonly until: string },
): Promise<ReversalTasks> =>
  db
    .selectFrom('read.reversals as r')
    .innerJoin('read.accounts as a', 'a.accountId', 'r.accountId')
    .select([
      sql<number>`count(distinct r.account_id) filter (where r.reason = 'chargeback' and a.blocked)`.as(
        'blockedAccounts',
      ),
      sql<number>`count(*) filter (where r.reason = 'chargeback' and r.status = 'taken' and r.opened_at >= ${since}::timestamptz)`.as(
        'disputes',
      ),
      sql<number>`count(*) filter (where r.status = 'requested' and r.opened_at < ${until}::timestamptz)`.as(
        'openRefunds',
      ),
    ])
    .executeTakeFirstOrThrow()
