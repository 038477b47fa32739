import type { MonotonicClock } from '../../kernel/clock.ts'

export type BreakerOptions = {
  readonly monotonicMs: MonotonicClock
  /** Calls of this time count. */
  readonly windowMs: number
  /** It opens at this many calls of the window at the earliest, */
  readonly minCalls: number
  /** when this share of them failed, from 0 to 1, */
  readonly failedShare: number
  /** and lets the next one through after this, alone. */
  readonly openMs: number
  /** Told of each change. */
  readonly onChange?: (isOpen: boolean) => void
}

/** A call that was let through: say once how it ended, null when it says nothing of the other side. */
export type Pass = (isGood: boolean | null) => void

export type Breaker = {
  /** A pass; or null while it is open. */
  enter(): Pass | null
  /** Whole milliseconds until it lets one through, 0 where it is closed. */
  waitMs(): number
}

const slots = 10

/**
 * Stops calls to what fails, and tries one when some time has gone by. Failures are counted in ten parts of the window, of
 * which the oldest is forgotten at a time.
 */
export const createBreaker = (options: BreakerOptions): Breaker => {
  const { monotonicMs, windowMs, minCalls, failedShare, openMs } = options
  const slotMs = windowMs / slots
  let counts: { readonly slot: number; good: number; bad: number }[] = []
  let openUntil: number | null = null
  let isProbing = false

  const note = (isGood: boolean): void => {
    const slot = Math.floor(monotonicMs() / slotMs)
    if (counts.at(-1)?.slot !== slot) counts = [...counts, { slot, good: 0, bad: 0 }]
    counts = counts.filter((count) => count.slot > slot - slots)
    const last = counts.at(-1)
    if (last) last[isGood ? 'good' : 'bad'] += 1
  }
  const open = (): void => {
    const isNew = openUntil === null
    openUntil = monotonicMs() + openMs
    counts = []
    if (isNew) options.onChange?.(true)
  }
  const close = (): void => {
    openUntil = null
    options.onChange?.(false)
  }
  const isFailing = (): boolean => {
    const bad = counts.reduce((sum, count) => sum + count.bad, 0)
    const calls = counts.reduce((sum, count) => sum + count.good, bad)
    return calls >= minCalls && bad >= calls * failedShare
  }

  const probe: Pass = (isGood) => {
    isProbing = false
    if (isGood === true) close()
    else if (isGood === false) open()
  }
  const usual: Pass = (isGood) => {
    // What was on its way when it opened says nothing new.
    if (isGood === null || openUntil !== null) return
    note(isGood)
    if (isFailing()) open()
  }
  return {
    enter: () => {
      if (openUntil === null) return usual
      if (isProbing || monotonicMs() < openUntil) return null
      isProbing = true
      return probe
    },
    waitMs: () => (openUntil === null ? 0 : Math.max(1, Math.ceil(openUntil - monotonicMs()))),
  }
}
