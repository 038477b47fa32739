import type { Cells } from './cells.ts'
import type { StatementLine } from './statement-line.ts'

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
