import { type Cells, headingKey } from './csv-cells.ts'
import type { ColumnRole, LineKind } from './statement-words.ts'

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

/** One report of a provider: which columns tell it, and how its lines read. */
export type Layout = {
  /** E.g. `balance change (itemised)`. */
  readonly name: string
  /** What it says about: a file of payouts does not tell that a payment is missing. */
  readonly covers: 'payments' | 'payouts'
  /** All must be in the heading; of several in one entry one must be. */
  readonly columns: readonly (string | readonly string[])[]
  /** Begins a file: some lines leave out what the line before them said. Null: the line moves nothing. */
  start(): (cells: Cells) => StatementLine | null
}

/** The reports of a provider that are read, the most telling first. */
export type StatementFormat = { readonly provider: string; readonly layouts: readonly Layout[] }

/** Kinds that the log never has of itself: they are the provider's own. */
export const ownKinds: readonly LineKind[] = ['fee', 'payout', 'payout_reversal']

/** An amount of another currency than the books', exactly as it was written. */
export type OtherAmount = { readonly currency: string; readonly amount: string }

/** One line of a statement: what moved the balance at the provider. */
export type StatementLine = {
  /** Of the file, from 1. */
  readonly line: number
  readonly kind: LineKind
  /** The provider's own word for it, e.g. `charge`. */
  readonly word: string
  /** Unique at the provider; null where the report has none. */
  readonly externalId: string | null
  /** How it is found in the log: `payment:` and a reference there, or `deposit:` and the deposit's id; null for neither. */
  readonly key: string | null
  /** ISO 8601 UTC, as precise as the report. */
  readonly at: string
  /** Lower case, e.g. `usd`. */
  readonly currency: string
  /** Micro-units of the currency as the balance moved: above zero it grew. Without fees. */
  readonly amountMicros: bigint
  /** The last place of the amount that is sure: 1, or more where the report rounds what the log has exactly. */
  readonly unitMicros: bigint
  /** What the provider kept for it; above zero it lowers the balance. */
  readonly feeMicros: bigint
  /** What was paid in coins; null where nothing was. */
  readonly coins: OtherAmount | null
  /** Whether the provider says that it is over. What is under way may be missing in the log. */
  readonly final: boolean
}
