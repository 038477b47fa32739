import type { DepositChangeReported, DepositChangeReviewed } from '../src/domain/deposits/events.ts'
import type { GatewayChange } from '../src/domain/payments/payments.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { Db } from '../src/platform/postgres/kysely.ts'
import { column, nullable, type RowOf, readModel, readTable } from '../src/platform/projections/read-model.ts'

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
