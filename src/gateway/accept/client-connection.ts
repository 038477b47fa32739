import type { Socket } from 'node:net'
import type { Failure } from '../../domain/exits/connection-failures.ts'
import { unmapped } from '../../kernel/ip-address.ts'
import { newRequestId } from '../../platform/http/answer.ts'
import { peerAddress } from '../../platform/http/connections.ts'
import type { ConnectionDeadline } from '../../platform/work/deadlines.ts'
import type { Admission, ConnectionAttempt, Denied, Protocol } from '../gateway-ports.ts'
import { gatewayUnavailable, type OnFault } from '../refusals.ts'
import { acceptBufferedSocket, type BufferedSocket, reset } from './buffered-socket.ts'
import type { GatewayContext } from './gateway-context.ts'

/** One connection of a client, of any protocol. */
export type Client = {
  readonly wire: BufferedSocket
  readonly watch: ConnectionDeadline
  /** Aborted when the client disconnects. Work for the client then ends. */
  readonly disconnected: AbortSignal
  /**
   * Stops reading until the current work is done. Meanwhile the client may half-close its side and still receive the
   * answer, or the data of its tunnel (RFC 9112 section 9.6). A disconnected client resets the connection at the first
   * bytes it receives.
   */
  detach(): void
  admit(protocol: Protocol, credentials: ConnectionAttempt['credentials']): Promise<Admission | Denied>
  /** Counts and logs a refusal. @returns the request id for the answer */
  refused(status: number, error: Failure): string
  /** Ends the connection abruptly, so that the client detects the missing bytes. */
  reset(): void
  /** Ends this connection and its admissions when the work rejects. */
  contain(work: Promise<void>): void
  /** Wraps a callback: an exception of it ends this connection only. */
  guard<Args extends readonly unknown[]>(step: (...args: Args) => void): (...args: Args) => void
  /** Registers the first step of `Gateway.close`. The step ends the connection if it is idle. */
  onDrain(step: () => void): void
}

const clientDisconnected = new Error('the client is gone')

export type ClientConnection = { readonly client: Client; drain(): void; destroy(): void }

export const createClient = (
  { access, metrics, logger, deadlines, limits, onFault }: Omit<GatewayContext, 'dial'>,
  socket: Socket,
  onAuthenticated: () => void,
): ClientConnection => {
  const disconnectController = new AbortController()
  const source = peerAddress(socket)
  const dialled = unmapped(socket.localAddress ?? '')
  const deadline = deadlines.watch()
  /** Admissions that are not closed. */
  const openAdmissions = new Set<Admission>()
  /** Closes the admissions that a fault left open, after all regular close handlers. */
  const closeRemaining = (): void => {
    for (const admission of [...openAdmissions]) {
      openAdmissions.delete(admission)
      admission.close({ error: null, host: null })
    }
  }
  const faulted: OnFault = (error) => {
    onFault(error)
    if (socket.closed) setImmediate(closeRemaining)
    else socket.once('close', () => setImmediate(closeRemaining))
  }
  const failConnection = (error: unknown): void => {
    faulted(error)
    reset(socket)
  }
  const wire = acceptBufferedSocket(socket, faulted)
  const guard: Client['guard'] =
    (step) =>
    (...args) => {
      try {
        step(...args)
      } catch (error) {
        failConnection(error)
      }
    }
  const watch: ConnectionDeadline = {
    ...deadline,
    within: (ms, expired) => deadline.within(ms, guard(expired)),
  }
  /** An admission that is closed exactly once, also after a fault. */
  const trackAdmission = (admission: Admission): Admission => {
    openAdmissions.add(admission)
    return {
      ...admission,
      close: (outcome) => {
        if (openAdmissions.delete(admission)) admission.close(outcome)
      },
    }
  }
  let drain = (): void => undefined
  socket.once('close', () => {
    watch.stop()
    // A shared reason: creating the default one, with its stack, took 2 % of a tunnel's time.
    disconnectController.abort(clientDisconnected)
  })
  const client: Client = {
    wire,
    watch,
    disconnected: disconnectController.signal,
    detach: () => {
      watch.within(limits.idleMs, () => socket.destroy())
      wire.detach()
    },
    reset: () => reset(socket),
    admit: async (protocol, credentials) => {
      try {
        const answer = await access.admit({ credentials, source, dialled, protocol })
        if (answer.denied) return answer
        onAuthenticated()
        return trackAdmission(answer)
      } catch (err) {
        logger.error({ err }, 'admitting a connection failed')
        return gatewayUnavailable()
      }
    },
    refused: (status, error) => {
      const requestId = newRequestId()
      metrics.refused(status, error)
      logger.debug({ requestId, status, error }, 'refused')
      return requestId
    },
    contain: (work) => {
      work.catch(failConnection)
    },
    guard,
    onDrain: (step) => {
      drain = guard(step)
    },
  }
  return { client, drain: () => drain(), destroy: () => socket.destroy() }
}
