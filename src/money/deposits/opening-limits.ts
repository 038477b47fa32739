import type { MonotonicClock } from '../../kernel/clock.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { refuseUntil } from '../../platform/http/errors.ts'
import { createRateLimiter } from '../../platform/http/rate-limit.ts'

/**
 * How many new deposits an account may open. One that nobody pays costs nothing, and yet has an invoice made at the
 * provider, stays in the log and is asked for until its provider watches it no more.
 */
export type OpeningLimits = {
  /**
   * Counts a new deposit, not a retry of one. `own`: for the account's own wallet, on the service's gateways; else for a
   * customer of it, on its own gateways.
   * @throws ApiError: rate_limited
   */
  take(accountId: AccountId, own: boolean): void
}

/** A hundred at once, then one a minute. */
const ownRate = { burst: 6_000, perSecond: 1 }
const ownCost = 60
/** A shop of many customers: five hundred at once, then ten a second, as its gateways may call back. */
const customersRate = { burst: 500, perSecond: 10 }

export const createOpeningLimits = (monotonicMs: MonotonicClock): OpeningLimits => {
  const own = createRateLimiter(ownRate, monotonicMs)
  const customers = createRateLimiter(customersRate, monotonicMs)
  return {
    take: (accountId, isOwn) => {
      const waitS = isOwn ? own.take(accountId, ownCost) : customers.take(accountId)
      if (waitS > 0)
        throw refuseUntil(
          'rate_limited',
          isOwn
            ? 'the account opened many deposits; pay those that await payment, or send this one again later'
            : 'the account opened many deposits for its customers; send this one again later',
          waitS,
        )
    },
  }
}

/** Where requests are not limited. */
export const noOpeningLimits: OpeningLimits = { take: () => undefined }
