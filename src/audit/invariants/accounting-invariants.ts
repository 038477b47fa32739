import { streamOfLine } from '../../domain/ledger/statement-lines.ts'
import { utcCalendar } from '../../kernel/calendar.ts'
import type { Period } from '../../kernel/months.ts'
import { column, type RowOf, readTable } from '../../platform/projections/read-model.ts'
import {
  type Context,
  inDollars,
  invariant,
  type Recorded,
  recordedMs,
  rowKey,
  subjectOf,
} from './invariant.ts'

/** A movement that must not be repeated, or a hold with the reserved amount. */
const movementsTable = readTable({
  name: 'audit_movements',
  columns: {
    accountId: column.text(),
    movementId: column.text(),
    amountMicros: column.bigint(),
    open: column.boolean(),
  },
  key: ['accountId', 'movementId'],
})
type MovementRow = RowOf<typeof movementsTable>

type Movement = Recorded<
  | 'WalletCredited'
  | 'WalletAdjusted'
  | 'CustomerCredited'
  | 'CustomerAdjusted'
  | 'FundsHeld'
  | 'HoldCaptured'
  | 'HoldReleased'
>

/** The unique id of a movement within its ledger; null for refunds, which order-invariants.ts checks. */
const movementIdOf = ({ type, data }: Movement): string | null => {
  switch (type) {
    case 'WalletCredited':
      return data.source === 'refund'
        ? null
        : JSON.stringify(['credit', data.source, data.gateway, data.reference])
    case 'WalletAdjusted':
      return JSON.stringify(['adjustment', data.reference])
    case 'CustomerCredited':
      return JSON.stringify(['payment', data.gateway, data.reference])
    case 'CustomerAdjusted':
      return JSON.stringify(['customer-adjustment', data.customerId, data.reference])
    default:
      return JSON.stringify(['hold', data.holdId])
  }
}

const movementRow = (event: Movement, open: boolean): MovementRow => ({
  accountId: subjectOf(event),
  movementId: movementIdOf(event)!,
  amountMicros: event.data.amountMicros,
  open,
})

const checkMoved = (event: Movement, previous: MovementRow | undefined, { report }: Context): MovementRow => {
  const row = movementRow(event, event.type === 'FundsHeld')
  if (previous !== undefined) report('movement-twice', `${row.movementId} moved money before`)
  return row
}

const checkHoldEnd = (
  event: Recorded<'HoldCaptured' | 'HoldReleased'>,
  hold: MovementRow | undefined,
  { report }: Context,
): MovementRow => {
  const { holdId, amountMicros } = event.data
  if (!hold?.open) report('hold-not-open', `hold ${holdId} is not open`)
  else if (hold.amountMicros !== amountMicros)
    report(
      'hold-amount',
      `hold ${holdId} reserved ${inDollars(hold.amountMicros)}, not ${inDollars(amountMicros)}`,
    )
  return movementRow(event, false)
}

/** A payment, a correction or a hold happens once. A hold ends once, with its full amount. */
export const movementRules = invariant({
  name: 'audit-movements',
  version: 2,
  table: movementsTable,
  kind: 'ledger-',
  key: (event) => {
    const id = movementIdOf(event)
    return id === null ? null : [subjectOf(event), id]
  },
  on: {
    WalletCredited: checkMoved,
    WalletAdjusted: checkMoved,
    CustomerCredited: checkMoved,
    CustomerAdjusted: checkMoved,
    FundsHeld: checkMoved,
    HoldCaptured: checkHoldEnd,
    HoldReleased: checkHoldEnd,
  },
})

/** A gateway of the service with at least one movement of a wallet. */
const gatewaysTable = readTable({
  name: 'audit_gateways',
  columns: { gateway: column.text() },
  key: ['gateway'],
})
/** A booked line of a statement, with its corrections. */
const linesTable = readTable({
  name: 'audit_statement_lines',
  columns: {
    gateway: column.text(),
    reference: column.text(),
    feeMicros: column.bigint(),
    payoutMicros: column.bigint(),
    happenedAt: column.text(),
  },
  key: ['gateway', 'reference'],
})

type GatewayRow = RowOf<typeof gatewaysTable>

const addGateway = (
  { data: { gateway } }: Recorded<'WalletCredited' | 'WalletAdjusted'>,
  row: GatewayRow | undefined,
): GatewayRow | undefined => (row === undefined && gateway !== null ? { gateway } : undefined)

