import type { Failure } from '../../domain/exits/connection-failures.ts'
import { type BufferedSocket, noopHandler } from '../buffered-socket.ts'
import type { Client, GatewayContext } from '../client.ts'
import { formatRequestId, formatRouteHeaders, openRoute } from '../dial/dial.ts'
import type { Admission, Denied, Exit, Outcome } from '../gateway-ports.ts'
import {
  clientEnded,
  gatewayUnavailable,
  type OwnAnswer,
  responseTimeout,
  targetClosed,
} from '../refusals.ts'
import { chargeBytes, Pump, reserveBytes, runTunnel } from '../relay/tunnel.ts'
import type { Target } from '../targets.ts'
import { type Exchange, type ExchangeEnd, runExchange } from './http-exchange.ts'
import { credentialsOf, type ForwardRequest } from './parse-request.ts'

/** Forwards the plain HTTP requests of one client connection, one after another. */
export type Forwarding = {
  /** @param next is called when the next request may be read */
  forward(request: ForwardRequest, next: () => void): void
  /** The client disconnected. */
  close(): void
  /** The current request is the last one of the connection. */
  drain(): void
}

export const createForwarding = (context: GatewayContext, client: Client): Forwarding => {
  const { limits, metrics } = context
  const { wire, deadline } = client
  let upstreamSession: UpstreamSession | null = null
  let running: Exchange | null = null
  let isDraining = false
  let startedMs = context.clock()
  const requestFacts = () => ({ requestId: client.requestId, durationMs: context.clock() - startedMs })

  const closeUpstreamSession = (error: Failure | null): void => {
    const previousSession = upstreamSession
    upstreamSession = null
    previousSession?.close(error, requestFacts())
  }
  const refuse = (answer: OwnAnswer | Denied, { method }: ForwardRequest): void => {
    closeUpstreamSession(answer.error)
    if (wire.socket.destroyed) return
    client.refuse(answer, method !== 'HEAD')
  }
  /** Sends the rest of the answer, then ends the connection. Drops further bytes of the client. */
  const endAfter = ({ down }: UpstreamConnection, error: Failure | null): void => {
    const { socket } = wire
    deadline.within(limits.idleMs, () => socket.destroy())
    socket.once('finish', () => deadline.within(limits.lingerMs, () => socket.destroy()))
    wire.use({
      ...noopHandler,
      bytes: () => true,
      drain: () => down.drained(),
      closed: () => closeUpstreamSession(error),
    })
    down.end()
  }
  /** Fails after a part of the answer was sent. */
  const breakOff = (
    upstreamConnection: UpstreamConnection,
    { status, error }: OwnAnswer,
    hasUnclearEnd: boolean,
  ): void => {
    client.refused(status, error)
    upstreamConnection.down.stop()
    upstreamSession?.closeConnection()
    if (!hasUnclearEnd) {
      endAfter(upstreamConnection, error)
      return
    }
    closeUpstreamSession(error)
    const { socket } = wire
    deadline.within(limits.lingerMs, client.reset)
    // The callback runs when all earlier bytes are sent.
    socket.write('', client.reset)
  }
  const upgrade = (upstreamConnection: UpstreamConnection): void => {
    const previousSession = upstreamSession!
    upstreamSession = null
    previousSession.detachConnection()
    runTunnel(context, client, upstreamConnection.wire, previousSession.admission, 'http', (error) =>
      previousSession.close(error, requestFacts()),
    )
  }
  /** Pauses reading from a client that sends requests without reading the answers. */
  const afterAnswerRead = ({ down }: UpstreamConnection, next: () => void): void => {
    if (!wire.socket.writableNeedDrain || wire.socket.writableLength === 0) {
      next()
      return
    }
    wire.use({
      ...noopHandler,
      bytes: (chunk) => {
        wire.unshift(chunk)
        return false
      },
      drain: () => {
        down.drained()
        next()
      },
      closed: () => closeUpstreamSession(null),
    })
  }

  const limitIdle = (): void => deadline.within(limits.idleMs, () => running?.fail(responseTimeout))
  const send = (request: ForwardRequest, upstreamConnection: UpstreamConnection, next: () => void): void => {
    upstreamConnection.wire.socket.write(request.head, 'latin1')
    const canRetry = upstreamConnection.used && request.repeatable
    upstreamConnection.used = true
    limitIdle()
    let exchange: Exchange | null = null
    let hasEnded = false
    const ended = (ending: ExchangeEnd): void => {
      if (running === exchange) running = null
      hasEnded = true
      finish(ending, request, upstreamConnection, next, canRetry)
    }
    exchange = runExchange({
      request,
      client: wire,
      upstream: upstreamConnection.wire,
      up: upstreamConnection.up,
      down: upstreamConnection.down,
      responseHeadBytes: limits.responseHeadBytes,
      routeHeaders: formatRequestId(client.requestId) + upstreamConnection.routeHeaders,
      persists: () => !isDraining,
      touch: deadline.touch,
      clientEnded: () =>
        deadline.within(limits.endedClientMs, () => running?.fail(clientEnded(limits.endedClientMs))),
      sentAfterEnd: limitIdle,
      ended,
    })
    if (!hasEnded) running = exchange
  }
  const finish = (
    ending: ExchangeEnd,
    request: ForwardRequest,
    upstreamConnection: UpstreamConnection,
    next: () => void,
    canRetry: boolean,
  ): void => {
    switch (ending.kind) {
      case 'done':
        if (ending.upstreamReusable) upstreamSession?.setIdle()
        else upstreamSession?.closeConnection()
        if (ending.clientPersists) {
          upstreamSession?.requestEnded(requestFacts())
          afterAnswerRead(upstreamConnection, next)
        } else endAfter(upstreamConnection, null)
        return
      case 'upgraded':
        upgrade(upstreamConnection)
        return
      case 'unanswered':
        upstreamSession?.closeConnection()
        // The target closed the idle connection while the request was sent.
        if (canRetry && ending.isTargetSilent && ending.answer.error === 'target_closed')
          containBuild(request, next, true)
        else refuse(ending.answer, request)
        return
      case 'broken':
        breakOff(upstreamConnection, ending.why, ending.hasUnclearEnd)
        return
      default:
        ending satisfies never
    }
  }

  const admit = async ({ authorization, target }: ForwardRequest): Promise<Denied | null> => {
    if (upstreamSession?.serves(authorization, target)) return null
    closeUpstreamSession(null)
    const admission = await client.admit('http', credentialsOf(authorization))
    if (admission.denied) return admission
    upstreamSession = createUpstreamSession(context, client, admission, { authorization, target }, (why) =>
      running?.fail(why),
    )
    return null
  }
  const prepare = async (
    request: ForwardRequest,
    isCharged: boolean,
  ): Promise<UpstreamConnection | Denied> => {
    const denied = await admit(request)
    if (denied) return denied
    const used = upstreamSession!
    const upstreamConnection = used.connection() ?? (await used.connect())
    if ('denied' in upstreamConnection || isCharged) return upstreamConnection
    return (await chargeBytes(used.admission.spending, request.length, 'up')) ?? upstreamConnection
  }
  const build = async (request: ForwardRequest, next: () => void, isCharged: boolean): Promise<void> => {
    client.detach()
    const upstreamConnection = await prepare(request, isCharged).catch((error) => {
      context.onFault(error, client.requestId)
      return gatewayUnavailable
    })
    if (client.disconnected.aborted) return closeUpstreamSession(null)
    if ('denied' in upstreamConnection) return refuse(upstreamConnection, request)
    if (!isCharged) metrics.countBytes('up', request.length)
    send(request, upstreamConnection, next)
  }
  /** Runs `build`. A fault closes the connection to the target. */
  const containBuild = (request: ForwardRequest, next: () => void, isCharged: boolean): void =>
    client.contain(
      build(request, next, isCharged).catch((error) => {
        closeUpstreamSession(null)
        throw error
      }),
    )
  return {
    forward: (request, next) => {
      startedMs = context.clock()
      const upstreamConnection = upstreamSession?.serves(request.authorization, request.target)
        ? upstreamSession.connection()
        : null
      if (
        upstreamConnection === null ||
        !reserveBytes(upstreamSession!.admission.spending, request.length, 'up')
      )
        return containBuild(request, next, false)
      metrics.countBytes('up', request.length)
      send(request, upstreamConnection, next)
    },
    close: () => closeUpstreamSession(null),
    drain: () => {
      isDraining = true
    },
  }
}

