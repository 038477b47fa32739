import type { ManualMovement, ManualMovementEvent } from '../src/domain/ledger/manual-movements.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { ownerOf } from '../src/kernel/streams.ts'
import type { ReadModel, Table } from '../src/platform/projections/read-model.ts'

/** A movement by hand that was recorded and has neither been applied nor withdrawn. */
export type OpenMovementRow = {
  readonly movement_id: string
  readonly movement: ManualMovement
  readonly opened_at: string
}

const openMovementsTable: Table<OpenMovementRow> = {
  name: 'open_movements',
  columns: { movement_id: { type: 'text' }, movement: { type: 'jsonb' }, opened_at: { type: 'timestamptz' } },
  key: ['movement_id'],
  indexes: ['opened_at'],
}

/**
 * What `src/features/wallet/wallet-service.ts` looks at. On Postgres a movement lands in one commit, so rows come and go within
 * one batch and nothing is written; a crash between two appends on EventStoreDB leaves the row standing.
 */
export const openMovements: ReadModel = {
  name: 'open-movements',
  version: 2,
  tables: [openMovementsTable],
  reads: () => [],
  apply: (recorded, rows) => {
    const event = recorded as RecordedEvent<ManualMovementEvent>
    switch (event.type) {
      case 'ManualMovementRecorded':
        return rows.insert(openMovementsTable, {
          movement_id: ownerOf(event.stream),
          movement: event.data,
          opened_at: event.metadata.recordedAt,
        })
      case 'ManualMovementApplied':
      case 'ManualMovementWithdrawn':
        return rows.remove(openMovementsTable, [ownerOf(event.stream)])
    }
  },
}
