import type { ManualMovement, ManualMovementEvent } from '../src/domain/ledger/manual-movements.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { ownerOf } from '../src/kernel/streams.ts'
import type { ReadModel, Table } from '../src/platform/projections/read-model.ts'

/** A manual movement that was recorded and neither applied nor withdrawn. */
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
 * Read by `src/features/wallet/wallet-service.ts`. On Postgres a movement is appended in one commit, so a row is
 * inserted and removed within one batch and nothing is written. After a crash between two appends on EventStoreDB the
 * row remains.
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
