/** What a column of a CSV file may be declared to hold. */
export const columnRoles = ['id', 'at', 'amount', 'currency', 'fee', 'kind', 'payment', 'deposit'] as const
export type ColumnRole = (typeof columnRoles)[number]

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

/** What separates cells. */
export const separators = { comma: ',', semicolon: ';', tab: '\t' } as const
export type Separator = keyof typeof separators
