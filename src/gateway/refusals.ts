import type { Failure } from '../domain/exits/connection-failures.ts'
import type { Denied, GatewayLogger, ProxyMetrics } from './gateway-ports.ts'

/** Receives unexpected exceptions, which are faults of the gateway. The caller ends the affected connection only. */
export type OnFault = (error: unknown) => void

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
  (error) => {
    metrics.faulted()
    logger.error(faultReason(error), 'a fault of the gateway ended one connection')
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

export const gatewayUnavailable = (): Denied =>
  refuse(503, 'gateway_unavailable', 'The gateway cannot serve this now. Try again shortly.', 5)

export const atCapacity = (): Denied =>
  refuse(503, 'gateway_full', 'The gateway has all the connections that it takes. Try again shortly.', 5)

export const sessionFailed = (): Denied =>
  refuse(
    568,
    'session_failed',
    'The exit of this session does not answer. Use another session id, or release the session.',
  )

/** Replies of RFC 1928 section 6. */
export const socksReplies = {
  succeeded: 0x00,
  failure: 0x01,
  notAllowed: 0x02,
  networkUnreachable: 0x03,
  hostUnreachable: 0x04,
  refused: 0x05,
  ttlExpired: 0x06,
  commandNotSupported: 0x07,
  addressNotSupported: 0x08,
} as const

/** The SOCKS reply for a refusal. 407 never gets here: it is answered in the RFC 1929 handshake. */
export const socksReplyOf = ({ status, error }: Denied): number => {
  switch (status) {
    case 403:
    case 407:
    case 464:
    case 466:
    case 467:
      return socksReplies.notAllowed
    case 465:
      return socksReplies.networkUnreachable
    case 502:
      return error === 'target_refused' ? socksReplies.refused : socksReplies.hostUnreachable
    case 504:
      return socksReplies.ttlExpired
    case 503:
    case 568:
      return socksReplies.failure
    default:
      return status satisfies never
  }
}
