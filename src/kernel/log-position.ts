/**
 * External positions: a token such as `pos_0_1284`, written and parsed only here. It contains the number of a log and a
 * position in it. Clients must treat it as opaque: they may send it back unchanged and compare it for equality.
 * Internally a position is a number. The letters prevent that spreadsheets and programming languages read the token as
 * a number, a time or a date (docs/decisions/0046).
 */

/** Log 0 is the only log (docs/decisions/0046). */
const token = /^(?:pos_0_)?(\d{1,16})$/

/** The format of a position, for messages and help. */
export const positionForm = 'a position such as pos_0_1284'

/** The external form of a position; 0 is the start of the log. */
export const positionToken = (position: number): string => `pos_0_${position}`

/**
 * Parses a token of this log; null for any other text. It also accepts plain digits, the former format of answers. They
 * are always positions of log 0.
 */
export const parsePosition = (text: string): number | null => {
  const digits = token.exec(text)?.[1]
  const position = digits === undefined ? Number.NaN : Number(digits)
  return Number.isSafeInteger(position) ? position : null
}
