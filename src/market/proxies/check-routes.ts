import { z } from 'zod'
import type { Reads } from '../../../projections/engine/reads.ts'
import { type Clock, isoTime, type MonotonicClock } from '../../kernel/clock.ts'
import type { ProxyId } from '../../kernel/ids.ts'
import { refuse } from '../../platform/http/errors.ts'
import { createRateLimiter } from '../../platform/http/rate-limit.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'
import { addressesHost, whoamiHost } from '../../terms/sandbox-hosts.ts'
import { checkRental } from './check.ts'
import { createOwnProxy } from './own-proxy.ts'
import type { ProxyQueries } from './queries.ts'
import { type FoundProxy, type GatewayPlace, proxyExample, proxyStatus } from './record.ts'

/** Five at once and five a minute of one account: a check sends traffic that nobody pays for. */
const checks = { burst: 5 * 60, perSecond: 5 } as const
const costOfOne = 60

const CheckRecord = z
  .object({
    success: z.boolean(),
    exitIp: z.string().nullable().meta({ description: 'The address that the target saw; null: none.' }),
    elapsedMs: z.int(),
    checkedAt: z.string().meta({ format: 'date-time' }),
    message: z.string(),
  })
  .meta({ id: 'ProxyCheck' })

const checkExample = {
  success: true,
  exitIp: proxyExample.ip,
  elapsedMs: 84,
  checkedAt: '2026-11-21T02:31:00.000Z',
  message: 'The address carries traffic.',
}

/** Whether a rented address carries traffic. */
export const proxyCheckRoutes = (deps: {
  readonly reads: Pick<Reads, 'settled'>
  readonly db: ProxyQueries
  readonly credentials: Credentials
  readonly gateway: GatewayPlace & { readonly checkUrl: URL | null }
  /** Whether the sandbox runs, whose own host answers checks where the operator names none. */
  readonly sandbox: boolean
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
}): readonly Route[] => {
  const { credentials, gateway, sandbox, clock, monotonicMs } = deps
  /** What a check asks, never chosen by a customer; null: nothing answers. The proxies of suppliers do not know the sandbox. */
  const targetFor = ({ endpoint }: FoundProxy): URL | null => {
    if (gateway.checkUrl !== null) return gateway.checkUrl
    const knowsSandbox = endpoint === null || endpoint.host === addressesHost
    return sandbox && knowsSandbox ? new URL(`http://${whoamiHost}/ip`) : null
  }
  const proxyOf = createOwnProxy(deps)
  const limiter = createRateLimiter(checks, monotonicMs)
  return [
    route({
      method: 'GET',
      path: '/api/v1/proxies/{id}/check',
      operationId: 'checkProxy',
      summary: 'Check a rented address',
      description:
        'Sends one request through the address, with its own credentials, to a target of the service, and says what came of it within ten seconds. `success` is true when the request went out from the address, or, of a mobile line, from any. Five checks a minute.',
      tag: 'Proxies',
      access: 'buy',
      writes: false,
      customer: 'limits',
      params: z.object({ id: z.string() }),
      examples: { params: { id: proxyExample.proxyId } },
      limit: { per: 'account', take: (subject) => limiter.take(subject, costOfOne) },
      responses: { 200: { description: 'What came of it.', body: CheckRecord, example: checkExample } },
      errors: ['not_found', 'rental_ended', 'check_not_available'],
      handler: async ({ scope, params: { id }, after }) => {
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
        return { status: 200, body: { ...result, checkedAt } }
      },
    }),
  ]
}
