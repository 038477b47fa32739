import type { Failure } from '../domain/exits/connection-failures.ts'
import { isoTime } from '../kernel/clock.ts'
import type { Denied, GatewayLogger, ProxyMetrics } from './gateway-ports.ts'

/** Receives unexpected exceptions, which are faults of the gateway. The caller ends the affected connection only. */
export type OnFault = (error: unknown, requestId?: string) => void

const maxFrames = 8

/**
 * The logged reason of a fault. A message may quote client input, such as a password. So only messages of the language
 * itself are logged: a TypeError or a ReferenceError without a Node error code.
 */
const faultReason = (error: unknown): object => {
  if (!(error instanceof Error)) return { fault: typeof error }
  const { code } = error as NodeJS.ErrnoException
  const isLanguageError =
    code === undefined && (error instanceof TypeError || error instanceof ReferenceError)
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line))
  return {
    fault: error.name,
    ...(code !== undefined && { code: String(code) }),
    ...(isLanguageError && { reason: error.message.slice(0, 200) }),
    at: frames.slice(0, maxFrames).map((line) => line.trim()),
  }
}

/** Counts each fault and logs it as an error, because it is a mistake in the gateway for any client input. */
export const createOnFault =
  ({ logger, metrics }: { readonly logger: GatewayLogger; readonly metrics: ProxyMetrics }): OnFault =>
  (error, requestId) => {
    metrics.faulted()
    logger.error({ requestId, ...faultReason(error) }, 'a fault of the gateway ended one connection')
  }

/** The error that a socket is destroyed with, so that the other end is reset too. */
export const asError = (error: unknown): Error =>
  error instanceof Error ? error : new Error('a fault of the gateway')

type Status = Denied['status']

/** The reason phrases of all statuses that the gateway itself answers with. */
const reasons: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  403: 'Targeting Not Accepted',
  407: 'Proxy Authentication Required',
  408: 'Request Timeout',
  431: 'Request Header Fields Too Large',
  464: 'Target Blocked',
  465: 'No Exit Matches',
  466: 'Traffic Used Up',
  467: 'Session Limit Used Up',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
  505: 'HTTP Version Not Supported',
  568: 'Session Exit Failed',
}

export const reasonOf = (status: number): string => reasons[status] ?? 'Error'

/** A refusal by the gateway. */
export const refuse = (
  status: Status,
  error: Failure,
  detail: string,
  retryAfterSeconds?: number,
): Denied => ({
  denied: true,
  status,
  error,
  detail,
  ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
})

export const targetBlocked = (detail: string): Denied => refuse(464, 'target_blocked', detail)

export const gatewayUnavailable = refuse(
  503,
  'gateway_unavailable',
  'The gateway cannot serve this now. Try again shortly.',
  5,
)

export const atCapacity = refuse(
  503,
  'gateway_full',
  'The gateway has all the connections that it takes. Try again shortly.',
  5,
)

export const sessionFailed = refuse(
  568,
  'session_failed',
  'The exit of this session does not answer. Use another session id, or release the session.',
)

/** The same answer for all wrong credentials, so that it does not reveal which plans exist. */
export const wrongCredentials = refuse(
  407,
  'wrong_credentials',
  'The username or the password is wrong, or the line belongs to another plan. Generate the line again.',
)

export const noCredentials = refuse(
  407,
  'credentials_required',
  'Send the username and the password of a generated line, or connect from an address on the whitelist of a plan.',
)

export const accountBlocked = refuse(
  407,
  'account_blocked',
  'The account of this line is blocked. Ask its owner.',
)

export const planEnded = refuse(
  407,
  'plan_ended',
  'The time of this plan is over. Order it again, and generate new lines.',
)

export const rentalEnded = refuse(407, 'rental_ended', 'The rental of this address is over.')

export const credentialRotated = refuse(
  407,
  'credential_rotated',
  'The password of this plan was changed. Generate the lines again.',
)

export const tokenRefused = (token: string, detail: string): Denied =>
  refuse(403, 'targeting_refused', `${token}: ${detail}`)

export const tooManyConnections = (limit: number): Denied =>
  refuse(
    503,
    'too_many_connections',
    `This plan has ${limit} connections open here, which is the limit. Close some, or try again.`,
    1,
  )

export const sessionLimitReached = refuse(
  467,
  'session_limit_reached',
  'The traffic cap of this session (its -limit- token) is spent. Take a new session id.',
)

export const trafficExhausted = refuse(
  466,
  'traffic_exhausted',
  'The traffic of this plan is used up. Top it up, and the same line works again.',
)

/** @param endsAtMs when the period ends, milliseconds since the epoch */
export const trafficBudgetReached = (endsAtMs: number, nowMs: number): Denied =>
  refuse(
    466,
    'traffic_budget_reached',
    `A traffic budget of this line is used up. It begins again at ${isoTime(endsAtMs)}. Its owner can raise or reset it.`,
    Math.max(1, (endsAtMs - nowMs) / 1_000),
  )

export const databaseUnavailable = refuse(
  503,
  'gateway_unavailable',
  'The gateway cannot reach its database. Try again shortly; nothing was charged.',
  5,
)

