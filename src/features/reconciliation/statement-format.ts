import { type Cells, headingKey } from './csv-cells.ts'
import type { ColumnRole, LineKind } from './statement-words.ts'

export type Declared = {
  /** The heading of each column. */
  readonly columns: Readonly<Partial<Record<ColumnRole, string>>>
  /** The kind for each value of the column `kind`. Other values are refused. */
  readonly words: Readonly<Record<string, LineKind>>
}

/** What the declaration lacks; null for nothing. */
export const missingOf = ({ columns, words }: Declared, isBank: boolean): string | null => {
  const missingRoles = (['at', 'amount'] as const).filter((role) => columns[role] === undefined)
  if (missingRoles.length > 0) return `declare the columns ${missingRoles.join(' and ')}`
  if (!isBank && columns.payment === undefined && columns.deposit === undefined)
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

const coverageOf = ({ columns, words }: Declared): readonly Coverage[] => {
  const kinds = new Set(Object.values(words))
  return [
    'payments',
    ...(columns.fee !== undefined || kinds.has('fee') ? (['fees'] as const) : []),
    ...(kinds.has('payout') ? (['payouts'] as const) : []),
  ]
}

/** The name of the layout of declared columns. */
export const declaredColumns = 'declared columns'

/** Any CSV file with declared columns. The sign of an amount is that of its effect on the balance. */
export const declaredFormat = (declared: Declared): StatementFormat => {
  const { columns } = declared
  const [at, amount] = [columns.at as string, columns.amount as string]
  const amountOf = (cells: Cells): bigint => cells.micros(amount)
  const keyOf = (cells: Cells): string | null => {
    if (columns.payment === undefined && columns.deposit === undefined) return `amount:${amountOf(cells)}`
    const reference = columns.payment === undefined ? null : cells.idOrNull(columns.payment)
    if (reference !== null) return `payment:${reference}`
    const depositId = columns.deposit === undefined ? null : cells.idOrNull(columns.deposit)
    return depositId === null ? null : `deposit:${depositId}`
  }
  return {
    provider: 'csv',
    layouts: [
      {
        name: declaredColumns,
        covers: coverageOf(declared),
        columns: [...new Map(Object.values(columns).map((name) => [headingKey(name), name])).values()],
        start: () => (cells) => ({
          line: cells.line,
          ...kindOf(cells, declared),
          externalId: columns.id === undefined ? null : cells.id(columns.id),
          key: keyOf(cells),
          at: cells.time(at),
          currency: columns.currency === undefined ? 'usd' : cells.currency(columns.currency),
          amountMicros: amountOf(cells),
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

export const coverages = ['payments', 'fees', 'payouts'] as const
export type Coverage = (typeof coverages)[number]

/** One report of a provider: the columns that identify it, and the conversion of its lines. */
export type Layout = {
  /** E.g. `balance change (itemised)`. */
  readonly name: string
  /** What the report has all of: a file of payouts cannot show that a payment is missing. */
  readonly covers: readonly Coverage[]
  /** All must be in the heading. An array lists alternatives, of which one is required. */
  readonly columns: readonly (string | readonly string[])[]
  /**
   * Starts a file. The reader has state, because some lines leave out values of the line before them. Null: the line
   * moves nothing.
   */
  start(): (cells: Cells) => StatementLine | null
}

/** The supported reports of a provider, the most detailed first. */
export type StatementFormat = { readonly provider: string; readonly layouts: readonly Layout[] }

/** Kinds that the log never has by itself: they are the provider's own. */
export const ownKinds: readonly LineKind[] = ['fee', 'payout', 'payout_reversal']

/** An amount in another currency than the books', exactly as written. */
export type OtherAmount = { readonly currency: string; readonly amount: string }

/** A line of a statement: a movement of the balance at the provider. */
export type StatementLine = {
  /** Line number in the file, from 1. */
  readonly line: number
  readonly kind: LineKind
  /** The provider's term, e.g. `charge`. */
  readonly word: string
  /** Unique at the provider; null if the report has none. */
  readonly externalId: string | null
  /** The key in the log: `payment:` and its reference, or `deposit:` and the deposit's id; null for neither. */
  readonly key: string | null
  /** ISO 8601 UTC, with the precision of the report. */
  readonly at: string
  /** Lower case, e.g. `usd`. */
  readonly currency: string
  /** Change of the balance in micro-units of the currency, positive for an increase. Without fees. */
  readonly amountMicros: bigint
  /** Precision of the amount: 1, or more if the report rounds what the log has exactly. */
  readonly unitMicros: bigint
  /** The provider's fee; a positive fee lowers the balance. */
  readonly feeMicros: bigint
  /** The payment in coins; null without one. */
  readonly coins: OtherAmount | null
  /** Whether the provider reports it as final. Lines that are not final may be missing in the log. */
  readonly final: boolean
}
