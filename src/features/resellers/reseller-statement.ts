import type pg from 'pg'
import {
  type Margin,
  type MarginLineRow,
  marginLinesTable,
  type Period,
  totalMargin,
} from '../../../projections/margins.ts'
import { csvHead, csvLines } from '../../kernel/csv.ts'
import { positionToken } from '../../kernel/log-position.ts'
import type { AccountScope as Scope } from '../../kernel/scopes.ts'
import { inTransaction } from '../../platform/postgres/transaction.ts'
import { fieldsSql } from '../../platform/projections/definition.ts'

/** The most lines of one answer. */
export const maxStatementLines = 10_000

/** A sale or refund, with its order and event. Whole cents; a refund is negative. */
export type StatementLine = {
  readonly at: string
  readonly type: 'sale' | 'refund'
  readonly orderId: string
  /** Null for a sale. */
  readonly refundId: string | null
  readonly customerId: string
  /** The reseller's own id of the customer; null once erased. */
  readonly customer: string | null
  readonly productId: string
  readonly quantity: number
  readonly revenueCents: number
  readonly costCents: number
  readonly marginCents: number
  readonly currency: 'USD'
  readonly eventId: string
  readonly eventType: 'CustomerCharged' | 'CustomerRefunded'
  /** The event's position in the log, an opaque token. */
  readonly position: string
}

type Row = MarginLineRow & { readonly ref: string | null }

const microsPerCent = 10_000

const lineOf = (row: Row): StatementLine => {
  const revenueCents = row.revenueMicros / microsPerCent
  const costCents = row.costMicros / microsPerCent
  const sale = row.type === 'sale'
  return {
    at: row.at,
    type: row.type,
    orderId: row.orderId,
    refundId: sale ? null : row.lineId,
    customerId: row.customerId,
    customer: row.ref,
    productId: row.productId,
    quantity: row.quantity,
    revenueCents,
    costCents,
    marginCents: revenueCents - costCents,
    currency: 'USD',
    eventId: row.eventId,
    eventType: sale ? 'CustomerCharged' : 'CustomerRefunded',
    position: positionToken(row.position),
  }
}

/** The id of a line, which is its cursor: the refund, or the order of a sale. */
export const nameOf = ({ refundId, orderId }: StatementLine): string => refundId ?? orderId

type Cursor = { readonly at: string; readonly position: number }

/** The position of a line within the scope; null if it does not exist. */
const findCursor = async (
  client: pg.ClientBase,
  { accountId, customerId }: Scope,
  name: string,
): Promise<Cursor | null> => {
  const { rows } = await client.query<Cursor>({
    name: 'statement-cursor',
    text: `select at, position from read.margin_lines
           where line_id = $1::text and reseller_id = $2::text and ($3::text is null or customer_id = $3::text)`,
    values: [name, accountId, customerId],
  })
  return rows[0] ?? null
}

const listLines = async (
  client: pg.ClientBase,
  { accountId, customerId }: Scope,
  { fromMs, toMs, after, limit, newestFirst }: Omit<LineQuery, 'after'> & { readonly after: Cursor | null },
): Promise<Pick<StatementPage, 'lines' | 'nextAfter'>> => {
  const [from, to] = [
    fromMs === null ? '-infinity' : new Date(fromMs).toISOString(),
    toMs === null ? 'infinity' : new Date(toMs).toISOString(),
  ]
  // Times within a ledger never decrease, so the order by time is the order by position.
  const first = { at: from, position: 0 }
  const start = newestFirst ? first : after !== null && (fromMs === null || after.at >= from) ? after : first
  const end =
    newestFirst && after !== null && (toMs === null || after.at < to) ? after : { at: to, position: 0 }
  const order = newestFirst ? 'desc' : 'asc'
  // Each kind of query has its own name, and so its own plan.
  const { rows } = await client.query<Row>({
    name: `statement-${order}${customerId === null ? '' : '-of-customer'}`,
    text: `
      select ${fieldsSql(marginLinesTable, 'l')}, c.ref from read.margin_lines l
      left join vault.customers c on c.customer_id = l.customer_id and c.account_id = l.reseller_id
      where l.reseller_id = $1::text${customerId === null ? '' : ' and l.customer_id = $7::text'} and (l.at, l.position) > ($2::timestamptz, $3::bigint)
        and (l.at, l.position) < ($4::timestamptz, $5::bigint)
      order by l.at ${order}, l.position ${order} limit $6::bigint`,
    values: [
      accountId,
      start.at,
      start.position,
      end.at,
      end.position,
      limit + 1,
      ...(customerId === null ? [] : [customerId]),
    ],
  })
  const lines = rows.slice(0, limit).map(lineOf)
  return { lines, nextAfter: rows.length > limit ? nameOf(lines.at(-1)!) : null }
}

type LineQuery = Period & {
  /** The id of the line before the first one. */
  readonly after: string | null
  readonly limit: number
  readonly newestFirst?: boolean
}

export type StatementPage = {
  /** In the order of the log; newest first on request. */
  readonly lines: readonly StatementLine[]
  /** The id of the last line, for the next page; null on the last page. */
  readonly nextAfter: string | null
  /** Of the whole period. */
  readonly totals: Margin
}

/** Lines after the given one and the totals of the whole period, in one snapshot; null if that line does not exist. */
export const readStatement = async (
  pool: pg.Pool,
  scope: Scope,
  lineQuery: LineQuery,
): Promise<StatementPage | null> => {
  const read = async (client: pg.PoolClient): Promise<StatementPage | null> => {
    const after = lineQuery.after === null ? null : await findCursor(client, scope, lineQuery.after)
    const isKnownCursor = lineQuery.after === null || after !== null
    const page = isKnownCursor && {
      ...(await listLines(client, scope, { ...lineQuery, after })),
      totals: await totalMargin(client, scope, lineQuery),
    }
    return page || null
  }
  return inTransaction(pool, read, 'isolation level repeatable read read only')
}

const columns = {
  at: 'at',
  type: 'type',
  orderId: 'order_id',
  refundId: 'refund_id',
  customerId: 'customer_id',
  customer: 'customer',
  productId: 'product_id',
  quantity: 'quantity',
  revenueCents: 'revenue_cents',
  costCents: 'cost_cents',
  marginCents: 'margin_cents',
  currency: 'currency',
  eventId: 'event_id',
  eventType: 'event_type',
  position: 'position',
} as const satisfies Record<keyof StatementLine, string>

const fieldNames = Object.keys(columns) as (keyof StatementLine)[]

export const statementCsvHead = csvHead(Object.values(columns))

export const statementCsvLines = (lines: readonly StatementLine[]): string =>
  csvLines(lines.map((line) => fieldNames.map((name) => line[name])))

export const statementCsv = (lines: readonly StatementLine[]): string =>
  statementCsvHead + statementCsvLines(lines)
