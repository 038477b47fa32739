import { shareMicros } from '../../money/payments/decimal.ts'
import { GatewayUnavailable } from '../../money/payments/port.ts'
import type { Cells } from './cells.ts'
import { coinsOf } from './coins.ts'
import type { Layout, StatementFormat } from './layout.ts'

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

/** What arrived of the price, as src/money/payments/nowpayments.ts credits it. */
const paidMicros = (cells: Cells): bigint => {
  if (cells.text('actually_paid') === '') return 0n
  try {
    const [price, paid, asked] = [
      cells.decimal('price_amount'),
      cells.decimal('actually_paid'),
      cells.decimal('pay_amount'),
    ]
    return BigInt(shareMicros(price, paid, asked))
  } catch (error) {
    if (!(error instanceof GatewayUnavailable)) throw error
    throw cells.problem('actually_paid', 'what was paid is 0 or more, and less than 9,000,000,000 dollars')
  }
}

const payments: Layout = {
  name: 'payments',
  covers: 'payments',
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
    const arrived = final.has(status)
    return {
      line: cells.line,
      kind: 'payment',
      word: status,
      externalId: paymentId,
      key: `payment:${paymentId}`,
      at: cells.time('created_at'),
      currency: cells.currency('price_currency'),
      amountMicros: arrived ? paidMicros(cells) : 0n,
      unitMicros: 1n,
      feeMicros: 0n,
      coins: arrived ? coinsOf(cells, 'pay_currency', 'actually_paid') : null,
      final: arrived,
    }
  },
}

/** The list of payments of a NOWPayments account. */
export const nowpayments: StatementFormat = { provider: 'nowpayments', layouts: [payments] }
