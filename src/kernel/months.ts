declare const brand: unique symbol

/** An accounting month, `2026-11`. Its first and last instants depend on the time zone (calendar.ts). */
export type Period = string & { readonly [brand]: 'Period' }

const pattern = /^\d{4}-(0[1-9]|1[0-2])$/

/** Null for an invalid month. */
export const parsePeriod = (text: string): Period | null => (pattern.test(text) ? (text as Period) : null)

const monthAfter = (period: Period, months: number): Period =>
  new Date(Date.UTC(Number(period.slice(0, 4)), Number(period.slice(5)) - 1 + months))
    .toISOString()
    .slice(0, 7) as Period

export const nextPeriod = (period: Period): Period => monthAfter(period, 1)

export const periodBefore = (period: Period): Period => monthAfter(period, -1)

/** The months from `first` through `last`, in order; empty if `last` is before `first`. */
export const periodsThrough = (first: Period, last: Period): readonly Period[] => {
  const periods: Period[] = []
  for (let period = first; period <= last; period = nextPeriod(period)) periods.push(period)
  return periods
}

/** A month cannot be closed earlier than this after its end: until then a slow process may still book into it. */
export const closingDelayMs = 5 * 60_000
