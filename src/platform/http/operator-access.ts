import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

/** Whether a request comes from somebody who may see how the service is inside: hosts, ports, route labels, figures. */
export type OperatorAccess = (headers: IncomingHttpHeaders) => boolean

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

/**
 * Who has the token; nobody where there is none. That a request comes from this machine is no sign of its operator: a proxy
 * on it sends those of the whole world, and nginx by itself adds no header that tells.
 */
export const byToken =
  (token: string | null): OperatorAccess =>
  ({ authorization }) =>
    token !== null && timingSafeEqual(digest(authorization ?? ''), digest(`Bearer ${token}`))

const ofProxies = [
  'forwarded',
  'via',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-real-ip',
]
const hostOfThisMachine = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/i

/**
 * On a listener that only this machine reaches: everybody but a proxy that says that it is one, and a page in a browser here,
 * whose own host leads to this machine.
 */
export const onOwnListener: OperatorAccess = (headers) =>
  hostOfThisMachine.test(headers.host ?? '') && ofProxies.every((name) => headers[name] === undefined)
