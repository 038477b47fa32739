import { isDate, isInstant } from '../../kernel/clock.ts'
import { parsePosition, positionForm } from '../../kernel/log-position.ts'

/** A moment of the log: a position, or an instant of accounting time. */
export type Moment =
  | { readonly kind: 'position'; readonly position: number }
  | { readonly kind: 'time'; readonly atMs: number }

/** The accepted forms of a moment, for messages and help. */
export const momentForms = `${positionForm}, a date such as 2026-11-21 (its midnight in UTC), or an instant such as 2026-11-21T02:30:00Z`

/** Parses a position, a date or an instant (ISO 8601); null if invalid. */
export const parseMoment = (text: string): Moment | null => {
  const position = parsePosition(text)
  if (position !== null) return { kind: 'position', position }
  return isDate(text) || isInstant(text) ? { kind: 'time', atMs: Date.parse(text) } : null
}

/** The accepted names of a book, for messages and help. */
export const bookForms = 'service, or reseller:ACCOUNT_ID'
