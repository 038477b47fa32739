/** The crash points of an order. */
export const orderPoints = [
  'before-append',
  'after-append',
  'before-answer',
  'before-snapshot',
  'after-snapshot',
  'projection-batch-folded',
  'projection-batch-sent',
] as const

/** The crash points of a payment. */
export const paymentPoints = [
  'deposit-logged',
  'invoice-made',
  'callback-stored',
  'invoice-fetched',
  'payment-credited',
] as const

/** The crash points of a scrape: before the fetch, after the fetch, after its result is stored, at its end. */
export const scrapePoints = ['scrape-started', 'scrape-fetched', 'scrape-kept', 'scrape-finished'] as const

/** The provider made a refund, and the log does not say so yet. */
export const refundPoints = ['refund-made'] as const

/** The provider answered for an automatic top-up, and the log does not say so yet. */
export const topupPoints = ['topup-charged'] as const

/** The points at which a crash test may kill the process (`FAREBOX_CRASH_AT`). */
export const crashPoints = [
  ...orderPoints,
  ...paymentPoints,
  ...refundPoints,
  ...topupPoints,
  ...scrapePoints,
] as const

export type CrashPoint = (typeof crashPoints)[number]

/** A crash point and the pass at which the process is killed, counted from 1. */
export type CrashAt = { readonly point: CrashPoint; readonly pass: number }

/** Parses `<point>:<n>`; null for any other text. */
export const parseCrashAt = (text: string): CrashAt | null => {
  const [point, pass, ...rest] = text.split(':')
  const known = crashPoints.find((name) => name === point)
  if (!known || rest.length > 0 || !/^[1-9]\d{0,8}$/.test(pass ?? '')) return null
  return { point: known, pass: Number(pass) }
}

/** The code of a flow calls `at` when it passes a point. */
export type CrashHooks = { at(point: CrashPoint): void }

/** Hooks that call `kill` at the chosen pass, to end the process like a power cut. With null they do nothing. */
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