/**
 * A line of a statement is booked once, in the stream of its gateway and id. Its amount is not zero, and an earlier
 * movement of a wallet used its gateway. Only a booked line is corrected, at its time in the statement.
 */
export const statementRules = invariant({
  name: 'audit-statements',
  version: 4,
  table: gatewaysTable,
  tables: [linesTable],
  key: ({ data }) => data.gateway,
  reads: ({ type, data }) =>
    type === 'StatementLineBooked' || type === 'StatementLineCorrected'
      ? [rowKey(linesTable, data.gateway, data.reference)]
      : [],
  on: {
    WalletCredited: addGateway,
    WalletAdjusted: addGateway,
    StatementLineBooked: ({ stream, data }, gatewayRow, { rows, report }) => {
      const { gateway, reference, feeMicros, payoutMicros, happenedAt } = data
      if (stream !== streamOfLine(data))
        report('line-elsewhere', `the stream of line ${reference} of ${gateway} is ${streamOfLine(data)}`)
      if (feeMicros === 0 && payoutMicros === 0)
        report('line-of-nothing', 'it books neither a fee nor a payout')
      if (gatewayRow === undefined)
        report(
          'line-of-no-gateway',
          `no wallet's money ever came or went by ${gateway}, whose statement it books`,
        )
      if (rows.get(linesTable, [gateway, reference]) !== undefined)
        report('line-twice', `line ${reference} of ${gateway} was booked before`)
      rows.put(linesTable, { gateway, reference, feeMicros, payoutMicros, happenedAt })
    },
    StatementLineCorrected: ({ stream, data }, _, { rows, report }) => {
      const { gateway, reference, feeAfterMicros, payoutAfterMicros } = data
      if (stream !== streamOfLine(data))
        report('line-elsewhere', `the stream of line ${reference} of ${gateway} is ${streamOfLine(data)}`)
      if (data.feeMicros === 0 && data.payoutMicros === 0)
        report('line-of-nothing', 'it corrects neither a fee nor a payout')
      const line = rows.get(linesTable, [gateway, reference])
      if (line === undefined)
        return report('line-not-booked', `line ${reference} of ${gateway} was never booked`)
      if (
        line.feeMicros + data.feeMicros !== feeAfterMicros ||
        line.payoutMicros + data.payoutMicros !== payoutAfterMicros
      )
        report('line-correction', `line ${reference} of ${gateway} does not have the corrected amounts`)
      if (line.happenedAt !== data.happenedAt)
        report('line-correction', `line ${reference} of ${gateway} was booked with another time`)
      rows.put(linesTable, {
        ...line,
        feeMicros: feeAfterMicros,
        payoutMicros: payoutAfterMicros,
      })
    },
  },
})

/** The largest difference of a time zone from UTC, milliseconds. */
const maxOffsetMs = 14 * 3_600_000

/**
 * A month is cut off once, after its end in the accounting time zone, and closed once, after its cut-off
 * (docs/finance/periods.md). It follows that nothing is booked in the month afterwards: accounting time never runs back,
 * and a line of a statement is not dated before the end of a month that was cut off.
 */
export const periodRules = invariant({
  name: 'audit-periods',
  version: 3,
  table: readTable({
    name: 'audit_periods',
    columns: { period: column.text(), closed: column.boolean() },
    key: ['period'],
  }),
  key: ({ data }) => data.period,
  on: {
    PeriodCutOff: (event, previous, { report }) => {
      const { period, endedAt } = event.data
      if (previous !== undefined) report('period-twice', `${period} was cut off before`)
      if (recordedMs(event) < Date.parse(endedAt))
        report('period-early', `${period} ends at ${endedAt} and was cut off before that`)
      if (Math.abs(Date.parse(endedAt) - utcCalendar.endOfPeriodMs(period as Period)) > maxOffsetMs)
        report('period-end', `${period} ends at ${endedAt} in no time zone`)
      return { period, closed: false }
    },
    PeriodClosed: ({ data: { period } }, previous, { report }) => {
      if (previous === undefined) report('period-open', `${period} was closed without a cut-off`)
      if (previous?.closed) report('period-twice', `${period} was closed before`)
      return { period, closed: true }
    },
  },
})
