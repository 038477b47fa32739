import type pg from 'pg'
import type { Logger } from 'pino'
import { alarmsOf } from '../domain/plans/decide.ts'
import { planRef } from '../domain/plans/fold.ts'
import { createTrafficCounters, createTrafficReports } from '../features/plans/process.ts'
import { createStockLogins } from '../features/stock/process.ts'
import { type AccessDependencies, startAccess } from '../gateway/admit/admit.ts'
import { createLeases, startBudgets } from '../gateway/admit/budgets.ts'
import { createSessionCaps } from '../gateway/admit/open-tunnels.ts'
import { createUsage } from '../gateway/admit/record-usage.ts'
import { createLogins, createPasswords, createThrottle } from '../gateway/authenticate/login-directory.ts'
import { createPlanDirectory, type PlanDirectory } from '../gateway/authenticate/plan-directory.ts'
import { createRentals } from '../gateway/authenticate/rentals.ts'
import type { Access } from '../gateway/gateway-ports.ts'
import type { Clock, MonotonicClock } from '../kernel/clock.ts'
import type { AccountId } from '../kernel/ids.ts'
import { createStreamStates } from '../platform/commands/log-states.ts'
import { createPostgresSnapshots } from '../platform/commands/snapshots.ts'
import { createCredentials } from '../platform/vault/credentials.ts'
import type { Keys } from '../platform/vault/keys.ts'
import type { Scheduler } from '../platform/work/scheduler.ts'
import type { LogReads } from './open-log-reads.ts'

export type GatewayAccess = {
  readonly access: Access
  /** Reports consumed bytes and writes the statistics. */
  flush(): Promise<void>
  /** Ends the leases and writes everything that is not written. Call it when no tunnel is open. */
  stop(): Promise<void>
}

/**
 * Cached stock states. The stock of a product in a country may have thousands of addresses, so only a few are cached.
 */
const maxStocks = 100

/** Access control and traffic budgets of this gateway process. It reads and counts in Postgres, and reads the log. */
export const openAccess = (
  deps: {
    readonly scheduler: Scheduler
    readonly pool: pg.Pool
    readonly log: LogReads
    readonly keys: Keys
    /** A unique name of this process. */
    readonly worker: string
    readonly clock: Clock
    readonly monotonicMs: MonotonicClock
    readonly logger: Logger
    readonly maxTunnels: number
  } & Pick<AccessDependencies, 'whitelisted' | 'targetingOfSet' | 'exitOf'>,
): GatewayAccess => {
  const { scheduler, pool, log, worker, clock, monotonicMs, logger } = deps
  const snapshots = {
    store: createPostgresSnapshots({ pool, keys: deps.keys, logger }),
    logId: log.logId,
    logger,
  }
  const stateOf = createStreamStates(log, { snapshots, whileAway: 'error' })
  const stockOf = createStreamStates(log, { snapshots, whileAway: 'error', maxKept: maxStocks })
  let plans: PlanDirectory
  const credentials = createCredentials(deps.keys.master)
  const budgets = startBudgets({
    scheduler,
    reports: createTrafficReports({
      counters: createTrafficCounters(pool),
      plan: async (planId) => {
        const { state } = await stateOf(planRef(planId))
        if (state.plan === null) return null
        const { accountId, usedBytes } = state.plan
        return { accountId: accountId as AccountId, usedBytes, alarms: alarmsOf(state, clock()) }
      },
      clock,
    }),
    leases: createLeases({
      pool,
      worker,
      findPlan: (planId, sinceMs) => plans.find(planId, sinceMs),
      monotonicMs,
    }),
    worker,
    monotonicMs,
    logger,
  })
  const usage = createUsage({ pool, clock, worker })
  const access = startAccess({
    ...deps,
    credentials,
    passwords: createPasswords(credentials),
    logins: createLogins({ pool, credentials, monotonicMs }),
    directory: (onRead) => {
      plans = createPlanDirectory({ pool, stateOf, monotonicMs, logger, onRead })
      return plans
    },
    rentals: createRentals({
      pool,
      accountOf: stateOf,
      stockOf,
      monotonicMs,
      logger,
      logins: createStockLogins({ pool, master: deps.keys.master }),
    }),
    throttle: createThrottle(monotonicMs),
    sessionCaps: createSessionCaps({ pool, clock }),
    budgets,
    usage,
  })
  return {
    access,
    flush: async () => {
      await budgets.flush()
      await access.flush()
    },
    stop: async () => {
      await budgets.stop()
      await access.stop()
    },
  }
}
