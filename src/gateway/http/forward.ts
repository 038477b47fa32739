import type { Failure } from '../../domain/exits/connection-failures.ts'
import type { Client } from '../accept/client-connection.ts'
import type { GatewayContext } from '../accept/gateway-context.ts'
import type { Denied } from '../gateway-ports.ts'
import { gatewayUnavailable } from '../refusals.ts'
import { chargeBytes, reserveBytes } from '../relay/pump.ts'
import { tunnelOf } from '../relay/tunnel.ts'
import { type Exchange, type ExchangeEnd, runExchange } from './http-exchange.ts'
import { answerAndEnd, type OwnAnswer } from './own-answer.ts'
import { credentialsOf, type ForwardRequest } from './parse-request.ts'
import { createUpstreamSession, type UpstreamConnection, type UpstreamSession } from './upstream-session.ts'

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
  const { wire, watch } = client
  let upstreamSession: UpstreamSession | null = null
  let running: Exchange | null = null
  let isDraining = false

  const closeUpstreamSession = (error: Failure | null): void => {
    const previousSession = upstreamSession
    upstreamSession = null
    previousSession?.close(error)
  }
  const refuse = (answer: OwnAnswer | Denied, { method }: ForwardRequest): void => {
    closeUpstreamSession(answer.error)
    if (wire.socket.destroyed) return
    answerAndEnd(client, answer, limits.lingerMs, method !== 'HEAD')
  }
  /** Sends the rest of the answer, then ends the connection. Drops further bytes of the client. */
  const endAfter = ({ down }: UpstreamConnection, error: Failure | null): void => {
    const { socket } = wire
    watch.within(limits.idleMs, () => socket.destroy())
    socket.once('finish', () => watch.within(limits.lingerMs, () => socket.destroy()))
    wire.use({
      bytes: () => true,
      end: () => undefined,
      drain: () => down.drained(),
      closed: () => closeUpstreamSession(error),
      holds: () => false,
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
    upstreamSession?.dropRoad()
    if (!hasUnclearEnd) {
      endAfter(upstreamConnection, error)
      return
    }
    closeUpstreamSession(error)
    const { socket } = wire
    watch.within(limits.lingerMs, client.reset)
    // The callback runs when all earlier bytes are sent.
    socket.write('', client.reset)
  }
  const upgrade = (upstreamConnection: UpstreamConnection): void => {
    const previousSession = upstreamSession!
    upstreamSession = null
    previousSession.handOverRoad()
    tunnelOf(context, client, upstreamConnection.wire, previousSession.admission, 'http', (error) =>
      previousSession.close(error),
    )
  }
  /** Pauses reading from a client that sends requests without reading the answers. */
  const afterAnswerRead = ({ down }: UpstreamConnection, next: () => void): void => {
    if (!wire.socket.writableNeedDrain || wire.socket.writableLength === 0) {
      next()
      return
    }
    wire.use({
      bytes: (chunk) => {
        wire.unshift(chunk)
        return false
      },
      end: () => undefined,
      drain: () => {
        down.drained()
        next()
      },
      closed: () => closeUpstreamSession(null),
      holds: () => false,
    })
  }

  const send = (request: ForwardRequest, upstreamConnection: UpstreamConnection, next: () => void): void => {
    upstreamConnection.wire.socket.write(request.head, 'latin1')
    const canRetry = upstreamConnection.used && request.repeatable
    upstreamConnection.used = true
    watch.within(limits.idleMs, () => running?.fail(timeout))
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
      routeHeaders: upstreamConnection.routeHeaders,
      persists: () => !isDraining,
      touch: watch.touch,
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
        if (ending.upstreamReusable) upstreamSession?.leaveRoad()
        else upstreamSession?.dropRoad()
        if (ending.clientPersists) afterAnswerRead(upstreamConnection, next)
        else endAfter(upstreamConnection, null)
        return
      case 'upgraded':
        upgrade(upstreamConnection)
        return
      case 'unanswered':
        upstreamSession?.dropRoad()
        // The target closed the idle connection while the request was sent.
        if (canRetry && ending.unheard && ending.answer.error === 'target_closed')
          containBuild(request, next, true)
        else refuse(ending.answer, request)
        return
      case 'broken':
        breakOff(upstreamConnection, ending.why, ending.unclear)
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
      context.onFault(error)
      return gatewayUnavailable()
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

const timeout: OwnAnswer = {
  status: 504,
  error: 'target_timeout',
  detail: 'The target did not answer in time.',
}
