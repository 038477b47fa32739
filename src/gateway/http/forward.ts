import type { Failure } from '../../domain/exits/connection-failures.ts'
import type { Client } from '../accept/client-connection.ts'
import type { Context } from '../accept/gateway-context.ts'
import type { Denied } from '../gateway-ports.ts'
import { unavailable } from '../refusals.ts'
import { payWhole, takeWhole } from '../relay/pump.ts'
import { tunnelOf } from '../relay/tunnel.ts'
import { type Ending, type Exchange, runExchange } from './http-exchange.ts'
import { type OwnAnswer, answerAndEnd } from './own-answer.ts'
import { type ForwardRequest, credentialsOf } from './parse-request.ts'
import { type Lane, type Road, createLane } from './upstream-session.ts'

/** Forwards the plain HTTP requests of one client connection, one after another. */
export type Forwarding = {
  /** @param next is called when the next request may be read */
  forward(request: ForwardRequest, next: () => void): void
  /** The client is gone. */
  close(): void
  /** No further request is taken. */
  drain(): void
}

export const createForwarding = (context: Context, client: Client): Forwarding => {
  const { limits, metrics } = context
  const { wire, watch } = client
  let lane: Lane | null = null
  let running: Exchange | null = null
  let draining = false

  const closeLane = (error: Failure | null): void => {
    const former = lane
    lane = null
    former?.close(error)
  }
  const refuse = (answer: OwnAnswer | Denied, { method }: ForwardRequest): void => {
    closeLane(answer.error)
    if (wire.socket.destroyed) return
    answerAndEnd(client, answer, limits.lingerMs, method !== 'HEAD')
  }
  /** What goes to the client still does; then the connection ends, and what the client still sends is not for anybody. */
  const endAfter = ({ down }: Road, error: Failure | null): void => {
    const { socket } = wire
    watch.within(limits.idleMs, () => socket.destroy())
    socket.once('finish', () => watch.within(limits.lingerMs, () => socket.destroy()))
    wire.use({
      bytes: () => true,
      end: () => undefined,
      drain: () => down.drained(),
      closed: () => closeLane(error),
      holds: () => false,
    })
    down.end()
  }
  /** A part of the answer has gone out. */
  const breakOff = (road: Road, { status, error }: OwnAnswer, unclear: boolean): void => {
    client.refused(status, error)
    road.down.stop()
    lane?.dropRoad()
    if (!unclear) {
      endAfter(road, error)
      return
    }
    closeLane(error)
    const { socket } = wire
    watch.within(limits.lingerMs, client.reset)
    // Its callback comes when all that was written before is out.
    socket.write('', client.reset)
  }
  const upgrade = (road: Road): void => {
    const former = lane!
    lane = null
    former.handOverRoad()
    tunnelOf(context, client, road.wire, former.admission, 'http', (error) => former.close(error))
  }
  /** A client that sends requests and does not read the answers is not read from either. */
  const whenRead = ({ down }: Road, next: () => void): void => {
    if (!wire.socket.writableNeedDrain || wire.socket.writableLength === 0) {
      next()
      return
    }
    wire.use({
      bytes: (chunk) => {
        wire.unread(chunk)
        return false
      },
      end: () => undefined,
      drain: () => {
        down.drained()
        next()
      },
      closed: () => closeLane(null),
      holds: () => false,
    })
  }

  const send = (request: ForwardRequest, road: Road, next: () => void): void => {
    road.wire.socket.write(request.head, 'latin1')
    const again = road.used && request.repeatable
    road.used = true
    watch.within(limits.idleMs, () => running?.fail(timeout))
    let exchange: Exchange | null = null
    let over = false
    const ended = (ending: Ending): void => {
      if (running === exchange) running = null
      over = true
      finish(ending, request, road, next, again)
    }
    exchange = runExchange({
      request,
      client: wire,
      upstream: road.wire,
      up: road.up,
      down: road.down,
      responseHeadBytes: limits.responseHeadBytes,
      told: road.told,
      persists: () => !draining,
      touch: watch.touch,
      ended,
    })
    if (!over) running = exchange
  }
  const finish = (
    ending: Ending,
    request: ForwardRequest,
    road: Road,
    next: () => void,
    again: boolean,
  ): void => {
    switch (ending.kind) {
      case 'done':
        if (ending.upstreamReusable) lane?.leaveRoad()
        else lane?.dropRoad()
        if (ending.clientPersists) whenRead(road, next)
        else endAfter(road, null)
        return
      case 'upgraded':
        upgrade(road)
        return
      case 'unanswered':
        lane?.dropRoad()
        // The target closed the idle connection just when the request came.
        if (again && ending.unheard && ending.answer.error === 'target_closed')
          containBuild(request, next, true)
        else refuse(ending.answer, request)
        return
      case 'broken':
        breakOff(road, ending.why, ending.unclear)
        return
      default:
        ending satisfies never
    }
  }

  const admit = async ({ authorization, target }: ForwardRequest): Promise<Denied | null> => {
    if (lane?.serves(authorization, target)) return null
    closeLane(null)
    const admission = await client.admit('http', credentialsOf(authorization))
    if (admission.denied) return admission
    lane = createLane(context, client, admission, { authorization, target }, (why) => running?.fail(why))
    return null
  }
  const prepare = async (request: ForwardRequest, paid: boolean): Promise<Road | Denied> => {
    const denied = await admit(request)
    if (denied) return denied
    const used = lane!
    const road = used.road() ?? (await used.build())
    if ('denied' in road || paid) return road
    return (await payWhole(used.admission.spending, request.length, 'up')) ?? road
  }
  const build = async (request: ForwardRequest, next: () => void, paid: boolean): Promise<void> => {
    client.rest('answer')
    const road = await prepare(request, paid).catch((error) => {
      context.onFault(error)
      return unavailable()
    })
    if (client.gone.aborted) return closeLane(null)
    if ('denied' in road) return refuse(road, request)
    if (!paid) metrics.passed('up', request.length)
    send(request, road, next)
  }
  /** A fault leaves no connection to the target behind. */
  const containBuild = (request: ForwardRequest, next: () => void, paid: boolean): void =>
    client.contain(
      build(request, next, paid).catch((error) => {
        closeLane(null)
        throw error
      }),
    )
  return {
    forward: (request, next) => {
      const road = lane?.serves(request.authorization, request.target) ? lane.road() : null
      if (road === null || !takeWhole(lane!.admission.spending, request.length, 'up'))
        return containBuild(request, next, false)
      metrics.passed('up', request.length)
      send(request, road, next)
    },
    close: () => closeLane(null),
    drain: () => {
      draining = true
    },
  }
}

const timeout: OwnAnswer = {
  status: 504,
  error: 'target_timeout',
  detail: 'The target did not answer in time.',
}
