import { kindText } from '../../domain/finance/entry-kinds.ts'
import { csv } from '../../kernel/csv.ts'
import { positionToken } from '../../kernel/log-position.ts'
import { amountWriter, plainDollars } from '../../kernel/money.ts'
import { table } from '../../platform/cli/output.ts'
import { accountText } from './gateway-names.ts'
import type { StatementLine } from './journal.ts'
import { type AccountTotals, closingMicros } from './journal.ts'
import { type Span, spanJson, spanText, sumsJson } from './trial-balance.ts'

export type Statement = {
  readonly span: Span
  readonly book: string
  readonly account: string
  /** The readable name of a reseller's gateway, else null. */
  readonly gateway: string | null
  readonly totals: AccountTotals
  readonly lines: readonly StatementLine[]
}

const lineJson = ({ amountMicros, balanceMicros, ...line }: StatementLine) => ({
  ...line,
  position: positionToken(line.position),
  amountMicros: String(amountMicros),
  balanceMicros: String(balanceMicros),
})

export const statementJson = ({ span, book, account, gateway, totals, lines }: Statement) => ({
  ...spanJson(span),
  book,
  account,
  gateway,
  ...sumsJson(totals),
  lines: lines.map(lineJson),
})

export const statementCsv = ({ book, lines }: Statement): string =>
  csv(
    [
      'position',
      'time',
      'book',
      'account',
      'type',
      'debit',
      'credit',
      'balance',
      'against',
      'order',
      'customer',
      'deposit',
      'reference',
      'actor',
      'request',
      'kind',
    ],
    lines.map((line) => [
      positionToken(line.position),
      line.at,
      book,
      line.account,
      line.type,
      plainDollars(line.amountMicros > 0n ? line.amountMicros : 0n),
      plainDollars(line.amountMicros < 0n ? -line.amountMicros : 0n),
      plainDollars(line.balanceMicros),
      line.against.join(' '),
      line.orderId,
      line.customerId,
      line.depositId,
      line.reference,
      line.actor,
      line.correlationId,
      line.kind,
    ]),
  )

type StatementRow = {
  readonly time: string
  readonly position: string
  readonly label: string
  readonly amount: bigint | null
  readonly balance: bigint
}

const purpose = ({ kind, orderId, depositId, reference }: StatementLine): string =>
  [kindText(kind), orderId, depositId, reference].filter((part) => part !== null).join(' ')

/** Opening balance, lines and closing balance. Debits are positive, credits negative. */
export const statementText = ({ span, book, account, gateway, totals, lines }: Statement): string => {
  const closing = closingMicros(totals)
  const emptyRow = { time: '', position: '', amount: null }
  const rows: readonly StatementRow[] = [
    { ...emptyRow, label: 'OPENING', balance: totals.openingMicros },
    ...lines.map((line) => ({
      time: line.at,
      position: positionToken(line.position),
      label: purpose(line),
      amount: line.amountMicros,
      balance: line.balanceMicros,
    })),
    { ...emptyRow, label: 'CLOSING', balance: closing },
  ]
  const write = amountWriter(rows.flatMap(({ amount, balance }) => [amount ?? 0n, balance]))
  const heading = `${accountText(account, gateway)} in the book ${book}, US dollars, ${spanText(span, true)}; credits are negative`
  return `${heading}\n\n${table(rows, {
    time: 'time',
    position: 'position',
    what: 'label',
    amount: ({ amount }) => (amount === null ? '' : write(amount)),
    balance: ({ balance }) => write(balance),
  })}`
}