/** The client ended its connection. Its record has this reason, because neither exit nor target failed. */
export const clientGone = refuse(400, 'client_reset', 'The request was broken off.')

/** A client ended its side and waited for an answer that did not come. */
export const clientEnded = (ms: number): OwnAnswer => ({
  status: 408,
  error: 'client_reset',
  detail: `Your side of the connection has ended, and the target sent nothing for ${Math.ceil(ms / 1_000)} s. Leave it open until the answer has arrived.`,
})

export const targetRefused = refuse(502, 'target_refused', 'The target refused the connection.')
export const targetUnreachable = refuse(502, 'target_unreachable', 'The target cannot be reached.')
export const targetClosed = refuse(
  502,
  'target_closed',
  'The target closed the connection without an answer.',
)
export const hostNotFound = refuse(502, 'host_not_found', "The target's host name has no address.")
export const targetTimeout = refuse(504, 'target_timeout', 'The target did not answer in time.')
/** The connection to the target is open, and its response does not come. */
export const responseTimeout: OwnAnswer = { ...targetTimeout, proxyError: 'http_response_timeout' }
export const dnsTimeout = refuse(504, 'dns_timeout', "The target's name server did not answer in time.")

/** An answer of the gateway itself. The connection ends after it. */
export type OwnAnswer = {
  readonly status: number
  readonly error: Failure
  readonly detail: string
  readonly retryAfterSeconds?: number
  /** The error type of `Proxy-Status`, if the one of `error` is not exact. */
  readonly proxyError?: ProxyErrorType
}

/** The gateway's name in `Proxy-Status`. It reveals no brand, because resellers sell lines under theirs. */
export const proxyName = 'gateway'

/** The used error types of RFC 9209 section 2.3. */
type ProxyErrorType =
  | 'connection_limit_reached'
  | 'connection_read_timeout'
  | 'connection_refused'
  | 'connection_terminated'
  | 'connection_timeout'
  | 'destination_unavailable'
  | 'dns_error'
  | 'dns_timeout'
  | 'http_protocol_error'
  | 'http_request_denied'
  | 'http_request_error'
  | 'http_response_timeout'
  | 'proxy_internal_error'

const proxyErrorTypes: Readonly<Record<Failure, ProxyErrorType>> = {
  account_blocked: 'http_request_denied',
  bad_request: 'http_request_error',
  bad_response: 'http_protocol_error',
  bad_target: 'http_request_error',
  bad_targeting: 'http_request_denied',
  client_reset: 'http_request_error',
  credential_rotated: 'http_request_denied',
  credentials_required: 'http_request_denied',
  dns_timeout: 'dns_timeout',
  exit_failed: 'destination_unavailable',
  exits_full: 'connection_limit_reached',
  gateway_full: 'http_request_denied',
  gateway_unavailable: 'proxy_internal_error',
  head_timeout: 'http_request_error',
  head_too_large: 'http_request_error',
  host_not_found: 'dns_error',
  idle_timeout: 'connection_read_timeout',
  no_common_method: 'http_request_denied',
  no_exit: 'destination_unavailable',
  plan_ended: 'http_request_denied',
  rental_ended: 'http_request_denied',
  session_failed: 'destination_unavailable',
  session_limit_reached: 'http_request_denied',
  target_blocked: 'http_request_denied',
  target_closed: 'connection_terminated',
  target_refused: 'connection_refused',
  target_reset: 'connection_terminated',
  target_timeout: 'connection_timeout',
  target_unreachable: 'destination_unavailable',
  targeting_refused: 'http_request_denied',
  too_many_connections: 'http_request_denied',
  traffic_budget_reached: 'http_request_denied',
  traffic_exhausted: 'http_request_denied',
  udp_failed: 'proxy_internal_error',
  udp_not_allowed: 'http_request_denied',
  version_not_supported: 'http_request_error',
  wrong_credentials: 'http_request_denied',
}

/** Replaces characters that are illegal in a header line. */
const headerText = (text: string): string => text.replace(/\P{ASCII}|\p{Cc}/gu, '?')

export const httpAnswer = (
  { status, error, detail, retryAfterSeconds, proxyError = proxyErrorTypes[error] }: OwnAnswer,
  requestId: string,
  withBody: boolean,
): string => {
  const body = `${JSON.stringify({ error: detail, requestId })}\n`
  return [
    `HTTP/1.1 ${status} ${reasonOf(status)}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Cache-Control: no-store',
    `Proxy-Status: ${proxyName}; error=${proxyError}; details="${error}"`,
    `X-Proxy-Error: ${headerText(error)}`,
    `X-Proxy-Detail: ${headerText(detail)}`,
    `X-Request-Id: ${requestId}`,
    `X-Proxy-Request-Id: ${requestId}`,
    ...(status === 407 ? ['Proxy-Authenticate: Basic realm="proxy", charset="UTF-8"'] : []),
    ...(retryAfterSeconds === undefined ? [] : [`Retry-After: ${Math.ceil(retryAfterSeconds)}`]),
    'Connection: close',
    'Proxy-Connection: close',
    '',
    withBody ? body : '',
  ].join('\r\n')
}
