import { type IncomingMessage, request } from 'node:http'
import { isIP } from 'node:net'
import type { FoundProxy } from '../../../projections/proxies.ts'
import { addressesHost, whoamiHost } from '../../domain/shared/endpoint-fields.ts'
import { type Clock, isoTime, type MonotonicClock } from '../../kernel/clock.ts'
import type { ProxyId } from '../../kernel/ids.ts'
import type { AccountScope as Scope } from '../../kernel/scopes.ts'
import { refuse } from '../../platform/http/errors.ts'
import { createRateLimiter, policyOf, type RouteLimit } from '../../platform/http/rate-limiter.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'
import type { VerifyRentals } from './own-rentals.ts'
import { createFindProxy } from './own-rentals.ts'
import { type GatewayAddress, proxyStatus } from './proxy-record.ts'

/** The connection data of a rental. */
type CheckedRental = {
  /** The expected exit address. */
  readonly ip: string
  readonly host: string
  readonly port: number
  readonly username: string
  readonly password: string
  /** Whether the exit address may differ from the rented one. */
  readonly rotates: boolean
}

export type CheckResult = {
  readonly success: boolean
  /** The address that the target received the request from; null without an answer. */
  readonly exitIp: string | null
  readonly elapsedMs: number
  readonly message: string
}

const timeoutMs = 10_000
/** The largest answer, bytes. An address is much shorter. */
const maxAnswerBytes = 1_024
const maxMessage = 200

type Answer = { readonly status: number; readonly detail: string | null; readonly text: string }

const requestThroughProxy = async (
  { host, port, username, password }: CheckedRental,
  target: URL,
): Promise<Answer> => {
  const signal = AbortSignal.timeout(timeoutMs)
  const login = Buffer.from(`${username}:${password}`).toString('base64')
  const sent = request({
    host,
    port,
    path: target.href,
    agent: false,
    signal,
    setHost: false,
    headers: { host: target.host, 'proxy-authorization': `Basic ${login}`, connection: 'close' },
  })
  try {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      sent.once('response', resolve).once('error', reject).end()
    })
    const chunks: Buffer[] = []
    let size = 0
    for await (const chunk of response as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > maxAnswerBytes) break
      chunks.push(chunk)
    }
    const detail = response.headers['x-proxy-detail']
    return {
      status: response.statusCode ?? 0,
      detail: typeof detail === 'string' ? detail : null,
      text: Buffer.concat(chunks).toString('utf8'),
    }
  } finally {
    sent.destroy()
  }
}

const addressIn = (text: string): string | null => {
  const address = text.trim()
  return isIP(address) === 0 ? null : address
}

const messageOf = (error: NodeJS.ErrnoException): string => {
  if (error.name === 'AbortError' || error.name === 'TimeoutError')
    return `No answer came within ${timeoutMs / 1_000} seconds.`
  return `The address cannot be connected to (${error.code ?? error.name}).`
}

/**
 * Sends one request through a rental as its renter, in at most 10 seconds. Never rejects.
 * @param target an http address of the operator that answers with the address of its client
 * @param nowMs a monotonic clock, milliseconds
 */
export const checkRental = async (
  rental: CheckedRental,
  target: URL,
  nowMs: () => number,
): Promise<CheckResult> => {
  const startedMs = nowMs()
  const result = (success: boolean, exitIp: string | null, message: string): CheckResult => ({
    success,
    exitIp,
    elapsedMs: Math.round(nowMs() - startedMs),
    message: message.slice(0, maxMessage),
  })
  let answer: Answer
  try {
    answer = await requestThroughProxy(rental, target)
  } catch (error) {
    return result(false, null, messageOf(error as NodeJS.ErrnoException))
  }
  const { status, detail, text } = answer
  if (detail !== null) return result(false, null, `The gateway answered ${status}: ${detail}`)
  const exitIp = status === 200 ? addressIn(text) : null
  if (exitIp === null)
    return result(false, null, `The target of the check answered ${status} without an address.`)
  if (exitIp === rental.ip || rental.rotates) return result(true, exitIp, 'The address carries traffic.')
  return result(false, exitIp, 'Traffic passes, but from another exit address.')
}

/** Five at once and five per minute for each account, because a check's traffic is not charged. */
const checks = { burst: 5 * 60, perSecond: 5 } as const
const costOfOne = 60

export type ProxyChecks = {
  readonly limit: RouteLimit
  /**
   * Checks whether a rental within the scope carries traffic, within ten seconds.
   * @throws ApiError not_found, rental_ended, check_not_available
   */
  check(
    scope: Scope,
    proxyId: string,
    after: number | null,
  ): Promise<CheckResult & { readonly checkedAt: string }>
}

export const createProxyChecks = (dependencies: {
  readonly reads: Pick<Reads, 'settled'>
  readonly db: Db
  readonly verifyRentals: VerifyRentals
  readonly credentials: Credentials
  readonly gateway: GatewayAddress & { readonly checkUrl: URL | null }
  /** Whether the sandbox runs. Its own host answers checks if the operator configured none. */
  readonly sandbox: boolean
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
}): ProxyChecks => {
  const { credentials, gateway, sandbox, clock, monotonicMs } = dependencies
  /**
   * The target of a check, never chosen by a customer; null: none. Suppliers' proxies cannot reach the sandbox's host.
   */
  const targetFor = ({ endpoint }: FoundProxy): URL | null => {
    if (gateway.checkUrl !== null) return gateway.checkUrl
    const knowsSandbox = endpoint === null || endpoint.host === addressesHost
    return sandbox && knowsSandbox ? new URL(`http://${whoamiHost}/ip`) : null
  }
  const proxyOf = createFindProxy(dependencies)
  const limiter = createRateLimiter(checks, monotonicMs)
  return {
    limit: {
      per: 'account',
      policy: policyOf(checks, costOfOne),
      take: (accountId) => limiter.count(accountId, costOfOne),
    },
    check: async (scope, id, after) => {
      const row = await proxyOf(scope, id, after)
      if (proxyStatus(row, clock()) === 'expired')
        throw refuse('rental_ended', `the rental of ${id} has ended: there is nothing to check`)
      const target = targetFor(row)
      if (target === null)
        throw refuse('check_not_available', 'this service has no target for checks of this address')
      const checkedAt = isoTime(clock())
      const { username, password } = credentials.of(row.proxyId as ProxyId, 0)
      const rental = {
        ip: row.ip,
        host: row.endpoint === null ? row.ip : gateway.host,
        port: gateway.port,
        username,
        password,
        rotates: row.rotationMinutes !== null,
      }
      const result = await checkRental(rental, target, monotonicMs)
      return { ...result, checkedAt }
    },
  }
}
