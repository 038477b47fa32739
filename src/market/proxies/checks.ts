import type { Reads } from '../../../projections/engine/reads.ts'
import { type Clock, isoTime, type MonotonicClock } from '../../kernel/clock.ts'
import type { ProxyId } from '../../kernel/ids.ts'
import { refuse } from '../../platform/http/errors.ts'
import { createRateLimiter } from '../../platform/http/rate-limit.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'
import type { Scope } from '../../terms/holder.ts'
import { addressesHost, whoamiHost } from '../../terms/sandbox-hosts.ts'
import { type CheckResult, checkRental } from './check.ts'
import { createOwnProxy } from './own-proxy.ts'
import type { ProxyQueries } from './queries.ts'
import { type FoundProxy, type GatewayPlace, proxyStatus } from './record.ts'

/** Five at once and five a minute of one account: a check sends traffic that nobody pays for. */
const checks = { burst: 5 * 60, perSecond: 5 } as const
const costOfOne = 60

export type ProxyChecks = {
  /** Counts a check of the account. @returns null, or the seconds to wait first */
  take(accountId: string): ReturnType<ReturnType<typeof createRateLimiter>['take']>
  /**
   * Whether a rental within the scope carries traffic, within ten seconds.
   * @throws ApiError not_found, rental_ended, check_not_available
   */
  check(
    scope: Scope,
    proxyId: string,
    after: number | null,
  ): Promise<CheckResult & { readonly checkedAt: string }>
}

export const createProxyChecks = (deps: {
  readonly reads: Pick<Reads, 'settled'>
  readonly db: ProxyQueries
  readonly credentials: Credentials
  readonly gateway: GatewayPlace & { readonly checkUrl: URL | null }
  /** Whether the sandbox runs, whose own host answers checks where the operator names none. */
  readonly sandbox: boolean
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
}): ProxyChecks => {
  const { credentials, gateway, sandbox, clock, monotonicMs } = deps
  /** What a check asks, never chosen by a customer; null: nothing answers. The proxies of suppliers do not know the sandbox. */
  const targetFor = ({ endpoint }: FoundProxy): URL | null => {
    if (gateway.checkUrl !== null) return gateway.checkUrl
    const knowsSandbox = endpoint === null || endpoint.host === addressesHost
    return sandbox && knowsSandbox ? new URL(`http://${whoamiHost}/ip`) : null
  }
  const proxyOf = createOwnProxy(deps)
  const limiter = createRateLimiter(checks, monotonicMs)
  return {
    take: (accountId) => limiter.take(accountId, costOfOne),
    check: async (scope, id, after) => {
      const row = await proxyOf(scope, id, after)
      if (proxyStatus(row, clock()) === 'expired')
        throw refuse('rental_ended', `the rental of ${id} has ended: there is nothing to check`)
      const target = targetFor(row)
      if (target === null)
        throw refuse('check_not_available', 'this service has no target for checks of this address')
      const checkedAt = isoTime(clock())
      const { username, password } = credentials.of(row.proxy_id as ProxyId, 0)
      const rental = {
        ip: row.ip,
        host: row.endpoint === null ? row.ip : gateway.host,
        port: gateway.port,
        username,
        password,
        rotates: row.rotation_minutes !== null,
      }
      const result = await checkRental(rental, target, monotonicMs)
      return { ...result, checkedAt }
    },
  }
}
