import { createTally } from '../../platform/work/tally.ts'

/** Bounds how many checks run at once, in all and for one caller. */
export type Seats = {
  /** Gives one of them back, once for each; or says whose are all taken. */
  take(subject: string, count: number): (() => void) | 'of caller' | 'of all'
  readonly taken: () => number
}

export const createSeats = (limits: { readonly total: number; readonly perCaller: number }): Seats => {
  const byCaller = createTally<string>()
  let taken = 0
  return {
    taken: () => taken,
    take: (subject, count) => {
      if (byCaller.of(subject) + count > limits.perCaller) return 'of caller'
      if (taken + count > limits.total) return 'of all'
      taken += count
      for (let n = 0; n < count; n += 1) byCaller.add(subject)
      return () => {
        taken -= 1
        byCaller.remove(subject)
      }
    },
  }
}
