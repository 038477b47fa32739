import type { Cells } from './csv-cells.ts'
import { coinsOf, flooredMicros, unitOf } from './nowpayments-statement.ts'
import type { Layout, StatementFormat, StatementLine } from './statement-format.ts'

/** Statuses of invoices whose payments are not all final. Old versions use `paid` for an unconfirmed invoice. */
const pendingStatuses = new Set(['new', 'pending', 'processing', 'paid'])

/**
 * Whether the payments of an invoice with this status are final. Old versions add an exception: `New (paidPartial)`.
 */
const isFinal = (status: string): boolean =>
  !pendingStatuses.has(status.toLowerCase().split(/[ (]/, 1)[0] ?? '')

const isYes = (cells: Cells, column: string): boolean => {
  const value = cells.text(column).toLowerCase()
  if (value !== 'true' && value !== 'false') throw cells.problem(column, 'it is true or false')
  return value === 'true'
}

/** The columns of a report that have the same meaning under other names. */
type Columns = {
  readonly at: string
  readonly payment: string | null
  readonly currency: string
  readonly amount: string
  readonly coin: string
  readonly coins: string
}

const lineOf = (
  cells: Cells,
  { at, payment, amount, coin, coins }: Columns,
  { currency, final }: { readonly currency: string; readonly final: boolean },
): StatementLine => {
  const orderId = payment === null ? cells.idOrNull('OrderId') : null
  const paymentId = payment === null ? null : cells.id(payment)
  return {
    line: cells.line,
    kind: 'payment',
    word: 'payment',
    externalId: paymentId,
    key: paymentId === null ? orderId && `deposit:${orderId}` : `payment:${paymentId}`,
    at: cells.time(at),
    currency,
    amountMicros: cells.micros(amount, flooredMicros),
    unitMicros: unitOf(cells.decimal(amount)),
    feeMicros: 0n,
    coins: coinsOf(cells, coin, coins),
    final,
  }
}

const columnNames = (columns: Columns): readonly string[] =>
  Object.values(columns).filter((name) => name !== null)

const invoiceColumns: Columns = {
  at: 'PaymentReceivedDate',
  payment: 'PaymentId',
  currency: 'InvoiceCurrency',
  amount: 'PaymentInvoiceAmount',
  coin: 'PaymentCurrency',
  coins: 'PaymentAmount',
}

/**
 * One line for each payment. The invoice's own values are only in its first line. An invoice without payments has one
 * line.
 */
const invoices: Layout = {
  name: 'Invoices',
  covers: ['payments'],
  columns: [...columnNames(invoiceColumns), 'InvoiceId', 'InvoiceStatus'],
  start: () => {
    let invoice = { id: '', currency: '', status: '' }
    return (cells) => {
      const id = cells.id('InvoiceId')
      if (id !== invoice.id)
        invoice = {
          id,
          currency: cells.currency('InvoiceCurrency'),
          status: cells.id('InvoiceStatus'),
        }
      if (cells.text('PaymentId') === '') return null
      return lineOf(cells, invoiceColumns, {
        currency: invoice.currency,
        final: isFinal(invoice.status),
      })
    }
  },
}

const legacyColumns: Columns = {
  at: 'ReceivedDate',
  payment: 'PaymentId',
  currency: 'InvoiceCurrency',
  amount: 'PaidCurrency',
  coin: 'CryptoCode',
  coins: 'Paid',
}

const legacy: Layout = {
  name: 'Legacy Invoice Export',
  covers: ['payments'],
  columns: [...columnNames(legacyColumns), 'InvoiceId', 'InvoiceStatus', 'Accounted'],
  start: () => (cells) => {
    if (cells.text('PaymentId') === '') return null
    const final = isYes(cells, 'Accounted') && isFinal(cells.text('InvoiceStatus'))
    return lineOf(cells, legacyColumns, { currency: cells.currency('InvoiceCurrency'), final })
  },
}

const paymentLayout = (name: string, columns: Columns): Layout => ({
  name,
  covers: ['payments'],
  columns: [...columnNames(columns), 'InvoiceId', 'OrderId', 'Confirmed'],
  start: () => (cells) =>
    lineOf(cells, columns, { currency: cells.currency(columns.currency), final: isYes(cells, 'Confirmed') }),
})

/**
 * Payments have no ids here. They are matched by the invoice's order id, which is the deposit's id. Times are the
 * invoice's.
 */
const payments = paymentLayout('Payments', {
  at: 'Date',
  payment: null,
  currency: 'InvoiceCurrency',
  amount: 'InvoiceCurrencyAmount',
  coin: 'PaymentCurrency',
  coins: 'PaymentAmount',
})

const olderPayments = paymentLayout('Payments (before BTCPay 2)', {
  at: 'Date',
  payment: 'PaymentId',
  currency: 'Currency',
  amount: 'CurrencyAmount',
  coin: 'Crypto',
  coins: 'CryptoAmount',
})

/** BTCPay Server's reports. It has no balance: payments go directly to the shop's own wallet. */
export const btcpay: StatementFormat = {
  provider: 'btcpay',
  layouts: [invoices, legacy, olderPayments, payments],
}
