/**
 * Positions outside: a text such as `pos_0_1284`, made and read here only. It names a log and a place in it, and is
 * opaque: whoever holds one sends it back as it came, and compares it for equality at most. Inside a position stays a
 * number. The letters keep spreadsheets and languages from reading it as a number, a time or a date
 * (docs/decisions/0046-doors-to-many-logs.md).
 */

/** Log 0 is the only one that there is (docs/scale.md). */
const token = /^(?:pos_0_)?(\d{1,16})$/

/** What a position may be written as, for messages and help. */
export const positionForm = 'a position such as pos_0_1284'

/** The position as everybody outside sees it; 0 is the start of the log. */
export const positionToken = (position: number): string => `pos_0_${position}`

/**
 * The position that a text names, or null: a token of this log, or the bare digits that answers carried before tokens,
 * which are positions of log 0 for ever.
 */
export const parsePosition = (text: string): number | null => {
  const digits = token.exec(text)?.[1]
  const position = digits === undefined ? Number.NaN : Number(digits)
  return Number.isSafeInteger(position) ? position : null
}
