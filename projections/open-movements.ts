import type { ManualMovement, ManualMovementEvent } from '../src/domain/ledger/manual-movements.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { ownerOf } from '../src/kernel/streams.ts'
import { column, type RowOf, readModel, readTable } from '../src/platform/projections/read-model.ts'

/** A manual movement that was recorded and neither applied nor withdrawn. */
const openMovementsTable = readTable({
  name: 'open_movements',
  columns: {
    movementId: column.text(),
    movement: column.jsonb<ManualMovement>(),
    openedAt: column.timestamptz(),
  },
  key: ['movementId'],
  indexes: ['opened_at'],
})

export type OpenMovementRow = RowOf<typeof openMovementsTable>

/**
 * Read by `src/features/wallet/wallet-service.ts`. On Postgres a movement is appended in one commit, so a row is
 * inserted and removed within one batch and nothing is written. After a crash between two appends on EventStoreDB the
 * row remains.
 */
export const openMovements = readModel({
  name: 'open-movements',
  version: 2,
  tables: [openMovementsTable],
  reads: () => [],
  apply: (recorded, rows) => {
    const event = recorded as RecordedEvent<ManualMovementEvent>
    switch (event.type) {
      case 'ManualMovementRecorded':
        return rows.insert(openMovementsTable, {
          movementId: ownerOf(event.stream),
          movement: event.data,
          openedAt: event.metadata.recordedAt,
        })
      case 'ManualMovementApplied':
      case 'ManualMovementWithdrawn':
        return rows.remove(openMovementsTable, [ownerOf(event.stream)])
    }
  },
})
