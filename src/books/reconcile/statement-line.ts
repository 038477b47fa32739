/** What a line of a provider's statement is, in one word for all providers. */
export const lineKinds = [
  'payment',
  'refund',
  'dispute',
  'dispute_reversal',
  'fee',
  'payout',
  'payout_reversal',
  'other',
] as const
export type LineKind = (typeof lineKinds)[number]

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