/** A connection to the target, with its two pumps. */
type UpstreamConnection = {
  readonly wire: BufferedSocket
  readonly up: Pump
  readonly down: Pump
  /** Header lines of the gateway for each answer. */
  readonly routeHeaders: string
  /** Whether it served a request before. */
  used: boolean
}

/**
 * The state of one client connection for requests with the same credentials to the same target: one admission, and one
 * reused connection to the target.
 */
type UpstreamSession = {
  readonly admission: Admission
  /** Whether the session can serve a request with these credentials to this target. */
  serves(authorization: string | null, target: Target): boolean
  /** The open connection; null: there is none. */
  connection(): UpstreamConnection | null
  /** Opens a new connection. */
  connect(): Promise<UpstreamConnection | Denied>
  /** Makes the connection idle until the next request. */
  setIdle(): void
  /** Closes the connection. */
  closeConnection(): void
  /** Passes the ownership of the connection to the caller. */
  detachConnection(): void
  /** A request ended well, and the connection of the client persists. */
  requestEnded(facts: RequestFacts): void
  close(error: Failure | null, facts: RequestFacts): void
}

/** The current request of the client, for its record. */
type RequestFacts = Required<Pick<Outcome, 'requestId' | 'durationMs'>>

const createUpstreamSession = (
  context: GatewayContext,
  client: Client,
  admission: Admission,
  { authorization, target }: { readonly authorization: string | null; readonly target: Target },
  onDenied: (why: Denied) => void,
): UpstreamSession => {
  const { metrics, abortHandlers } = context
  const { spending } = admission
  let upstreamConnection: UpstreamConnection | null = null
  let isClosed = false
  let exit: Exit | undefined
  metrics.opened('http')

  const destroy = (): void => {
    upstreamConnection?.up.stop()
    upstreamConnection?.wire.socket.destroy()
    upstreamConnection = null
  }
  const pumpTo = (to: BufferedSocket, from: BufferedSocket, direction: 'up' | 'down'): Pump =>
    new Pump({
      from,
      to,
      spending,
      direction,
      onForwarded: (bytes) => {
        client.deadline.touch()
        metrics.countBytes(direction, bytes)
      },
      denied: onDenied,
    })
  /** Closes an idle connection when the target sends bytes, which would be mistaken for the next answer. */
  const watchIdle = (idleConnection: UpstreamConnection): void => {
    const destroyIdle = (): void => {
      if (upstreamConnection === idleConnection) destroy()
    }
    idleConnection.wire.use({
      bytes: () => {
        destroyIdle()
        return false
      },
      end: destroyIdle,
      drain: () => idleConnection.up.drained(),
      closed: destroyIdle,
      isChunkInUse: () => idleConnection.down.holds(),
    })
  }
  const outcomeOf = (error: Failure | null, facts: RequestFacts): Outcome => ({
    error,
    host: target.host,
    port: target.port,
    exit,
    requestId: facts.requestId,
    durationMs: facts.durationMs,
  })
  const removeAbortHandler = abortHandlers.on(spending.ended, onDenied)
  return {
    admission,
    serves: (otherAuthorization, other) =>
      !isClosed &&
      !spending.ended.aborted &&
      authorization === otherAuthorization &&
      target.host === other.host &&
      target.port === other.port,
    connection: () => upstreamConnection,
    connect: async () => {
      const opened = await openRoute(context, client, admission, target)
      if (opened.denied) return opened
      const { wire } = opened
      exit = opened.exit
      upstreamConnection = {
        wire,
        up: pumpTo(wire, client.wire, 'up'),
        down: pumpTo(client.wire, wire, 'down'),
        routeHeaders: formatRouteHeaders(opened),
        used: false,
      }
      watchIdle(upstreamConnection)
      if (isClosed || client.disconnected.aborted) destroy()
      return upstreamConnection ?? targetClosed
    },
    setIdle: () => {
      if (upstreamConnection) watchIdle(upstreamConnection)
    },
    closeConnection: destroy,
    detachConnection: () => {
      upstreamConnection = null
      removeAbortHandler()
    },
    requestEnded: (facts) => admission.requestEnded?.(outcomeOf(null, facts)),
    close: (error, facts) => {
      if (isClosed) return
      isClosed = true
      removeAbortHandler()
      destroy()
      metrics.closed('http')
      admission.close(outcomeOf(error, facts))
    },
  }
}
