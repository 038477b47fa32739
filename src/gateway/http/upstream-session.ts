import type { Failure } from '../../domain/exits/connection-failures.ts'
import type { Wire } from '../accept/buffered-socket.ts'
import type { Client } from '../accept/client-connection.ts'
import type { Context } from '../accept/gateway-context.ts'
import { targetClosed } from '../dial/dial-result.ts'
import { openRoute, toldOf } from '../dial/open-route.ts'
import type { Admission, Denied } from '../gateway-ports.ts'
import { Pump } from '../relay/pump.ts'
import type { Target } from '../targets/targets.ts'

/** A connection to the target with its two directions. */
export type Road = {
  readonly wire: Wire
  readonly up: Pump
  readonly down: Pump
  /** Header lines of the gateway. */
  readonly told: string
  /** Whether a request has gone over it before. */
  used: boolean
}

/**
 * What one client connection has for requests with the same credentials to the same target: one admission, and one connection
 * to the target that is used again.
 */
export type Lane = {
  readonly admission: Admission
  readonly target: Target
  /** Whether a request of these may go over it. */
  serves(authorization: string | null, target: Target): boolean
  /** The connection that is there, if it is. */
  road(): Road | null
  /** A new one. */
  build(): Promise<Road | Denied>
  /** The connection waits for the next request. */
  leaveRoad(): void
  /** Closes the connection. */
  dropRoad(): void
  /** The connection belongs to somebody else from now on. */
  handOverRoad(): void
  close(error: Failure | null): void
}

export const createLane = (
  context: Context,
  client: Client,
  admission: Admission,
  { authorization, target }: { readonly authorization: string | null; readonly target: Target },
  onDenied: (why: Denied) => void,
): Lane => {
  const { metrics, cuts } = context
  const { spending } = admission
  let road: Road | null = null
  let closed = false
  metrics.opened('http')

  const destroy = (): void => {
    road?.up.stop()
    road?.wire.socket.destroy()
    road = null
  }
  const pumpTo = (to: Wire, from: Wire, direction: 'up' | 'down'): Pump =>
    new Pump({
      from,
      to,
      spending,
      direction,
      passed: (bytes) => {
        client.watch.touch()
        metrics.passed(direction, bytes)
      },
      denied: onDenied,
    })
  /** Between two requests a target has nothing to say: what it says then would be taken for the next answer. */
  const idle = (built: Road): void =>
    built.wire.use({
      bytes: () => {
        if (road === built) destroy()
        return false
      },
      end: () => {
        if (road === built) destroy()
      },
      drain: () => built.up.drained(),
      closed: () => {
        if (road === built) destroy()
      },
      holds: () => built.down.holds(),
    })
  const uncut = cuts.on(spending.ended, onDenied)
  return {
    admission,
    target,
    serves: (otherAuthorization, other) =>
      !closed &&
      !spending.ended.aborted &&
      authorization === otherAuthorization &&
      target.host === other.host &&
      target.port === other.port,
    road: () => road,
    build: async () => {
      const opened = await openRoute(context, client, admission, target)
      if (opened.denied) return opened
      const { wire } = opened
      road = {
        wire,
        up: pumpTo(wire, client.wire, 'up'),
        down: pumpTo(client.wire, wire, 'down'),
        told: toldOf(opened),
        used: false,
      }
      idle(road)
      if (closed || client.gone.aborted) destroy()
      return road ?? targetClosed()
    },
    leaveRoad: () => {
      if (road) idle(road)
    },
    dropRoad: destroy,
    handOverRoad: () => {
      road = null
      uncut()
    },
    close: (error) => {
      if (closed) return
      closed = true
      uncut()
      destroy()
      metrics.closed('http')
      admission.close({ error, host: target.host })
    },
  }
}
