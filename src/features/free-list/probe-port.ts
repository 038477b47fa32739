import { connect, type Socket } from 'node:net'
import type { Anonymity, CheckError, Protocol, SocketAddress } from '../../domain/free-list/endpoint.ts'

/** One protocol did not pass, through the proxy's doing. */
export class ProbeFailure extends Error {
  override readonly name = 'ProbeFailure'
  readonly error: CheckError
  /** @param detail a sentence of ours: nothing that the proxy wrote */
  constructor(error: CheckError, detail: string) {
    super(detail)
    this.error = error
  }
}

/** Faults of this side: no socket to be had, or the system forbids it. */
const ownFaults: ReadonlySet<string> = new Set([
  'EMFILE',
  'ENFILE',
  'ENOBUFS',
  'ENOMEM',
  'EADDRNOTAVAIL',
  'EACCES',
  'EPERM',
  'EINVAL',
])

export const isLocalFault = (error: NodeJS.ErrnoException): boolean => ownFaults.has(error.code ?? '')

/** What a check of one endpoint found. A proxy that only pretends to work is not alive. */
export type CheckResult = {
  readonly alive: boolean
  /** All that passed, in the order of `protocols`. */
  readonly protocols: readonly Protocol[]
  /** The worst over the protocols that passed; null when none did. */
  readonly anonymity: Anonymity | null
  /** Where its requests reached the judge from. */
  readonly exitIp: string | null
  /** Whether it put a certificate of its own in the judge's place; null when no tunnel to the judge's TLS came about. */
  readonly interceptsTls: boolean | null
  /** From dialling it to the judge's whole answer, by the quickest protocol that passed; whole milliseconds. Null when none passed. */
  readonly latencyMs: number | null
  /** Until it took the connection, whole milliseconds; null when it did not. */
  readonly connectMs: number | null
  /** Null when it is alive. */
  readonly error: CheckError | null
  /** The same in a sentence, for people. Nothing in it was written by the proxy. */
  readonly detail: string | null
}

export type CheckOptions = {
  /** Left out: all of them. */
  readonly protocols?: readonly Protocol[]
  /** For the whole check. */
  readonly timeoutMs: number
  /** Until it took the first connection; left out: as long as the whole check may take. */
  readonly connectTimeoutMs?: number
  /** Sent to the proxy as it asks for it: Basic, or RFC 1929. SOCKS4 has no password and gets the username alone. */
  readonly login?: { readonly username: string; readonly password: string }
}

/** The check could not be made, for a reason of this side: no judge answers, no socket can be had. It says nothing of the proxy. */
export class CheckUnavailable extends Error {
  override readonly name = 'CheckUnavailable'
}

/**
 * Checks one endpoint through the judge of this service; the judge is configured, never chosen by a caller. Whether the
 * endpoint may be dialled at all is to be asked before (`candidateRefusal`).
 * Rejects with the signal's reason, or CheckUnavailable.
 */
export type Check = (
  endpoint: SocketAddress,
  options: CheckOptions,
  signal: AbortSignal,
) => Promise<CheckResult>

/** The sockets of one check, which end together. */
export type Sockets = {
  /** A connection. @throws ProbeFailure, CheckUnavailable */
  dial(place: SocketAddress): Promise<Socket>
  /** Ends those that are open; what waits for a connection fails. */
  closeAll(): void
  /** Does the same for good: no dial that follows gets a connection. */
  end(): void
}

/** @param count told of every socket that is opened (1) and closed (-1) */
export const createSockets = (count: (change: 1 | -1) => void): Sockets => {
  const open = new Set<Socket>()
  let over = false
  const closeAll = (): void => {
    for (const socket of open) socket.destroy()
  }
  return {
    dial: ({ ip, port }) =>
      new Promise((resolve, reject) => {
        if (over) return reject(new ProbeFailure('connect_timeout', 'it took no connection in time'))
        const socket = connect({ host: ip, port, noDelay: true })
        open.add(socket)
        count(1)
        socket.once('connect', () => resolve(socket))
        // Settles what waits; once it is connected it says nothing any more, and the reader hears of the end itself.
        socket.on('error', (error: NodeJS.ErrnoException) => {
          if (isLocalFault(error))
            reject(new CheckUnavailable(`no connection can be made here: ${error.code}`))
          else if (error.code === 'ETIMEDOUT')
            reject(new ProbeFailure('connect_timeout', 'it took no connection in time'))
          else reject(new ProbeFailure('refused', 'it refuses connections, or nothing leads there'))
        })
        socket.once('close', () => {
          open.delete(socket)
          count(-1)
          reject(new ProbeFailure('connect_timeout', 'it took no connection in time'))
        })
      }),
    closeAll,
    end: () => {
      over = true
      closeAll()
    },
  }
}
