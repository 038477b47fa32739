import type { Failure } from '../../domain/exits/connection-failures.ts'
import type { BufferedSocket } from '../accept/buffered-socket.ts'
import type { Client } from '../accept/client-connection.ts'
import type { GatewayContext } from '../accept/gateway-context.ts'
import { targetClosed } from '../dial/dial-result.ts'
import { formatRouteHeaders, openRoute } from '../dial/open-route.ts'
import type { Admission, Denied } from '../gateway-ports.ts'
import { Pump } from '../relay/pump.ts'
import type { Target } from '../targets/targets.ts'

/** A connection to the target, with its two pumps. */
export type UpstreamConnection = {
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
export type UpstreamSession = {
  readonly admission: Admission
  readonly target: Target
  /** Whether the session can serve a request with these credentials to this target. */
  serves(authorization: string | null, target: Target): boolean
  /** The open connection; null: there is none. */
  connection(): UpstreamConnection | null
  /** Opens a new connection. */
  connect(): Promise<UpstreamConnection | Denied>
  /** Makes the connection idle until the next request. */
  leaveRoad(): void
  /** Closes the connection. */
  dropRoad(): void
  /** Passes the ownership of the connection to the caller. */
  handOverRoad(): void
  close(error: Failure | null): void
}

export const createUpstreamSession = (
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
        client.watch.touch()
        metrics.countBytes(direction, bytes)
      },
      denied: onDenied,
    })
  /** Closes an idle connection when the target sends bytes, which would be mistaken for the next answer. */
  const watchIdle = (idleConnection: UpstreamConnection): void =>
    idleConnection.wire.use({
      bytes: () => {
        if (upstreamConnection === idleConnection) destroy()
        return false
      },
      end: () => {
        if (upstreamConnection === idleConnection) destroy()
      },
      drain: () => idleConnection.up.drained(),
      closed: () => {
        if (upstreamConnection === idleConnection) destroy()
      },
      holds: () => idleConnection.down.holds(),
    })
  const removeAbortHandler = abortHandlers.on(spending.ended, onDenied)
  return {
    admission,
    target,
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
      upstreamConnection = {
        wire,
        up: pumpTo(wire, client.wire, 'up'),
        down: pumpTo(client.wire, wire, 'down'),
        routeHeaders: formatRouteHeaders(opened),
        used: false,
      }
      watchIdle(upstreamConnection)
      if (isClosed || client.disconnected.aborted) destroy()
      return upstreamConnection ?? targetClosed()
    },
    leaveRoad: () => {
      if (upstreamConnection) watchIdle(upstreamConnection)
    },
    dropRoad: destroy,
    handOverRoad: () => {
      upstreamConnection = null
      removeAbortHandler()
    },
    close: (error) => {
      if (isClosed) return
      isClosed = true
      removeAbortHandler()
      destroy()
      metrics.closed('http')
      admission.close({ error, host: target.host })
    },
  }
}
