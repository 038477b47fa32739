/** A day of the history. */
export type Day = {
  /** From 0 on. */
  readonly index: number
  /** Midnight UTC, milliseconds since the epoch. */
  readonly startMs: number
  /** How much is asked for, beside an ordinary working day: by the day of the week and the time of the year. */
  readonly demand: number
}

export const hourMs = 3_600_000
export const dayMs = 24 * hourMs

/** From Sunday on: people who collect data at work do less of it on weekends. */
const ofWeekday = [0.55, 1.05, 1.1, 1.1, 1.05, 0.95, 0.6] as const

/** By the day of the year: quiet in July and August and between the years, busiest before the end of November. */
const ofYear = (ms: number): number => {
  const date = new Date(ms)
  const month = date.getUTCMonth() + 1
  const day = date.getUTCDate()
  if (month === 12 && day >= 23) return 0.6
  if (month === 11 && day >= 20) return 1.45
  const yearStartMs = Date.UTC(date.getUTCFullYear(), 0, 1)
  return 1 + 0.12 * Math.cos((2 * Math.PI * ((ms - yearStartMs) / dayMs - 320)) / 365)
}

export const dayOf = (index: number, firstMs: number): Day => {
  const startMs = firstMs + index * dayMs
  return { index, startMs, demand: ofWeekday[new Date(startMs).getUTCDay()]! * ofYear(startMs) }
}

/** How a day's work is shared out over its hours, where people live: little at night, most before noon and after. */
const ofHour = [
  0.2, 0.15, 0.1, 0.1, 0.1, 0.15, 0.3, 0.6, 1, 1.4, 1.6, 1.6, 1.3, 1.4, 1.6, 1.5, 1.3, 1.1, 0.9, 0.8, 0.8,
  0.7, 0.5, 0.3,
] as const
const allHours = ofHour.reduce((sum, share) => sum + share, 0)

/** The share of a day's work in an hour UTC, of somebody so many hours east of there; a day's shares add up to 1. */
export const shareOfHour = (hour: number, eastHours: number): number => {
  const there = (((hour + eastHours) % 24) + 24) % 24
  return (ofHour[there] ?? 0) / allHours
}
