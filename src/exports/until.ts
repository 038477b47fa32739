/** Up to where an export reads: everything, a position, or what was booked at or before an instant. */
export type Until =
  | { readonly kind: 'position'; readonly position: number }
  /** ISO 8601 UTC with milliseconds: accounting time. */
  | { readonly kind: 'time'; readonly at: string }

const dayPattern = /^\d{4}-\d\d-\d\d$/
const instantPattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)$/

/** What `--until` takes, for messages. */
export const untilForm =
  'a position of the log (a whole number from 1), a day (2026-11-30, to its end in UTC) or an instant (2026-11-30T12:00:00Z)'

/** A day that the calendar does not have (2026-02-30) is none. */
const isDay = (text: string): boolean => {
  const ms = Date.parse(`${text}T00:00:00Z`)
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text)
}

/** Reads `--until`; null when it is neither. */
export const parseUntil = (text: string): Until | null => {
  if (/^[1-9]\d{0,15}$/.test(text) && Number.isSafeInteger(Number(text)))
    return { kind: 'position', position: Number(text) }
  if (dayPattern.test(text)) return isDay(text) ? { kind: 'time', at: `${text}T23:59:59.999Z` } : null
  if (!instantPattern.test(text) || !isDay(text.slice(0, 10))) return null
  const ms = Date.parse(text)
  return Number.isNaN(ms) ? null : { kind: 'time', at: new Date(ms).toISOString() }
}
