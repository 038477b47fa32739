import type { ReadModel, Table } from '../../../../projections/engine/read-model.ts'
import type { WalletAdjusted, WalletCredited } from '../../../money/ledger/events.ts'
import { streamOfLine } from '../../../money/ledger/statement-decide.ts'
import type { StatementLineBooked } from '../../../money/ledger/statement-events.ts'
import type { RecordedEvent } from '../../../platform/eventstore/event.ts'
import { violate } from './violation.ts'

/** A gateway of the service that wallets' money came or went by. */
type GatewayRow = { gateway: string }
/** A line of a statement that was booked. */
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

/** The gateway that a wallet's money came from or went back to; null for any other event. */
const movedBy = (recorded: RecordedEvent): string | null => {
  const event = recorded as RecordedEvent<WalletCredited | WalletAdjusted>
  return event.type === 'WalletCredited' || event.type === 'WalletAdjusted' ? event.data.gateway : null
}

/**
 * A line of a statement is booked once, in the stream that its gateway and id name; it moves something; and it is
 * of a gateway that the service's wallets had to do with before.
 */
export const statementRules: ReadModel = {
  name: 'audit-statements',
  version: 1,
  tables: [gatewaysTable, linesTable],
  takes: { types: new Set(['WalletCredited', 'WalletAdjusted', 'StatementLineBooked']) },
  reads: (event) => {
    const gateway = movedBy(event)
    if (gateway !== null) return [{ table: gatewaysTable.name, key: [gateway] }]
    if (!isLine(event)) return []
    const { gateway: of, reference } = event.data
    return [
      { table: gatewaysTable.name, key: [of] },
      { table: linesTable.name, key: [of, reference] },
    ]
  },
  apply: (event, rows) => {
    const moved = movedBy(event)
    if (moved !== null) {
      if (rows.get(gatewaysTable, [moved]) === undefined) rows.put(gatewaysTable, { gateway: moved })
      return
    }
    if (!isLine(event)) return
    const { gateway, reference, feeMicros, payoutMicros } = event.data
    const say = (rule: string, problem: string): void => violate(rows, event, rule, problem)
    if (event.stream !== streamOfLine(event.data))
      say('line-elsewhere', `the stream of line ${reference} of ${gateway} is ${streamOfLine(event.data)}`)
    if (feeMicros === 0 && payoutMicros === 0) say('line-of-nothing', 'it books neither a fee nor a payout')
    if (rows.get(gatewaysTable, [gateway]) === undefined)
      say('line-of-no-gateway', `no wallet's money ever came or went by ${gateway}, whose statement it books`)
    if (rows.get(linesTable, [gateway, reference]) !== undefined)
      say('line-twice', `line ${reference} of ${gateway} was booked before`)
    rows.put(linesTable, { gateway, reference })
  },
}
