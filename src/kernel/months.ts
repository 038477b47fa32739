declare const brand: unique symbol

/** An accounting month, `2026-11`: from its first instant in UTC to that of the next month. */
export type Period = string & { readonly [brand]: 'Period' }

const pattern = /^\d{4}-(0[1-9]|1[0-2])$/

/** Null for an invalid month. */
export const parsePeriod = (text: string): Period | null => (pattern.test(text) ? (text as Period) : null)

/** The month of an instant in the format of events (`isoTime`). */
export const periodOf = (iso: string): Period => iso.slice(0, 7) as Period

const monthOf = (epochMs: number): Period => periodOf(new Date(epochMs).toISOString())

/** The first instant after the month, milliseconds. */
export const endOfPeriodMs = (period: Period): number =>
  Date.UTC(Number(period.slice(0, 4)), Number(period.slice(5)), 1)

export const nextPeriod = (period: Period): Period => monthOf(endOfPeriodMs(period))

export const periodBefore = (period: Period): Period => monthOf(Date.parse(`${period}-01T00:00:00Z`) - 1)

/** The months from `first` through `last`, in order; empty if `last` is before `first`. */
export const periodsThrough = (first: Period, last: Period): readonly Period[] => {
  const periods: Period[] = []
  for (let period = first; period <= last; period = nextPeriod(period)) periods.push(period)
  return periods
}

/** A month cannot be closed earlier than this after its end: until then a slow process may still book into it. */
export const closingDelayMs = 5 * 60_000
