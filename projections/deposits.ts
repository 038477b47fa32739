import type pg from 'pg'
import type { DepositEvent } from '../src/domain/deposits/events.ts'
import { type DepositStatus, withoutInvoiceMs } from '../src/domain/deposits/fold.ts'
import type { CustomerAdjusted, WalletAdjusted } from '../src/domain/ledger/events.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { ListScope, AccountScope as Scope } from '../src/kernel/scopes.ts'
import type { ReadModel, Rows, Table } from '../src/platform/projections/read-model.ts'

/** A deposit's row with its data in the vault. */
export type FoundDeposit = DepositRow & {
  readonly return_url: string | null
  readonly pay_url: string | null
  readonly pages_signature: Buffer | null
  /** The reseller's own id of its customer; null without one, or after it was erased. */
  readonly customer_ref: string | null
}

const depositSelect = `select d.*, p.return_url, p.pay_url, p.signature as pages_signature, c.ref as customer_ref
  from read.deposits d
  left join vault.deposit_pages p using (deposit_id)
  left join vault.customers c on c.customer_id = d.customer_id`

/**
 * A statement over the deposits of a scope. The values of the scope come last. For one customer the statement has its
 * own name and so its own plan, which uses the index of that customer.
 */
const scopedQuery = (
  { accountId, customerId }: ListScope,
  name: string,
  text: (scopeFilter: string) => string,
  values: readonly unknown[],
) => {
  if (accountId === null) return { name: `${name}-of-all`, text: text('true'), values: [...values] }
  const valueCount = values.length
  const account = `d.account_id = $${valueCount + 1}::text`
  return customerId === null
    ? { name, text: text(account), values: [...values, accountId] }
    : {
        name: `${name}-of-customer`,
        text: text(`${account} and d.customer_id = $${valueCount + 2}::text`),
        values: [...values, accountId, customerId],
      }
}

/** A deposit within the scope. Undefined if it does not exist or is outside of the scope. */
export const findDeposit = async (
  pool: pg.Pool,
  scope: Scope,
  depositId: string,
): Promise<FoundDeposit | undefined> => {
  const { rows } = await pool.query<FoundDeposit>(
    scopedQuery(
      scope,
      'find-deposit',
      (scopeFilter) => `${depositSelect} where d.deposit_id = $1::text and ${scopeFilter}`,
      [depositId],
    ),
  )
  return rows[0]
}

type Filter = { readonly limit: number; readonly offset: number; readonly status: DepositStatus | undefined }

/** For all deposits of accounts the number is stored. For one customer they are counted, because there are few. */
const countOf = (scope: ListScope, status: DepositStatus | null) =>
  scope.customerId === null
    ? {
        name: 'count-deposits',
        text: `select coalesce(sum(total), 0)::bigint as total from read.deposit_counts
                where ($1::text is null or account_id = $1::text) and ($2::text is null or status = $2::text)`,
        values: [scope.accountId, status],
      }
    : scopedQuery(
        scope,
        'count-deposits',
        (scopeFilter) => `select count(*) as total from read.deposits d
                      where ($1::text is null or d.status = $1::text) and ${scopeFilter}`,
        [status],
      )

/** A page of the deposits within the scope, newest first, and their total number. */
export const listDeposits = async (
  pool: pg.Pool,
  scope: ListScope,
  filter: Filter,
): Promise<{ readonly deposits: readonly FoundDeposit[]; readonly total: number }> => {
  const status = filter.status ?? null
  const [page, counted] = await Promise.all([
    pool.query<FoundDeposit>(
      scopedQuery(
        scope,
        'list-deposits',
        (scopeFilter) => `${depositSelect} where ($1::text is null or d.status = $1::text) and ${scopeFilter}
                     order by d.opened_at desc, d.deposit_id desc limit $2::bigint offset $3::bigint`,
        [status, filter.limit, filter.offset],
      ),
    ),
    pool.query<{ total: number }>(countOf(scope, status)),
  ])
  return { deposits: page.rows, total: counted.rows[0]?.total ?? 0 }
}

/** `GET /deposits`: one row per deposit. Its addresses are in the vault. Amounts are micro-dollars if not in cents. */
export type DepositRow = {
  readonly deposit_id: string
  readonly account_id: string
  readonly customer_id: string | null
  readonly status: DepositStatus
  readonly amount_cents: number
  readonly credited_micros: number
  /** The amount of its chargebacks, minus the amount of won disputes. */
  readonly charged_back_micros: number
  readonly rail: string
  readonly gateway_id: string
  readonly order_id: string | null
  readonly opened_at: string
  readonly expires_at: string | null
  readonly paid_at: string | null
  /** Until this time money may still arrive, so the provider is polled now and then, and once more afterwards. */
  readonly watch_until: string
}

/** The number of deposits of an account in a status. */
export type DepositCountRow = {
  readonly account_id: string
  readonly status: DepositStatus
  readonly total: number
}

const depositsTable: Table<DepositRow> = {
  name: 'deposits',
  columns: {
    deposit_id: { type: 'text' },
    account_id: { type: 'text' },
    customer_id: { type: 'text', nullable: true },
    status: { type: 'text' },
    amount_cents: { type: 'bigint' },
    credited_micros: { type: 'bigint' },
    charged_back_micros: { type: 'bigint' },
    rail: { type: 'text' },
    gateway_id: { type: 'text' },
    order_id: { type: 'text', nullable: true },
    opened_at: { type: 'timestamptz' },
    expires_at: { type: 'timestamptz', nullable: true },
    paid_at: { type: 'timestamptz', nullable: true },
    watch_until: { type: 'timestamptz' },
  },
  key: ['deposit_id'],
  indexes: [
    'account_id, opened_at desc, deposit_id desc',
    // The deposits of one customer of a reseller. Deposits of the account itself are not in this index.
    'account_id, customer_id, opened_at desc, deposit_id desc where customer_id is not null',
    // The deposits of all accounts, for operators.
    'opened_at desc',
    'watch_until',
  ],
}

