import { type Cells, headingKey } from './cells.ts'
import type { StatementFormat } from './layout.ts'
import type { LineKind } from './statement-line.ts'

/** What a column of a CSV file may be declared to hold. */
export const columnRoles = ['id', 'at', 'amount', 'currency', 'fee', 'kind', 'payment', 'deposit'] as const
export type ColumnRole = (typeof columnRoles)[number]

export type Declared = {
  /** The heading of each column that is read. */
  readonly columns: Readonly<Partial<Record<ColumnRole, string>>>
  /** What each word of the column `kind` means; a word that is not here is refused. */
  readonly words: Readonly<Record<string, LineKind>>
}

/** What is missing of a declaration; null for nothing. */
export const missingOf = ({ columns, words }: Declared): string | null => {
  const missing = (['at', 'amount'] as const).filter((role) => columns[role] === undefined)
  if (missing.length > 0) return `declare the columns ${missing.join(' and ')}`
  if (columns.payment === undefined && columns.deposit === undefined)
    return 'declare the column payment (the id of the payment at the provider) or deposit (dep_…)'
  if (columns.kind !== undefined && Object.keys(words).length === 0)
    return 'say what the words of the column kind mean: --word sale=payment'
  return null
}

const kindOf = (
  cells: Cells,
  { columns, words }: Declared,
): { readonly kind: LineKind; readonly word: string } => {
  if (columns.kind === undefined) return { kind: 'payment', word: 'payment' }
  const word = cells.text(columns.kind)
  const kind = Object.hasOwn(words, word) ? words[word] : undefined
  if (kind === undefined)
    throw cells.problem(
      columns.kind,
      `declared are ${Object.keys(words).join(', ')}; declare more with --word WORD=KIND`,
    )
  return { kind, word }
}

/** Any CSV file, by what was declared of its columns. Amounts have the sign with which they move the balance. */
export const declaredFormat = (declared: Declared): StatementFormat => {
  const { columns } = declared
  const [at, amount] = [columns.at as string, columns.amount as string]
  const keyOf = (cells: Cells): string | null => {
    const reference = columns.payment === undefined ? null : cells.idOrNull(columns.payment)
    if (reference !== null) return `payment:${reference}`
    const depositId = columns.deposit === undefined ? null : cells.idOrNull(columns.deposit)
    return depositId === null ? null : `deposit:${depositId}`
  }
  return {
    provider: 'csv',
    layouts: [
      {
        name: 'declared columns',
        covers: 'payments',
        columns: [...new Map(Object.values(columns).map((name) => [headingKey(name), name])).values()],
        start: () => (cells) => ({
          line: cells.line,
          ...kindOf(cells, declared),
          externalId: columns.id === undefined ? null : cells.id(columns.id),
          key: keyOf(cells),
          at: cells.time(at),
          currency: columns.currency === undefined ? 'usd' : cells.currency(columns.currency),
          amountMicros: cells.micros(amount),
          unitMicros: 1n,
          feeMicros:
            columns.fee === undefined || cells.text(columns.fee) === '' ? 0n : cells.micros(columns.fee),
          coins: null,
          final: true,
        }),
      },
    ],
  }
}
