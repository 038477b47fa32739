import type { MonotonicClock } from '../../kernel/clock.ts'
import { failure } from './classify.ts'
import type { ScrapeFailure } from './port.ts'

/** Whether our account at a provider is good for calls. */
export type AccountGate = {
  /** Why nothing is to be asked now; null while the account is good. */
  problem(): ScrapeFailure | null
  /** A call was refused because of our key or our credits: nobody is let through until the account is found good. */
  shut(trouble: 'key' | 'credits'): void
}

/**
 * Shuts a provider off for everybody once it refuses our key or has no credits of ours, and asks it for the balance when the
 * time is up: the first caller after that starts the question, and those after its good answer get through.
 * @param isGood whether the account may call again; a rejection counts as no
 */
export const createAccountGate = (options: {
  readonly monotonicMs: MonotonicClock
  readonly shutMs: number
  readonly isGood: () => Promise<boolean>
  readonly onChange: (trouble: 'key' | 'credits' | null) => void
}): AccountGate => {
  const { monotonicMs, shutMs, isGood, onChange } = options
  let shut: { readonly trouble: 'key' | 'credits'; readonly until: number } | null = null
  let isAsking = false

  const ask = async (trouble: 'key' | 'credits'): Promise<void> => {
    isAsking = true
    const good = await isGood().catch(() => false)
    isAsking = false
    shut = good ? null : { trouble, until: monotonicMs() + shutMs }
    if (good) onChange(null)
  }
  return {
    problem: () => {
      if (shut === null) return null
      const { trouble, until } = shut
      const waitMs = until - monotonicMs()
      if (waitMs <= 0 && !isAsking) void ask(trouble)
      const code = trouble === 'key' ? 'upstream_auth_rejected' : 'upstream_credits_exhausted'
      return failure(code, Math.max(1, Math.ceil(waitMs / 1_000)))
    },
    shut: (trouble) => {
      if (shut === null) onChange(trouble)
      shut = { trouble, until: monotonicMs() + shutMs }
    },
  }
}
