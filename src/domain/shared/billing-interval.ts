/**
 * How often a subscription renews, in the catalogue's words (docs/http-api.md, "Catalogue and prices",
 * `billing.intervals`).
 */
export const intervals = ['month', 'year'] as const
export type Interval = (typeof intervals)[number]

/**
 * What one payment lasts. Traffic is paid by the calendar: `month` 1 or 12. What is sold for a time, such as rented
 * addresses, lasts as long as was paid for: `day` 30 or 365.
 */
export type Period = { readonly unit: 'day' | 'month'; readonly count: number }

const dayMs = 24 * 60 * 60 * 1000

/**
 * The same day and time `months` later, UTC. A day that the month does not have is its last one: 31 January, 28 or 29
 * February, 31 March; 29 February, 28 February of a common year.
 */
const addMonths = (fromMs: number, months: number): number => {
  const from = new Date(fromMs)
  const [year, month] = [from.getUTCFullYear(), from.getUTCMonth() + months]
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate()
  const day = Math.min(from.getUTCDate(), lastDay)
  return Date.UTC(year, month, day) + (fromMs - Date.UTC(year, from.getUTCMonth(), from.getUTCDate()))
}

/** When the n-th period from `startMs` on ends. Always counted from the start, so that a short month shifts nothing. */
export const endOfPeriod = (startMs: number, { unit, count }: Period, n: number): number =>
  unit === 'day' ? startMs + n * count * dayMs : addMonths(startMs, n * count)

/** How long what is sold for a time lasts under each interval. */
export const intervalDays: Readonly<Record<Interval, number>> = { month: 30, year: 365 }

/** How long after a period's start its payment is tried before the subscription expires (docs/http-api.md). */
export const graceMs = 3 * dayMs

/** Rented addresses cannot be kept past their end, so their next period is paid up to this long before it. */
export const rentalLeadMs = dayMs
