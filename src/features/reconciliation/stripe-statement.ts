import type { Cells } from './csv-cells.ts'
import type { Layout, StatementFormat, StatementLine } from './statement-format.ts'
import type { LineKind } from './statement-words.ts'

/** Stripe's reporting categories. Others map to `other`. */
const kinds: Readonly<Record<string, LineKind>> = {
  charge: 'payment',
  refund: 'refund',
  refund_failure: 'refund_reversal',
  dispute: 'dispute',
  dispute_reversal: 'dispute_reversal',
  fee: 'fee',
  network_cost: 'fee',
  tax: 'fee',
  payout: 'payout',
  payout_reversal: 'payout_reversal',
}

const deposit = 'payment_metadata[deposit_id]'

/** The movements of a refund or a dispute are booked under its id (src/features/deposits/reversals.ts). */
const keyOf = (kind: LineKind, cells: Cells): string | null => {
  switch (kind) {
    case 'payment':
      return cells.text(deposit) === '' ? null : `deposit:${cells.id(deposit)}`
    case 'dispute':
    case 'dispute_reversal':
    case 'refund':
    case 'refund_reversal':
      return `payment:stripe ${cells.id('source_id')}`
    default:
      return null
  }
}

const sizeOf = (micros: bigint): bigint => (micros < 0n ? -micros : micros)

/** A payout lowers the balance and a reversal raises it, whatever sign the report writes. */
const signedOf = (kind: LineKind, grossMicros: bigint): bigint => {
  if (kind === 'payout') return -sizeOf(grossMicros)
  return kind === 'payout_reversal' ? sizeOf(grossMicros) : grossMicros
}

const lineOf = (cells: Cells, times: readonly string[], keyed: boolean): StatementLine => {
  const word = cells.id('reporting_category')
  const kind = kinds[word] ?? 'other'
  const [gross, feeMicros, net] = [cells.micros('gross'), cells.micros('fee'), cells.micros('net')]
  if (gross - feeMicros !== net) throw cells.problem('net', 'it is gross less fee')
  return {
    line: cells.line,
    kind,
    word,
    externalId: cells.id('balance_transaction_id'),
    key: keyed ? keyOf(kind, cells) : null,
    at: cells.time(...times),
    currency: cells.currency('currency'),
    amountMicros: signedOf(kind, gross),
    unitMicros: 1n,
    feeMicros,
    coins: null,
    final: true,
  }
}

const amounts = ['balance_transaction_id', 'reporting_category', 'currency', 'gross', 'fee', 'net']

const payouts: Layout = {
  name: 'payouts (itemised)',
  covers: ['payouts'],
  columns: ['payout_id', ...amounts, ['effective_at_utc', 'effective_at']],
  start: () => (cells) => lineOf(cells, ['effective_at_utc', 'effective_at'], false),
}

const balanceChange: Layout = {
  name: 'balance change from activity (itemised)',
  covers: ['payments', 'fees'],
  columns: [...amounts, 'source_id', deposit, ['created_utc', 'created']],
  start: () => (cells) => lineOf(cells, ['created_utc', 'created'], true),
}

/** Stripe's balance report. Times without an offset are read as UTC. */
export const stripe: StatementFormat = { provider: 'stripe', layouts: [payouts, balanceChange] }
