import type { MonotonicClock } from '../../kernel/clock.ts'
import { failure } from './call-provider.ts'
import type { ScrapeFailure } from './provider-port.ts'

/** Whether our account at a provider accepts calls. */
export type AccountGate = {
  /** Why no call may be made now; null while the account works. */
  problem(): ScrapeFailure | null
  /** A call was refused because of our key or credits. No calls pass until a check finds the account working. */
  close(accountFault: 'key' | 'credits'): void
}

/**
 * Blocks all calls to a provider once it refuses our key or our credits are used up. After the pause, the next caller
 * starts a check of the balance. Calls pass after a good result.
 * @param isGood whether the account may call again; a rejection counts as no
 */
export const createAccountGate = (options: {
  readonly monotonicMs: MonotonicClock
  readonly shutMs: number
  readonly isGood: () => Promise<boolean>
  readonly onChange: (accountFault: 'key' | 'credits' | null) => void
}): AccountGate => {
  const { monotonicMs, shutMs, isGood, onChange } = options
  let closedState: { readonly accountFault: 'key' | 'credits'; readonly until: number } | null = null
  let isChecking = false

  const checkAccount = async (accountFault: 'key' | 'credits'): Promise<void> => {
    isChecking = true
    const good = await isGood().catch(() => false)
    isChecking = false
    closedState = good ? null : { accountFault, until: monotonicMs() + shutMs }
    if (good) onChange(null)
  }
  return {
    problem: () => {
      if (closedState === null) return null
      const { accountFault, until } = closedState
      const waitMs = until - monotonicMs()
      if (waitMs <= 0 && !isChecking) void checkAccount(accountFault)
      const code = accountFault === 'key' ? 'upstream_auth_rejected' : 'upstream_credits_exhausted'
      return failure(code, Math.max(1, Math.ceil(waitMs / 1_000)))
    },
    close: (accountFault) => {
      if (closedState === null) onChange(accountFault)
      closedState = { accountFault, until: monotonicMs() + shutMs }
    },
  }
}

export type BreakerOptions = {
  readonly monotonicMs: MonotonicClock
  /** Calls within this time count. */
  readonly windowMs: number
  /** The breaker opens after at least this many calls in the window, */
  readonly minCalls: number
  /** when this share of them failed, from 0 to 1. */
  readonly failedShare: number
  /** After this time, a single call is let through as a probe. */
  readonly openMs: number
  /** Called on each change. */
  readonly onChange?: (isOpen: boolean) => void
}

/** Reports the end of a call, exactly once; null when the end gives no information about the provider. */
export type ReportCallOutcome = (isGood: boolean | null) => void

export type Breaker = {
  /** Lets a call pass; null while the breaker is open. */
  enter(): ReportCallOutcome | null
  /** Milliseconds until the next probe, 0 when closed. */
  waitMs(): number
}

const slots = 10

/**
 * Stops calls to a failing provider, and lets a probe through after a pause. Failures are counted in ten slots of the
 * window. The oldest slot expires first.
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

  const probe: ReportCallOutcome = (isGood) => {
    isProbing = false
    if (isGood === true) close()
    else if (isGood === false) open()
  }
  const usual: ReportCallOutcome = (isGood) => {
    // Calls that were in progress when the breaker opened do not count.
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

/** The most calls in progress: of one platform, and of all. */
export type ConcurrencyLimits = { readonly perPlatform: number; readonly total: number }

/** Slots for calls, so that a slow platform does not block the others. */
export type ConcurrencySlots = {
  /** False when no slot is free. Else `release` must follow. */
  tryAcquire(platform: string): boolean
  release(platform: string): void
  taken(): number
}

export const createConcurrencySlots = ({ perPlatform, total }: ConcurrencyLimits): ConcurrencySlots => {
  const takenByPlatform = new Map<string, number>()
  let totalTaken = 0
  return {
    tryAcquire: (platform) => {
      const platformTaken = takenByPlatform.get(platform) ?? 0
      if (totalTaken >= total || platformTaken >= perPlatform) return false
      takenByPlatform.set(platform, platformTaken + 1)
      totalTaken += 1
      return true
    },
    release: (platform) => {
      takenByPlatform.set(platform, (takenByPlatform.get(platform) ?? 0) - 1)
      totalTaken -= 1
    },
    taken: () => totalTaken,
  }
}
