/** The declarable contents of a CSV column. */
export const columnRoles = ['id', 'at', 'amount', 'currency', 'fee', 'kind', 'payment', 'deposit'] as const
export type ColumnRole = (typeof columnRoles)[number]

/** The kind of a statement line, the same for all providers. */
export const lineKinds = [
  'payment',
  'refund',
  'refund_reversal',
  'dispute',
  'dispute_reversal',
  'fee',
  'payout',
  'payout_reversal',
  'other',
] as const
export type LineKind = (typeof lineKinds)[number]

/** Cell separators. */
export const separators = { comma: ',', semicolon: ';', tab: '\t' } as const
export type Separator = keyof typeof separators
