import { connect, type Socket } from 'node:net'
import type { Anonymity, CheckError, Protocol, SocketAddress } from '../../domain/free-list/endpoint.ts'

/** A protocol did not pass because of the proxy. */
export class ProbeFailure extends Error {
  override readonly name = 'ProbeFailure'
  readonly error: CheckError
  /** @param detail our own text, without text of the proxy */
  constructor(error: CheckError, detail: string) {
    super(detail)
    this.error = error
  }
}

/** Faults of this machine: no free socket, or forbidden by the system. */
const localFaults: ReadonlySet<string> = new Set([
  'EMFILE',
  'ENFILE',
  'ENOBUFS',
  'ENOMEM',
  'EADDRNOTAVAIL',
  'EACCES',
  'EPERM',
  'EINVAL',
])

export const isLocalFault = (error: NodeJS.ErrnoException): boolean => localFaults.has(error.code ?? '')

/** The result of a check of one endpoint. A proxy that only pretends to work is not alive. */
export type CheckResult = {
  readonly alive: boolean
  /** The protocols that passed, in the order of `protocols`. */
  readonly protocols: readonly Protocol[]
  /** The worst of the protocols that passed; null when none did. */
  readonly anonymity: Anonymity | null
  /** The address from which its requests reached the judge. */
  readonly exitIp: string | null
  /** Whether it replaced the judge's certificate; null when no tunnel to the judge's TLS was established. */
  readonly interceptsTls: boolean | null
  /**
   * Whole milliseconds from the connection start to the judge's complete answer, by the fastest protocol that passed.
   * Null when none passed.
   */
  readonly latencyMs: number | null
  /** Time until it accepted the connection, whole milliseconds; null when it did not. */
  readonly connectMs: number | null
  /** Null when it is alive. */
  readonly error: CheckError | null
  /** The error as a sentence for people. Without text of the proxy. */
  readonly detail: string | null
}

export type CheckOptions = {
  /** Default: all of them. */
  readonly protocols?: readonly Protocol[]
  /** For the whole check, milliseconds. */
  readonly timeoutMs: number
  /** For the first connection, milliseconds. Default: `timeoutMs`. */
  readonly connectTimeoutMs?: number
  /** Sent to the proxy: Basic for HTTP, RFC 1929 for SOCKS5. SOCKS4 has no password and gets only the username. */
  readonly login?: { readonly username: string; readonly password: string }
}

/**
 * The check could not be made because of this service: no judge answers, or no socket is free. It is no result for the
 * proxy.
 */
export class CheckUnavailable extends Error {
  override readonly name = 'CheckUnavailable'
}

/**
 * Checks one endpoint through the judge of this service. The judge is configured, a caller cannot choose it. First
 * check whether the endpoint may be dialled (`candidateRefusal`). Rejects with the signal's reason, or
 * CheckUnavailable.
 */
export type Check = (
  endpoint: SocketAddress,
  options: CheckOptions,
  signal: AbortSignal,
) => Promise<CheckResult>

/** The sockets of one check, which are closed together. */
export type Sockets = {
  /** Opens a connection. @throws ProbeFailure, CheckUnavailable */
  dial(target: SocketAddress): Promise<Socket>
  /** Closes the open sockets; pending connections fail. */
  closeAll(): void
  /** The same, and later dials fail. */
  end(): void
}

/** @param count called with 1 for each opened and -1 for each closed socket */
export const createSockets = (count: (change: 1 | -1) => void): Sockets => {
  const open = new Set<Socket>()
  let isEnded = false
  const closeAll = (): void => {
    for (const socket of open) socket.destroy()
  }
  return {
    dial: ({ ip, port }) =>
      new Promise((resolve, reject) => {
        if (isEnded) return reject(new ProbeFailure('connect_timeout', 'it took no connection in time'))
        const socket = connect({ host: ip, port, noDelay: true })
        open.add(socket)
        count(1)
        socket.once('connect', () => resolve(socket))
        // Rejects a pending connection. After the connection it has no effect, because the reader detects the end
        // itself.
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
      isEnded = true
      closeAll()
    },
  }
}
