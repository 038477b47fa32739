/** The named points on an order's way. */
export const orderPoints = [
  'before-append',
  'after-append',
  'before-answer',
  'before-snapshot',
  'after-snapshot',
  'projection-batch-folded',
  'projection-batch-sent',
] as const

/** Those on a payment's way. */
export const paymentPoints = [
  'deposit-logged',
  'invoice-made',
  'callback-stored',
  'invoice-fetched',
  'payment-credited',
] as const

/** Those on the way of a scrape: it may be fetched, it was fetched, its result is kept, it is over. */
export const scrapePoints = ['scrape-started', 'scrape-fetched', 'scrape-kept', 'scrape-finished'] as const

/** The named points of a flow at which a crash test may kill the process (`FAREBOX_CRASH_AT`). */
export const crashPoints = [...orderPoints, ...paymentPoints, ...scrapePoints] as const

export type CrashPoint = (typeof crashPoints)[number]

/** The n-th pass of a point, counted from 1. */
export type CrashAt = { readonly point: CrashPoint; readonly pass: number }

/** Null for a text that is not `<point>:<n>`. */
export const parseCrashAt = (text: string): CrashAt | null => {
  const [point, pass, ...rest] = text.split(':')
  const known = crashPoints.find((name) => name === point)
  if (!known || rest.length > 0 || !/^[1-9]\d{0,8}$/.test(pass ?? '')) return null
  return { point: known, pass: Number(pass) }
}

/** What the flows call on their way past a point. */
export type CrashHooks = { at(point: CrashPoint): void }

/** Hooks that do nothing, or that end the process at the chosen pass as a power cut would. */
export const crashHooks = (crashAt: CrashAt | null, kill: () => void): CrashHooks => {
  let passes = 0
  return {
    at: (point) => {
      if (point !== crashAt?.point) return
      passes += 1
      if (passes === crashAt.pass) kill()
    },
  }
}
