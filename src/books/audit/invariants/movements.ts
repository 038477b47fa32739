import type { ReadModel, Table } from '../../../../projections/engine/read-model.ts'
import type { LedgerEvent } from '../../../money/ledger/events.ts'
import type { RecordedEvent } from '../../../platform/eventstore/event.ts'
import { inDollars, violate } from './violation.ts'

/** What moved money once and may not do so again, and holds with what they reserved. */
type MovementRow = { account_id: string; movement_id: string; amount_micros: number; open: boolean }

const movementsTable: Table<MovementRow> = {
  name: 'audit_movements',
  columns: {
    account_id: { type: 'text' },
    movement_id: { type: 'text' },
    amount_micros: { type: 'bigint' },
    open: { type: 'boolean' },
  },
  key: ['account_id', 'movement_id'],
  indexes: [],
}

const ledgerPrefix = 'ledger-'

/** What a movement is unique by within its ledger; null where orders and refunds tell (orders.ts). */
const movementIdOf = (event: RecordedEvent<LedgerEvent>): string | null => {
  switch (event.type) {
    case 'WalletCredited':
      return event.data.source === 'refund'
        ? null
        : JSON.stringify(['credit', event.data.source, event.data.gateway, event.data.reference])
    case 'WalletAdjusted':
      return JSON.stringify(['adjustment', event.data.reference])
    case 'CustomerCredited':
      return JSON.stringify(['payment', event.data.gateway, event.data.reference])
    case 'CustomerAdjusted':
      return JSON.stringify(['customer-adjustment', event.data.customerId, event.data.reference])
    case 'FundsHeld':
    case 'HoldCaptured':
    case 'HoldReleased':
      return JSON.stringify(['hold', event.data.holdId])
    default:
      return null
  }
}

/** A payment, a correction or a hold happens once; a hold ends once, whole. */
export const movementRules: ReadModel = {
  name: 'audit-movements',
  version: 1,
  tables: [movementsTable],
  takes: { types: new Set(), streams: new Set([ledgerPrefix]) },
  reads: (event) => {
    if (!event.stream.startsWith(ledgerPrefix)) return []
    const id = movementIdOf(event as RecordedEvent<LedgerEvent>)
    return id === null
      ? []
      : [{ table: movementsTable.name, key: [event.stream.slice(ledgerPrefix.length), id] }]
  },
  apply: (recorded, rows) => {
    if (!recorded.stream.startsWith(ledgerPrefix)) return
    const event = recorded as RecordedEvent<LedgerEvent>
    const id = movementIdOf(event)
    if (id === null || !('amountMicros' in event.data)) return
    const accountId = event.stream.slice(ledgerPrefix.length)
    const { amountMicros } = event.data
    const before = rows.get(movementsTable, [accountId, id])
    const row = { account_id: accountId, movement_id: id, amount_micros: amountMicros }
    if (event.type === 'HoldCaptured' || event.type === 'HoldReleased') {
      if (before === undefined || !before.open)
        violate(rows, event, 'hold-not-open', `hold ${event.data.holdId} is not open`)
      else if (before.amount_micros !== amountMicros)
        violate(
          rows,
          event,
          'hold-amount',
          `hold ${event.data.holdId} reserved ${inDollars(before.amount_micros)}, not ${inDollars(amountMicros)}`,
        )
      rows.put(movementsTable, { ...row, open: false })
      return
    }
    if (before !== undefined) violate(rows, event, 'movement-twice', `${id} moved money before`)
    rows.put(movementsTable, { ...row, open: event.type === 'FundsHeld' })
  },
}
