import { Temporal } from 'temporal-polyfill'
import { nextPeriod, type Period } from './months.ts'

/** The instants from `fromMs` up to and without `toMs`, milliseconds since the epoch. */
export type TimeSpan = { readonly fromMs: number; readonly toMs: number }

/** Days, weeks and months in a time zone. A day begins at its first instant, also where a clock change skips midnight. */
export type Calendar = {
  /** The name of the zone (IANA), e.g. `Europe/Berlin` or `UTC`. */
  readonly zone: string
  /** The day of an instant, e.g. `2026-11-21`. */
  dayOf(epochMs: number): string
  /** The month of an instant. */
  periodOf(epochMs: number): Period
  /** The first instant of a day, milliseconds. */
  startOfDayMs(day: string): number
  startOfPeriodMs(period: Period): number
  /** The first instant after the month, milliseconds. */
  endOfPeriodMs(period: Period): number
  /** The day, week or month of an instant. A week begins on Monday. */
  spanOf(unit: 'day' | 'week' | 'month', epochMs: number): TimeSpan
}

/** Whether a text names a time zone (IANA). */
export const isTimeZone = (text: string): boolean => {
  try {
    new Intl.DateTimeFormat('en', { timeZone: text })
    return !/^[+-]/.test(text)
  } catch {
    return false
  }
}

const calendars = new Map<string, Calendar>()

/** @throws RangeError for an unknown zone */
export const createCalendar = (zone: string): Calendar => {
  const known = calendars.get(zone)
  if (known) return known
  const calendar = newCalendar(zone)
  calendars.set(zone, calendar)
  return calendar
}

const newCalendar = (zone: string): Calendar => {
  const startOfDayMs = (day: string): number =>
    Temporal.PlainDate.from(day).toZonedDateTime(zone).epochMilliseconds
  // Events of a log follow each other: most are on the same day as the one before.
  let last = { day: '1970-01-01', fromMs: startOfDayMs('1970-01-01'), toMs: startOfDayMs('1970-01-02') }

  const dayOf = (epochMs: number): string => {
    if (epochMs >= last.fromMs && epochMs < last.toMs) return last.day
    const date = Temporal.Instant.fromEpochMilliseconds(epochMs).toZonedDateTimeISO(zone).toPlainDate()
    const day = date.toString()
    last = { day, fromMs: startOfDayMs(day), toMs: startOfDayMs(date.add({ days: 1 }).toString()) }
    return day
  }

  return {
    zone,
    dayOf,
    periodOf: (epochMs) => dayOf(epochMs).slice(0, 7) as Period,
    startOfDayMs,
    startOfPeriodMs: (period) => startOfDayMs(`${period}-01`),
    endOfPeriodMs: (period) => startOfDayMs(`${nextPeriod(period)}-01`),
    spanOf: (unit, epochMs) => {
      const day = Temporal.PlainDate.from(dayOf(epochMs))
      const first =
        unit === 'day'
          ? day
          : unit === 'week'
            ? day.subtract({ days: day.dayOfWeek - 1 })
            : day.with({ day: 1 })
      const next = first.add({ [`${unit}s`]: 1 })
      return { fromMs: startOfDayMs(first.toString()), toMs: startOfDayMs(next.toString()) }
    },
  }
}

export const utcCalendar = createCalendar('UTC')
