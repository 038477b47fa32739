import type { Failure } from './failures.ts'
import type { Denied } from './ports.ts'

type Status = Denied['status']

/** The reason phrase of every status that the gateway answers with itself. */
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

/** A refusal of the data plane itself. */
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

export const blocked = (detail: string): Denied => refuse(464, 'target_blocked', detail)

export const unavailable = (): Denied =>
  refuse(503, 'gateway_unavailable', 'The gateway cannot serve this now. Try again shortly.', 5)

export const full = (): Denied =>
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

/** What a SOCKS client is told in place of a status. A 407 never comes here: it is the answer of RFC 1929. */
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
