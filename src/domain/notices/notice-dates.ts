import { isoTime, isTime } from '../../kernel/clock.ts'

const months = 'january february march april may june july august september october november december'.split(
  ' ',
)
const monthWords = months.map((name) => `${name}|${name.slice(0, 3)}`).join('|')

/** The accepted forms of a date in a notice, for refusals and help. */
export const dateForms = '2026-12-01, 1 December 2026 or December 1, 2026'

const patterns = [
  { form: /(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)/g, parts: [1, 2, 3] },
  {
    form: new RegExp(
      `(?<!\\d)(\\d{1,2})(?:st|nd|rd|th)? (?:of )?(${monthWords})\\.?,? (\\d{4})(?!\\d)`,
      'gi',
    ),
    parts: [3, 2, 1],
  },
  {
    form: new RegExp(`\\b(${monthWords})\\.? (\\d{1,2})(?:st|nd|rd|th)?,? (\\d{4})(?!\\d)`, 'gi'),
    parts: [3, 1, 2],
  },
] as const

const monthNumber = (text: string): number => {
  const monthPrefix = text.toLowerCase().slice(0, 3)
  return /^\d/.test(text) ? Number(text) : months.findIndex((name) => name.startsWith(monthPrefix)) + 1
}

const isRealDate = (year: number, month: number, day: number): boolean => {
  const date = new Date(Date.UTC(year, month - 1, day))
  return date.getUTCFullYear() === year && date.getUTCMonth() === month - 1 && date.getUTCDate() === day
}

/** Whether a text contains a calendar date in one of the forms of `dateForms`. */
export const namesDate = (text: string): boolean =>
  patterns.some(({ form, parts: [year, month, day] }) =>
    [...text.matchAll(form)].some((match) =>
      isRealDate(Number(match[year]), monthNumber(match[month] ?? ''), Number(match[day])),
    ),
  )

/** The ISO 8601 instant of a date or an instant in UTC; null for any other text. */
export const instantOf = (text: string): string | null => {
  const ms = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?Z)?$/.test(text)
    ? Date.parse(text)
    : Number.NaN
  return isTime(ms) ? isoTime(ms) : null
}
