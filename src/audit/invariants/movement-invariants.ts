import type { LedgerEvent, WalletAdjusted, WalletCredited } from '../../domain/ledger/events.ts'
import { type StatementLineBooked, streamOfLine } from '../../domain/ledger/statement-lines.ts'
import type { ViolationEvent } from '../../domain/seals/events.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { ReadModel, Table } from '../../platform/projections/read-model.ts'
import { inDollars, recordViolation } from './violation.ts'

/** An operator's acknowledgement of an event that violates an invariant. */
export type DecidedRow = {
  event_id: string
  rule: string
  reason: string
  decided_by: string
  decided_at: string
}

export const decidedTable: Table<DecidedRow> = {
  name: 'audit_decided',
  columns: {
    event_id: { type: 'text' },
    rule: { type: 'text' },
    reason: { type: 'text' },
    decided_by: { type: 'text' },
    decided_at: { type: 'text' },
  },
  key: ['event_id', 'rule'],
  indexes: [],
}

/** Not an invariant: collects the acknowledgements of violations. */
export const decidedRules: ReadModel = {
  name: 'audit-decided',
  version: 1,
  tables: [decidedTable],
  takes: { types: new Set(['LawBreachDecided']) },
  reads: () => [],
  apply: (recorded, rows) => {
    const { type, data, metadata } = recorded as RecordedEvent<ViolationEvent>
    if (type !== 'LawBreachDecided') return
    const { eventId, rule, reason } = data
    const { actor, recordedAt } = metadata
    rows.put(decidedTable, {
      event_id: eventId,
      rule,
      reason,
      decided_by: actor.kind === 'operator' ? actor.name : actor.kind,
      decided_at: recordedAt,
    })
  },
}

/** A movement that must not be repeated, or a hold with the reserved amount. */
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

/** The unique id of a movement within its ledger; null for orders and refunds, which order-invariants.ts checks. */
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

/** A payment, a correction or a hold happens once. A hold ends once, with its full amount. */
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
    const previous = rows.get(movementsTable, [accountId, id])
    const row = { account_id: accountId, movement_id: id, amount_micros: amountMicros }
    if (event.type === 'HoldCaptured' || event.type === 'HoldReleased') {
      if (previous === undefined || !previous.open)
        recordViolation(rows, event, 'hold-not-open', `hold ${event.data.holdId} is not open`)
      else if (previous.amount_micros !== amountMicros)
        recordViolation(
          rows,
          event,
          'hold-amount',
          `hold ${event.data.holdId} reserved ${inDollars(previous.amount_micros)}, not ${inDollars(amountMicros)}`,
        )
      rows.put(movementsTable, { ...row, open: false })
      return
    }
    if (previous !== undefined) recordViolation(rows, event, 'movement-twice', `${id} moved money before`)
    rows.put(movementsTable, { ...row, open: event.type === 'FundsHeld' })
  },
}

/** A gateway of the service with at least one movement of a wallet. */
type GatewayRow = { gateway: string }
/** A booked line of a statement. */
type LineRow = { gateway: string; reference: string }

const gatewaysTable: Table<GatewayRow> = {
  name: 'audit_gateways',
  columns: { gateway: { type: 'text' } },
  key: ['gateway'],
  indexes: [],
}
const linesTable: Table<LineRow> = {
  name: 'audit_statement_lines',
  columns: { gateway: { type: 'text' }, reference: { type: 'text' } },
  key: ['gateway', 'reference'],
  indexes: [],
}

const isLine = (event: RecordedEvent): event is RecordedEvent<StatementLineBooked> =>
  event.type === 'StatementLineBooked'

/** The gateway of a wallet's credit or adjustment; null for any other event. */
const gatewayOf = (recorded: RecordedEvent): string | null => {
  const event = recorded as RecordedEvent<WalletCredited | WalletAdjusted>
  return event.type === 'WalletCredited' || event.type === 'WalletAdjusted' ? event.data.gateway : null
}

/**
 * A line of a statement is booked once, in the stream of its gateway and id. Its amount is not zero, and an earlier
 * movement of a wallet used its gateway.
 */
export const statementRules: ReadModel = {
  name: 'audit-statements',
  version: 1,
  tables: [gatewaysTable, linesTable],
  takes: { types: new Set(['WalletCredited', 'WalletAdjusted', 'StatementLineBooked']) },
  reads: (event) => {
    const gateway = gatewayOf(event)
    if (gateway !== null) return [{ table: gatewaysTable.name, key: [gateway] }]
    if (!isLine(event)) return []
    const { gateway: lineGateway, reference } = event.data
    return [
      { table: gatewaysTable.name, key: [lineGateway] },
      { table: linesTable.name, key: [lineGateway, reference] },
    ]
  },
  apply: (event, rows) => {
    const movedGateway = gatewayOf(event)
    if (movedGateway !== null) {
      if (rows.get(gatewaysTable, [movedGateway]) === undefined)
        rows.put(gatewaysTable, { gateway: movedGateway })
      return
    }
    if (!isLine(event)) return
    const { gateway, reference, feeMicros, payoutMicros } = event.data
    const report = (rule: string, problem: string): void => recordViolation(rows, event, rule, problem)
    if (event.stream !== streamOfLine(event.data))
      report('line-elsewhere', `the stream of line ${reference} of ${gateway} is ${streamOfLine(event.data)}`)
    if (feeMicros === 0 && payoutMicros === 0)
      report('line-of-nothing', 'it books neither a fee nor a payout')
    if (rows.get(gatewaysTable, [gateway]) === undefined)
      report(
        'line-of-no-gateway',
        `no wallet's money ever came or went by ${gateway}, whose statement it books`,
      )
    if (rows.get(linesTable, [gateway, reference]) !== undefined)
      report('line-twice', `line ${reference} of ${gateway} was booked before`)
    rows.put(linesTable, { gateway, reference })
  },
}
