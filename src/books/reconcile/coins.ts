import { type Decimal, parseDecimalText } from '../../money/payments/decimal.ts'
import { type Cells, plainDecimal } from './cells.ts'
import type { OtherAmount } from './statement-line.ts'

const microsPerCent = 10_000n

/** Micro-units rounded down, as the log has what was converted. */
export const flooredMicros = ({ digits, scale }: Decimal): bigint =>
  (digits * 1_000_000n) / 10n ** BigInt(scale)

/** The last place that a file writes of a converted amount, in micro-units. */
export const unitOf = ({ scale }: Decimal): bigint => {
  const unit = scale >= 6 ? 1n : 10n ** BigInt(6 - scale)
  // A file that writes 25.5 means 25.50: no report is coarser than a cent.
  return unit > microsPerCent ? microsPerCent : unit
}

/** What was paid in coins; null where the file says nothing of it. @throws FileProblem */
export const coinsOf = (cells: Cells, currency: string, amount: string): OtherAmount | null => {
  if (cells.text(currency) === '' || cells.text(amount) === '') return null
  const value = parseDecimalText(cells.text(amount))
  if (value === null)
    throw cells.problem(amount, 'an amount of coins is digits with a point, such as 0.00012')
  return { currency: cells.currency(currency), amount: plainDecimal(value) }
}
