import type pg from 'pg'
import type { DepositChangeReported, DepositChangeReviewed } from '../src/domain/deposits/events.ts'
import type { GatewayChange } from '../src/domain/payments/payments.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { ReadModel, Table } from '../src/platform/projections/read-model.ts'

/** A report of a payment provider about a deposit that no event books. It is open until an operator reviews it. */
export type GatewayChangeRow = {
  readonly deposit_id: string
  /** Numbers the changes of the deposit, from 1. */
  readonly number: number
  readonly account_id: string
  readonly change: GatewayChange['change']
  readonly reference: string
  readonly amount: string | null
  readonly reported_at: string
  /** Null while it is open. */
  readonly reviewed_at: string | null
  readonly note: string | null
}

const gatewayChangesTable: Table<GatewayChangeRow> = {
  name: 'gateway_changes',
  columns: {
    deposit_id: { type: 'text' },
    number: { type: 'bigint' },
    account_id: { type: 'text' },
    change: { type: 'text' },
    reference: { type: 'text' },
    amount: { type: 'text', nullable: true },
    reported_at: { type: 'timestamptz' },
    reviewed_at: { type: 'timestamptz', nullable: true },
    note: { type: 'text', nullable: true },
  },
  key: ['deposit_id', 'number'],
  indexes: [
    'reported_at desc, deposit_id desc, number desc',
    'reported_at desc, deposit_id desc, number desc where reviewed_at is null',
  ],
}

/** A change with data of its deposit. */
export type FoundGatewayChange = GatewayChangeRow & {
  readonly gateway_id: string
  readonly customer_id: string | null
}

/** The changes without a review, or (`all`) all changes; the last report first. */
export const listGatewayChanges = async (
  pool: pg.Pool,
  { all, limit, offset }: { readonly all: boolean; readonly limit: number; readonly offset: number },
): Promise<readonly FoundGatewayChange[]> => {
  const { rows } = await pool.query<FoundGatewayChange>({
    name: all ? 'list-gateway-changes' : 'list-open-gateway-changes',
    text: `select g.*, d.gateway_id, d.customer_id
             from read.gateway_changes g join read.deposits d using (deposit_id)
            ${all ? '' : 'where g.reviewed_at is null'}
            order by g.reported_at desc, g.deposit_id desc, g.number desc limit $1::bigint offset $2::bigint`,
    values: [limit, offset],
  })
  return rows
}

/** Reports of providers about deposits that no event books, for operators. */
export const gatewayChanges: ReadModel = {
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
        deposit_id: depositId,
        number,
        account_id: accountId,
        change,
        reference,
        amount,
        reported_at: metadata.recordedAt,
        reviewed_at: null,
        note: null,
      })
    }
    if (event.type !== 'DepositChangeReviewed') return
    const { data, metadata } = event as RecordedEvent<DepositChangeReviewed>
    const { depositId, number, note } = data
    const row = rows.get(gatewayChangesTable, [depositId, number])
    if (!row) throw new Error(`change ${number} of deposit ${depositId}, which was never reported`)
    rows.put(gatewayChangesTable, { ...row, reviewed_at: metadata.recordedAt, note })
  },
}