const depositCountsTable: Table<DepositCountRow> = {
  name: 'deposit_counts',
  columns: { account_id: { type: 'text' }, status: { type: 'text' }, total: { type: 'bigint' } },
  key: ['account_id', 'status'],
  indexes: [],
}

const statuses: readonly DepositStatus[] = [
  'awaiting_payment',
  'processing',
  'paid',
  'partially_paid',
  'expired',
  'failed',
]

type RowEvent = Exclude<DepositEvent, { type: 'DepositChangeReported' | 'DepositChangeReviewed' }>

const depositEvents: ReadonlySet<string> = new Set<RowEvent['type']>([
  'DepositOpened',
  'DepositInvoiceCreated',
  'DepositProcessing',
  'DepositPaymentReceived',
  'DepositPaymentCredited',
  'DepositSettled',
  'DepositExpired',
  'DepositFailed',
])

const isDeposit = (event: RecordedEvent): event is RecordedEvent<RowEvent> => depositEvents.has(event.type)

/** A chargeback, or the return of one. Those before 0.2.0 and manual ones have no deposit id. */
const chargedBackOf = (event: RecordedEvent): { depositId: string; micros: number } | null => {
  if (event.type !== 'WalletAdjusted' && event.type !== 'CustomerAdjusted') return null
  const { depositId, amountMicros } = (event as RecordedEvent<WalletAdjusted | CustomerAdjusted>).data
  return depositId === undefined ? null : { depositId, micros: 0 - amountMicros }
}

const count = (rows: Rows, accountId: string, status: DepositStatus, change: 1 | -1): void => {
  const total = (rows.get(depositCountsTable, [accountId, status])?.total ?? 0) + change
  rows.put(depositCountsTable, { account_id: accountId, status, total })
}

const fold = (event: RecordedEvent<RowEvent>, rows: Rows): unknown => {
  const change = (fields: Partial<DepositRow>): void => {
    const { depositId } = event.data
    const row = rows.get(depositsTable, [depositId])
    if (!row) throw new Error(`${event.type} of deposit ${depositId}, which was never opened`)
    const next = { ...row, ...fields }
    rows.put(depositsTable, next)
    if (next.status === row.status) return
    count(rows, row.account_id, row.status, -1)
    count(rows, row.account_id, next.status, 1)
  }
  switch (event.type) {
    case 'DepositOpened': {
      const { depositId, accountId, customerId, amountCents, rail, gatewayId, pending, openedAt } = event.data
      rows.put(depositsTable, {
        deposit_id: depositId,
        account_id: accountId,
        customer_id: customerId,
        status: 'awaiting_payment',
        amount_cents: amountCents,
        credited_micros: 0,
        charged_back_micros: 0,
        rail,
        gateway_id: gatewayId,
        order_id: pending?.order.orderId ?? null,
        opened_at: openedAt,
        expires_at: null,
        paid_at: null,
        watch_until: new Date(Date.parse(openedAt) + withoutInvoiceMs).toISOString(),
      })
      return count(rows, accountId, 'awaiting_payment', 1)
    }
    case 'DepositInvoiceCreated':
      return change({ expires_at: event.data.expiresAt, watch_until: event.data.watchUntil })
    case 'DepositProcessing':
      return change({ status: 'processing' })
    case 'DepositPaymentReceived':
      return undefined
    case 'DepositPaymentCredited': {
      const before = rows.get(depositsTable, [event.data.depositId])?.credited_micros ?? 0
      return change({ credited_micros: before + event.data.amountMicros })
    }
    case 'DepositSettled': {
      const { status, settledAt } = event.data
      return change(status === 'paid' ? { status, paid_at: settledAt } : { status })
    }
    case 'DepositExpired':
      return change({ status: 'expired' })
    case 'DepositFailed':
      return change({ status: 'failed' })
    default: {
      const unknown: never = event
      throw new Error(`unknown deposit event ${JSON.stringify(unknown)}`)
    }
  }
}

/** Deposits with their credited and charged back amounts, and the number of an account's deposits in each status. */
export const deposits: ReadModel = {
  name: 'deposits',
  version: 4,
  tables: [depositsTable, depositCountsTable],
  reads: (event) => {
    const chargedBack = chargedBackOf(event)
    if (chargedBack) return [{ table: depositsTable.name, key: [chargedBack.depositId] }]
    if (!isDeposit(event) || event.type === 'DepositPaymentReceived') return []
    const { depositId, accountId } = event.data
    const counts = statuses.map((status) => ({ table: depositCountsTable.name, key: [accountId, status] }))
    return event.type === 'DepositOpened'
      ? counts
      : [{ table: depositsTable.name, key: [depositId] }, ...counts]
  },
  apply: (event, rows) => {
    if (isDeposit(event)) return void fold(event, rows)
    const chargedBack = chargedBackOf(event)
    if (!chargedBack) return
    const row = rows.get(depositsTable, [chargedBack.depositId])
    if (!row) throw new Error(`a chargeback of deposit ${chargedBack.depositId}, which was never opened`)
    rows.put(depositsTable, { ...row, charged_back_micros: row.charged_back_micros + chargedBack.micros })
  },
}
