/**
 * How often a subscription renews, in the words of the catalogue (docs/reference/api.md, "Catalogue and prices",
 * `billing.intervals`).
 */
export const intervals = ['month', 'year'] as const
export type Interval = (typeof intervals)[number]

/**
 * What one payment lasts. Traffic is paid by calendar months: `month` 1 or 12. Products that are sold for a time, such
 * as rented addresses, last as long as was paid for: `day` 30 or 365.
 */
export type Period = { readonly unit: 'day' | 'month'; readonly count: number }

const dayMs = 24 * 60 * 60 * 1000

/**
 * The same day and time `months` later, UTC, in milliseconds. If the month does not have that day, its last day is
 * used: 31 January, 28 or 29 February, 31 March; 29 February, 28 February of a common year.
 */
const addMonths = (fromMs: number, months: number): number => {
  const from = new Date(fromMs)
  const [year, month] = [from.getUTCFullYear(), from.getUTCMonth() + months]
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate()
  const day = Math.min(from.getUTCDate(), lastDay)
  return Date.UTC(year, month, day) + (fromMs - Date.UTC(year, from.getUTCMonth(), from.getUTCDate()))
}

/**
 * When the n-th period from `startMs` ends, milliseconds since the epoch. It is always counted from the start, so that
 * a short month does not shift later periods.
 */
export const endOfPeriod = (startMs: number, { unit, count }: Period, n: number): number =>
  unit === 'day' ? startMs + n * count * dayMs : addMonths(startMs, n * count)

/** How many days a product that is sold for a time lasts under each interval. */
export const intervalDays: Readonly<Record<Interval, number>> = { month: 30, year: 365 }

/**
 * How long after the start of a period its payment is tried before the subscription expires, milliseconds
 * (docs/reference/api.md).
 */
export const graceMs = 3 * dayMs

/**
 * Rented addresses cannot be extended after their end, so their next period is paid up to this long before,
 * milliseconds.
 */
export const rentalLeadMs = dayMs
