import type {
  DepositChangeReported,
  DepositChangeReviewed,
  DepositEvent,
} from '../src/domain/deposits/events.ts'
import {
  type DepositStatus,
  type ShownDepositStatus,
  shownDepositStatus,
  shownDepositStatuses,
  withoutInvoiceMs,
} from '../src/domain/deposits/fold.ts'
import type { UnmatchedEvent } from '../src/domain/deposits/unmatched-movements.ts'
import type { CustomerAdjusted, WalletAdjusted } from '../src/domain/ledger/events.ts'
import type { GatewayChange, ReversalReason } from '../src/domain/payments/payments.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { ListScope, AccountScope as Scope } from '../src/kernel/scopes.ts'
import { ownerOf } from '../src/kernel/streams.ts'
import {
  beginsWith,
  contains,
  countedPage,
  type Db,
  inScope,
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

/** The stored addresses of a deposit. Do not show them before their signature is checked. */
export type StoredPages = {
  readonly depositId: string | null
  /** The account that pays the deposit. */
  readonly accountId: string
  readonly customerId: string | null
  readonly returnUrl: string | null
  readonly payUrl: string | null
  readonly pagesSignature: Buffer | null
}

/** Returns the pay page of a row. Null if there is none, or if the row was not written by the service. */
export type PayUrlOf = (row: StoredPages) => string | null

const withPages = (db: Db, scope: ListScope) =>
  db
    .selectFrom('read.deposits as d')
    .leftJoin('vault.deposit_pages as p', 'p.depositId', 'd.depositId')
    .leftJoin('vault.customers as c', 'c.customerId', 'd.customerId')
    .selectAll('d')
    .select(['p.returnUrl', 'p.payUrl', 'p.signature as pagesSignature'])
    .select('c.ref as customerRef')
    .where(inScope('d', scope))

/** A deposit's row with its data in the vault. */
export type FoundDeposit = DepositRow & {
  readonly returnUrl: string | null
  readonly payUrl: string | null
  readonly pagesSignature: Buffer | null
  /** The reseller's own id of its customer; null without one, or after it was erased. */
  readonly customerRef: string | null
}

/** A deposit within the scope. Undefined if it does not exist or is outside of the scope. */
export const findDeposit = (db: Db, scope: Scope, depositId: string): Promise<FoundDeposit | undefined> =>
  withPages(db, scope).where('d.depositId', '=', depositId).executeTakeFirst()

type Filter = {
  readonly limit: number
  readonly offset: number
  readonly status: ShownDepositStatus | undefined
}

/** Whether a deposit has the shown status. */
const hasStatus = (status: ShownDepositStatus) =>
  status === 'charged_back'
    ? sql<boolean>`d.charged_back_micros > 0`
    : sql<boolean>`d.charged_back_micros <= 0 and d.status = ${status}`

/** For all deposits of accounts the number is stored. For one customer they are counted, because there are few. */
const countDeposits = (db: Db, scope: ListScope, status: ShownDepositStatus | undefined) => {
  if (scope.customerId !== null) {
    const count = db
      .selectFrom('read.deposits as d')
      .select((eb) => eb.fn.countAll<number>().as('total'))
      .where(inScope('d', scope))
    return status === undefined ? count : count.where(hasStatus(status))
  }
  const count = db
    .selectFrom('read.deposit_counts as n')
    .select(sql<number>`coalesce(sum(n.total), 0)::bigint`.as('total'))
    .where(inScope('n', scope))
  return status === undefined ? count : count.where('n.status', '=', status)
}

/** A page of the deposits within the scope, newest first, and their total number. */
export const listDeposits = async (
  db: Db,
  scope: ListScope,
  { status, ...page }: Filter,
): Promise<{ readonly deposits: readonly FoundDeposit[]; readonly total: number }> => {
  const matching = withPages(db, scope).orderBy('d.openedAt', 'desc').orderBy('d.depositId', 'desc')
  const { rows, total } = await countedPage(
    status === undefined ? matching : matching.where(hasStatus(status)),
    countDeposits(db, scope, status),
    page,
  )
  return { deposits: rows, total }
}

/**
 * A page of the deposits within the scope. `search` is the beginning of an id of a deposit or an account, or a part of
 * the customer's name.
 */
export const depositsAfter = (
  db: Db,
  scope: ListScope,
  page: TimePage & { readonly status: ShownDepositStatus | undefined; readonly search: string },
): Promise<readonly FoundDeposit[]> => {
  let matching = withPages(db, scope)
  if (page.status !== undefined) matching = matching.where(hasStatus(page.status))
  if (page.search !== '')
    matching = matching.where((eb) =>
      eb.or([
        beginsWith('d.depositId', page.search),
        beginsWith('d.accountId', page.search),
        contains('c.ref', page.search),
      ]),
    )
  return timePage(matching, { time: 'd.openedAt', id: 'd.depositId' }, page).execute()
}

/** `GET /deposits`: one row per deposit. Its addresses are in the vault. Amounts are micro-dollars if not in cents. */
const depositsTable = readTable({
  name: 'deposits',
  columns: {
    depositId: column.text(),
    accountId: column.text(),
    customerId: nullable(column.text()),
    /** The state of the invoice: a dispute does not change it (`shownDepositStatus`). */
    status: column.text<DepositStatus>(),
    amountCents: column.bigint(),
    /** The debt of the payer when it was opened, which its payment pays first. */
    owedCents: column.bigint(),
    creditedMicros: column.bigint(),
    /** The amount of its chargebacks, minus the amount of won disputes. */
    chargedBackMicros: column.bigint(),
    /** The amount of its refunds at the provider, minus the amount of failed refunds. */
    refundedMicros: column.bigint(),
    rail: column.text(),
    gatewayId: column.text(),
    orderId: nullable(column.text()),
    openedAt: column.timestamptz(),
    expiresAt: nullable(column.timestamptz()),
    paidAt: nullable(column.timestamptz()),
    /** Until this time money may still arrive, so the provider is polled now and then, and once more afterwards. */
    watchUntil: column.timestamptz(),
  },
  key: ['depositId'],
  indexes: [
    'account_id, opened_at desc, deposit_id desc',
    // The deposits of one customer of a reseller. Deposits of the account itself are not in this index.
    'account_id, customer_id, opened_at desc, deposit_id desc where customer_id is not null',
    // The deposits of all accounts, for staff.
    'opened_at desc',
    'watch_until',
    // The open invoices of orders, for the worker that closes those that no order needs.
    "order_id where status = 'awaiting_payment' and order_id is not null",
  ],
})

export type DepositRow = RowOf<typeof depositsTable>

/** The number of deposits of an account in a shown status. */
const depositCountsTable = readTable({
  name: 'deposit_counts',
  columns: {
    accountId: column.text(),
    status: column.text<ShownDepositStatus>(),
    total: column.bigint(),
  },
  key: ['accountId', 'status'],
})

/** The received payments of deposits, with their ids at the provider. */
const depositPaymentsTable = readTable({
  name: 'deposit_payments',
  columns: { paymentId: column.text(), depositId: column.text() },
  key: ['paymentId', 'depositId'],
})

/** The deposits of an account (null: of all accounts) that received a payment with this id of its provider. */
export const depositsOfPayment = (
  db: Db,
  accountId: string | null,
  paymentId: string,
): Promise<readonly Pick<DepositRow, 'depositId' | 'amountCents'>[]> => {
  const found = db
    .selectFrom('read.deposit_payments as p')
    .innerJoin('read.deposits as d', 'd.depositId', 'p.depositId')
    .select(['d.depositId', 'd.amountCents'])
    .where('p.paymentId', '=', paymentId)
  return (accountId === null ? found : found.where('d.accountId', '=', accountId)).execute()
}

type RowEvent = Exclude<DepositEvent, { type: `DepositChange${string}` | `DepositRefund${string}` }>

const depositEvents: ReadonlySet<string> = new Set<RowEvent['type']>([
  'DepositOpened',
  'DepositInvoiceCreated',
  'DepositProcessing',
  'DepositPaymentReceived',
  'DepositPaymentCredited',
  'DepositSettled',
  'DepositExpired',
  'DepositFailed',
  'DepositCanceled',
])

const isDeposit = (event: RecordedEvent): event is RecordedEvent<RowEvent> => depositEvents.has(event.type)

type ReversedRow = Pick<DepositRow, 'depositId' | 'chargedBackMicros' | 'refundedMicros'>

/**
 * What a chargeback or a refund at the provider, or the return of one, adds to the row of its deposit. Chargebacks
 * before 0.2.0 and manual ones have no deposit id.
 */
const reversedOf = (event: RecordedEvent): ReversedRow | null => {
  if (event.type !== 'WalletAdjusted' && event.type !== 'CustomerAdjusted') return null
  const { depositId, reason, amountMicros } = (event as RecordedEvent<WalletAdjusted | CustomerAdjusted>).data
  if (depositId === undefined) return null
  const micros = 0 - amountMicros
  return reason === 'deposit_refund'
    ? { depositId, chargedBackMicros: 0, refundedMicros: micros }
    : { depositId, chargedBackMicros: micros, refundedMicros: 0 }
}

const count = (rows: Rows, accountId: string, status: ShownDepositStatus, change: 1 | -1): void => {
  const total = (rows.get(depositCountsTable, [accountId, status])?.total ?? 0) + change
  rows.put(depositCountsTable, { accountId, status, total })
}

/** Changes the row of a deposit, and the numbers of its account if its shown status changes. */
const changeRow = (
  rows: Rows,
  { type, depositId }: { readonly type: string; readonly depositId: string },
  changeOf: (row: DepositRow) => Partial<DepositRow>,
): void => {
  const row = rows.get(depositsTable, [depositId])
  if (!row) throw new Error(`${type} of deposit ${depositId}, which was never opened`)
  const next = { ...row, ...changeOf(row) }
  rows.put(depositsTable, next)
  const [before, after] = [shownDepositStatus(row), shownDepositStatus(next)]
  if (before === after) return
  count(rows, row.accountId, before, -1)
  count(rows, row.accountId, after, 1)
}

const fold = (event: RecordedEvent<RowEvent>, rows: Rows): unknown => {
  const change = (fields: Partial<DepositRow>): void =>
    changeRow(rows, { type: event.type, depositId: event.data.depositId }, () => fields)
  switch (event.type) {
    case 'DepositOpened': {
      const { depositId, accountId, customerId, amountCents, rail, gatewayId, pending, openedAt } = event.data
      const { owedCents = 0 } = event.data
      rows.put(depositsTable, {
        depositId,
        accountId,
        customerId,
        status: 'awaiting_payment',
        amountCents,
        owedCents,
        creditedMicros: 0,
        chargedBackMicros: 0,
        refundedMicros: 0,
        rail,
        gatewayId,
        orderId: pending?.order.orderId ?? null,
        openedAt,
        expiresAt: null,
        paidAt: null,
        watchUntil: new Date(Date.parse(openedAt) + withoutInvoiceMs).toISOString(),
      })
      return count(rows, accountId, 'awaiting_payment', 1)
    }
    case 'DepositInvoiceCreated':
      return change({ expiresAt: event.data.expiresAt, watchUntil: event.data.watchUntil })
    case 'DepositProcessing':
      return change({ status: 'processing' })
    case 'DepositPaymentReceived': {
      const { paymentId, depositId } = event.data
      return rows.put(depositPaymentsTable, { paymentId, depositId })
    }
    case 'DepositPaymentCredited': {
      const before = rows.get(depositsTable, [event.data.depositId])?.creditedMicros ?? 0
      return change({ creditedMicros: before + event.data.amountMicros })
    }
    case 'DepositSettled': {
      const { status, settledAt } = event.data
      return change(status === 'paid' ? { status, paidAt: settledAt } : { status })
    }
    case 'DepositExpired':
      return change({ status: 'expired' })
    case 'DepositFailed':
      return change({ status: 'failed' })
    case 'DepositCanceled':
      return change({ status: 'canceled' })
    default: {
      const unknown: never = event
      throw new Error(`unknown deposit event ${JSON.stringify(unknown)}`)
    }
  }
}

/** Deposits with their payments and amounts, and the number of an account's deposits in each status. */
export const deposits = readModel({
  name: 'deposits',
  version: 8,
  tables: [depositsTable, depositCountsTable, depositPaymentsTable],
  reads: (event) => {
    const countsOf = (accountId: string) =>
      shownDepositStatuses.map((status) => ({ table: depositCountsTable.name, key: [accountId, status] }))
    const reversed = reversedOf(event)
    if (reversed)
      return [{ table: depositsTable.name, key: [reversed.depositId] }, ...countsOf(ownerOf(event.stream))]
    if (!isDeposit(event) || event.type === 'DepositPaymentReceived') return []
    const { depositId, accountId } = event.data
    const counts = countsOf(accountId)
    return event.type === 'DepositOpened'
      ? counts
      : [{ table: depositsTable.name, key: [depositId] }, ...counts]
  },
  apply: (event, rows) => {
    if (isDeposit(event)) return void fold(event, rows)
    const reversed = reversedOf(event)
    if (!reversed) return
    const { depositId, chargedBackMicros, refundedMicros } = reversed
    changeRow(rows, { type: event.type, depositId }, (row) => ({
      chargedBackMicros: row.chargedBackMicros + chargedBackMicros,
      refundedMicros: row.refundedMicros + refundedMicros,
    }))
  },
})

/** A report of a payment provider about a deposit that no event books. It is open until an operator reviews it. */
const gatewayChangesTable = readTable({
  name: 'gateway_changes',
  columns: {
    depositId: column.text(),
    /** Numbers the changes of the deposit, from 1. */
    number: column.bigint(),
    accountId: column.text(),
    change: column.text<GatewayChange['change']>(),
    reference: column.text(),
    amount: nullable(column.text()),
    reportedAt: column.timestamptz(),
    /** Null while it is open. */
    reviewedAt: nullable(column.timestamptz()),
    note: nullable(column.text()),
  },
  key: ['depositId', 'number'],
  indexes: [
    'reported_at desc, deposit_id desc, number desc',
    'reported_at desc, deposit_id desc, number desc where reviewed_at is null',
  ],
})

export type GatewayChangeRow = RowOf<typeof gatewayChangesTable>

/** A change with data of its deposit. */
export type FoundGatewayChange = GatewayChangeRow & {
  readonly gatewayId: string
  readonly customerId: string | null
}

/** The changes without a review, or (`all`) all changes; the last report first. */
export const listGatewayChanges = (
  db: Db,
  { all, limit, offset }: { readonly all: boolean; readonly limit: number; readonly offset: number },
): Promise<readonly FoundGatewayChange[]> => {
  const changes = db
    .selectFrom('read.gateway_changes as g')
    .innerJoin('read.deposits as d', 'd.depositId', 'g.depositId')
    .selectAll('g')
    .select(['d.gatewayId', 'd.customerId'])
    .orderBy('g.reportedAt', 'desc')
    .orderBy('g.depositId', 'desc')
    .orderBy('g.number', 'desc')
    .limit(limit)
    .offset(offset)
  return (all ? changes : changes.where('g.reviewedAt', 'is', null)).execute()
}

/** Reports of providers about deposits that no event books, for operators. */
export const gatewayChanges = readModel({
  name: 'gateway-changes',
  version: 1,
  tables: [gatewayChangesTable],
  reads: (event) => {
    if (event.type !== 'DepositChangeReviewed') return []
    const { depositId, number } = (event as RecordedEvent<DepositChangeReviewed>).data
    return [{ table: gatewayChangesTable.name, key: [depositId, number] }]
  },
  apply: (event, rows) => {
    if (event.type === 'DepositChangeReported') {
      const { data, metadata } = event as RecordedEvent<DepositChangeReported>
      const { depositId, accountId, number, change, reference, amount } = data
      return rows.put(gatewayChangesTable, {
        depositId,
        number,
        accountId,
        change,
        reference,
        amount,
        reportedAt: metadata.recordedAt,
        reviewedAt: null,
        note: null,
      })
    }
    if (event.type !== 'DepositChangeReviewed') return
    const { data, metadata } = event as RecordedEvent<DepositChangeReviewed>
    const { depositId, number, note } = data
    const row = rows.get(gatewayChangesTable, [depositId, number])
    if (!row) throw new Error(`change ${number} of deposit ${depositId}, which was never reported`)
    rows.put(gatewayChangesTable, { ...row, reviewedAt: metadata.recordedAt, note })
  },
})

/** A movement at a payment provider without a known deposit, or an object there that cannot be read, until an operator resolves it. */
const unmatchedMovementsTable = readTable({
  name: 'unmatched_movements',
  columns: {
    itemId: column.text(),
    gateway: column.text(),
    /** Null, with the currency, the amount and the time: an object that cannot be read. */
    reason: nullable(column.text<ReversalReason>()),
    reference: column.text(),
    currency: nullable(column.text()),
    amountMicros: nullable(column.bigint()),
    happenedAt: nullable(column.timestamptz()),
    reportedAt: column.timestamptz(),
    /** Null while it is open. */
    resolvedAt: nullable(column.timestamptz()),
    /** The account that it was booked to. */
    accountId: nullable(column.text()),
    note: nullable(column.text()),
  },
  key: ['itemId'],
  indexes: ['reported_at desc, item_id desc', 'reported_at desc, item_id desc where resolved_at is null'],
})

export type UnmatchedMovementRow = RowOf<typeof unmatchedMovementsTable>

/** The open items, or (`all`) all items; the last report first. */
export const listUnmatchedMovements = (
  db: Db,
  { all, limit, offset }: { readonly all: boolean; readonly limit: number; readonly offset: number },
): Promise<readonly UnmatchedMovementRow[]> => {
  const items = db
    .selectFrom('read.unmatched_movements')
    .selectAll()
    .orderBy('reportedAt', 'desc')
    .orderBy('itemId', 'desc')
    .limit(limit)
    .offset(offset)
  return (all ? items : items.where('resolvedAt', 'is', null)).execute()
}

/** Movements at payment providers without a known deposit, for operators. */
export const unmatchedMovements = readModel({
  name: 'unmatched-movements',
  version: 2,
  tables: [unmatchedMovementsTable],
  reads: (event) =>
    event.type === 'UnmatchedMovementResolved'
      ? [{ table: unmatchedMovementsTable.name, key: [(event as RecordedEvent<UnmatchedEvent>).data.itemId] }]
      : [],
  apply: (recorded, rows) => {
    const event = recorded as RecordedEvent<UnmatchedEvent>
    switch (event.type) {
      case 'UnmatchedMovementReported':
        return rows.put(unmatchedMovementsTable, {
          ...event.data,
          reportedAt: event.metadata.recordedAt,
          resolvedAt: null,
          accountId: null,
          note: null,
        })
      case 'UnmatchedMovementResolved': {
        const { itemId, accountId, note } = event.data
        const row = rows.get(unmatchedMovementsTable, [itemId])
        if (!row) throw new Error(`item ${itemId}, which was never reported`)
        return rows.put(unmatchedMovementsTable, {
          ...row,
          resolvedAt: event.metadata.recordedAt,
          accountId,
          note,
        })
      }
    }
  },
})
