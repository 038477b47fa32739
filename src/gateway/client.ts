import type { Socket } from 'node:net'
import type { Failure } from '../domain/exits/connection-failures.ts'
import type { MonotonicClock } from '../kernel/clock.ts'
import { newRequestId } from '../platform/http/answer.ts'
import type { ConnectionDeadline, Deadlines } from '../platform/work/deadlines.ts'
import {
  acceptBufferedSocket,
  type BufferedSocket,
  type ConnectionHandler,
  noopHandler,
  reset,
} from './buffered-socket.ts'
import type {
  AbortHandlers,
  Access,
  Admission,
  ConnectionAttempt,
  Denied,
  Exits,
  GatewayLogger,
  Protocol,
  ProxyMetrics,
} from './gateway-ports.ts'
import type { Peer } from './proxy-header.ts'
import { gatewayUnavailable, httpAnswer, type OnFault, type OwnAnswer } from './refusals.ts'
import type { Resolve, TargetRules } from './targets.ts'

/** The objects that all connections of a gateway share. */
export type GatewayContext = {
  readonly access: Access
  readonly exits: Exits
  readonly resolve: Resolve
  readonly rules: TargetRules
  /** Certificate authorities (PEM) for `https` exits; null: those of the system. */
  readonly exitAuthorities: string | null
  readonly limits: GatewayLimits
  readonly metrics: ProxyMetrics
  readonly logger: GatewayLogger
  readonly clock: MonotonicClock
  readonly deadlines: Deadlines
  readonly abortHandlers: AbortHandlers
  readonly onFault: OnFault
}

/** Limits of a gateway process; times are milliseconds. */
export const defaultLimits = {
  /** Open client connections; further ones are answered 503. */
  connections: 20_000,
  /** Unauthenticated connections of one source address; further ones are closed. */
  unauthenticatedPerAddress: 1_000,
  /** Size of a request's head. */
  headBytes: 65_536,
  headMs: 10_000,
  /** Size of a response's head. Some targets send many cookies. */
  responseHeadBytes: 262_144,
  /** Idle timeout of a tunnel without a byte in either direction. */
  tunnelIdleMs: 3_600_000,
  /** Idle timeout of any other connection, and of a tunnel with one ended side. */
  idleMs: 120_000,
  /**
   * Idle timeout of an answer whose client has ended its side. A client that gave up looks like one that reads on until
   * bytes are sent to it. nginx and squid wait for neither, HAProxy waits for both.
   */
  endedClientMs: 10_000,
  /** From the choice of an exit to the target's answer, for all attempts together. */
  dialMs: 15_000,
  /** Exits tried for one connection. */
  exitTries: 3,
  /** Time for the last bytes of a connection that is being ended. */
  lingerMs: 2_000,
  /** Time that running connections get when the gateway closes. */
  drainMs: 10_000,
  /** Precision of the times above. */
  sweepMs: 500,
  /** Hosts per UDP association. */
  udpPeers: 256,
  /** Datagrams of one UDP association that wait for name resolution; further ones are dropped. */
  udpWaiting: 64,
}

export type GatewayLimits = Readonly<typeof defaultLimits>

/** One connection of a client, of any protocol. */
export type Client = {
  readonly wire: BufferedSocket
  readonly deadline: ConnectionDeadline
  /** The address of the client. */
  readonly source: string
  /** Aborted when the client disconnects. Work for the client then ends. */
  readonly disconnected: AbortSignal
  /** The id of the current request: in its answers, in log lines, and in the logs of the client. */
  readonly requestId: string
  /** Gives the following request of this connection its own id. */
  nextRequestId(): void
  /**
   * Stops reading until the current work is done. Meanwhile the client may half-close its side and still receive the
   * answer, or the data of its tunnel (RFC 9112 section 9.6). A disconnected client resets the connection at the first
   * bytes it receives.
   */
  detach(): void
  admit(protocol: Protocol, credentials: ConnectionAttempt['credentials']): Promise<Admission | Denied>
  /** Counts and logs a refusal. */
  refused(status: number, error: Failure): void
  /** Refuses an HTTP request and ends the connection. */
  refuse(answer: OwnAnswer | Denied, withBody?: boolean): void
  /**
   * Sends the last bytes, drops further bytes of the client, and closes the connection after `lingerMs`. Closing at once
   * would reset the connection, and the client would never receive the last bytes.
   */
  end(lastBytes: Buffer): void
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

/**
 * A refused HTTP client that sends more than this gets a reset, bytes. Until then its bytes are dropped: clients such as
 * Java's read the answer only after their whole upload.
 */
const lingerBytes = 16 * 1024 * 1024

export type ClientConnection = { readonly client: Client; drain(): void; destroy(): void }

export const createClient = (
  { access, metrics, logger, deadlines, limits, onFault }: GatewayContext,
  socket: Socket,
  { source, dialled }: Peer,
  onAuthenticated: () => void,
): ClientConnection => {
  const disconnectController = new AbortController()
  const ownDeadline = deadlines.watch()
  /** Admissions that are not closed. */
  const openAdmissions = new Set<Admission>()
  const firstRequestId = newRequestId()
  let requestId = firstRequestId
  let requestCount = 1
  /** Closes the admissions that a fault left open, after all regular close handlers. */
  const closeRemaining = (): void => {
    for (const admission of [...openAdmissions]) {
      openAdmissions.delete(admission)
      admission.close({ error: null, host: null })
    }
  }
  const faulted: OnFault = (error) => {
    onFault(error, requestId)
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
  const deadline: ConnectionDeadline = {
    ...ownDeadline,
    within: (ms, expired) => ownDeadline.within(ms, guard(expired)),
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
  const endWith = (lastBytes: Buffer, handler: ConnectionHandler): void => {
    deadline.within(limits.lingerMs, () => socket.destroy())
    wire.use(handler)
    socket.end(lastBytes)
  }
  let drain = (): void => undefined
  socket.once('close', () => {
    deadline.stop()
    // A shared reason: creating the default one, with its stack, took 2 % of a tunnel's time.
    disconnectController.abort(clientDisconnected)
  })
  const refused: Client['refused'] = (status, error) => {
    metrics.refused(status, error)
    logger.debug({ requestId, status, error }, 'refused')
  }
  const client: Client = {
    wire,
    deadline,
    source,
    disconnected: disconnectController.signal,
    get requestId() {
      return requestId
    },
    nextRequestId: () => {
      requestCount += 1
      requestId = `${firstRequestId}.${requestCount}`
    },
    detach: () => {
      deadline.within(limits.idleMs, () => socket.destroy())
      wire.detach()
    },
    reset: () => reset(socket),
    admit: async (protocol, credentials) => {
      try {
        const answer = await access.admit({ requestId, credentials, source, dialled, protocol })
        if (answer.denied) return answer
        onAuthenticated()
        return trackAdmission(answer)
      } catch (err) {
        logger.error({ err, requestId }, 'admitting a connection failed')
        return gatewayUnavailable
      }
    },
    refused,
    refuse: (answer, withBody = true) => {
      refused(answer.status, answer.error)
      const lastBytes = httpAnswer(answer, requestId, withBody)
      let receivedBytes = 0
      endWith(Buffer.from(lastBytes), {
        ...noopHandler,
        bytes: ({ length }) => {
          receivedBytes += length
          if (receivedBytes > lingerBytes) socket.destroy()
          return true
        },
      })
    },
    end: (lastBytes) => endWith(lastBytes, noopHandler),
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
