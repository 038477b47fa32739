import { type Decimal, GatewayUnavailable, parseDecimalText, shareMicros } from '../payments/index.ts'
import { type Cells, plainDecimal } from './csv-cells.ts'
import type { Layout, OtherAmount, StatementFormat } from './statement-format.ts'

const microsPerCent = 10_000n

/** Micro-units rounded down, as the log stores converted amounts. */
export const flooredMicros = ({ digits, scale }: Decimal): bigint =>
  (digits * 1_000_000n) / 10n ** BigInt(scale)

/** The unit of the last decimal of a converted amount in a file, in micro-units. */
export const unitOf = ({ scale }: Decimal): bigint => {
  const unit = scale >= 6 ? 1n : 10n ** BigInt(6 - scale)
  // A file may write 25.50 as 25.5. No report is coarser than a cent.
  return unit > microsPerCent ? microsPerCent : unit
}

/** The payment in coins; null if the file has none. @throws FileProblem */
export const coinsOf = (cells: Cells, currency: string, amount: string): OtherAmount | null => {
  if (cells.text(currency) === '' || cells.text(amount) === '') return null
  const value = parseDecimalText(cells.text(amount))
  if (value === null)
    throw cells.problem(amount, 'an amount of coins is digits with a point, such as 0.00012')
  return { currency: cells.currency(currency), amount: plainDecimal(value) }
}

const final = new Set(['finished', 'partially_paid'])
const statuses = [
  'waiting',
  'confirming',
  'confirmed',
  'sending',
  'partially_paid',
  'finished',
  'failed',
  'refunded',
  'expired',
]

/** The received part of the price, as src/features/payments/nowpayments.ts credits it. */
const paidMicros = (cells: Cells): bigint => {
  if (cells.text('actually_paid') === '') return 0n
  try {
    const [price, paid, payAmount] = [
      cells.decimal('price_amount'),
      cells.decimal('actually_paid'),
      cells.decimal('pay_amount'),
    ]
    return BigInt(shareMicros(price, paid, payAmount))
  } catch (error) {
    if (!(error instanceof GatewayUnavailable)) throw error
    throw cells.problem('actually_paid', 'what was paid is 0 or more, and less than 9,000,000,000 dollars')
  }
}

const payments: Layout = {
  name: 'payments',
  covers: ['payments'],
  columns: [
    'payment_id',
    'payment_status',
    'price_amount',
    'price_currency',
    'pay_amount',
    'pay_currency',
    'actually_paid',
    'created_at',
  ],
  start: () => (cells) => {
    const status = cells.text('payment_status').toLowerCase().replaceAll(' ', '_')
    if (!statuses.includes(status))
      throw cells.problem('payment_status', `it is one of ${statuses.join(', ')}`)
    const paymentId = cells.id('payment_id')
    const isFinal = final.has(status)
    return {
      line: cells.line,
      kind: 'payment',
      word: status,
      externalId: paymentId,
      key: `payment:${paymentId}`,
      at: cells.time('created_at'),
      currency: cells.currency('price_currency'),
      amountMicros: isFinal ? paidMicros(cells) : 0n,
      unitMicros: 1n,
      feeMicros: 0n,
      coins: isFinal ? coinsOf(cells, 'pay_currency', 'actually_paid') : null,
      final: isFinal,
    }
  },
}

/** The list of payments of a NOWPayments account. */
export const nowpayments: StatementFormat = { provider: 'nowpayments', layouts: [payments] }
