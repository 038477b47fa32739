import type { BufferedSocket } from '../accept/buffered-socket.ts'
import type { Denied } from '../gateway-ports.ts'
import { refuse } from '../refusals.ts'

/** A connection to the target through an exit. */
export type Connected = { readonly denied: false; readonly wire: BufferedSocket }

/** No connection. `fault` is its cause; only `exit` counts against the exit. */
export type NotConnected = { readonly denied: true; readonly fault: 'exit' | 'target'; readonly why: Denied }

export type Dialled = Connected | NotConnected

export const targetFailure = (why: Denied): NotConnected => ({ denied: true, fault: 'target', why })

export const exitFailure = (detail: string): NotConnected => ({
  denied: true,
  fault: 'exit',
  why: refuse(502, 'exit_failed', detail),
})

export const targetRefused = (): Denied => refuse(502, 'target_refused', 'The target refused the connection.')
export const targetUnreachable = (): Denied =>
  refuse(502, 'target_unreachable', 'The target cannot be reached.')
export const targetClosed = (): Denied =>
  refuse(502, 'target_closed', 'The target closed the connection without an answer.')
export const hostNotFound = (): Denied =>
  refuse(502, 'host_not_found', "The target's host name has no address.")
export const targetTimeout = (): Denied => refuse(504, 'target_timeout', 'The target did not answer in time.')
export const dnsTimeout = (): Denied =>
  refuse(504, 'dns_timeout', "The target's name server did not answer in time.")

/** The refusal for an error of a socket to the target. */
export const targetFault = (error: NodeJS.ErrnoException): Denied => {
  switch (error.code) {
    case 'ECONNREFUSED':
    case 'ECONNRESET':
      return targetRefused()
    case 'ETIMEDOUT':
      return targetTimeout()
    default:
      return targetUnreachable()
  }
}

/** Errors of this machine: it lacks the address of the exit, or it has no free ports. */
export const isLocalFault = ({ code }: NodeJS.ErrnoException): boolean =>
  code === 'EADDRNOTAVAIL' ||
  code === 'EADDRINUSE' ||
  code === 'EINVAL' ||
  code === 'EACCES' ||
  code === 'EMFILE'
