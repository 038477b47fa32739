import type { Failure } from '../../domain/exits/connection-failures.ts'
import type { ConnectionDeadline } from '../../platform/work/deadlines.ts'
import { type BufferedSocket, type ConnectionHandler, reset } from '../accept/buffered-socket.ts'
import type { Client } from '../accept/client-connection.ts'
import type { GatewayContext } from '../accept/gateway-context.ts'
import type { Admission, Protocol, Spending } from '../gateway-ports.ts'
import type { AbortHandlers } from './cuts.ts'
import { Pump } from './pump.ts'

export type TunnelParts = {
  readonly client: BufferedSocket
  readonly upstream: BufferedSocket
  readonly spending: Spending
  readonly watch: ConnectionDeadline
  readonly abortHandlers: AbortHandlers
  readonly idleMs: number
  /** Idle timeout after one side has ended, milliseconds. */
  readonly halfOpenMs: number
  readonly lingerMs: number
  onForwarded(direction: 'up' | 'down', bytes: number): void
  /** Both connections are closed; null: without an error. */
  done(error: Failure | null): void
}

const nothing = Buffer.alloc(0)

class Tunnel {
  readonly parts: TunnelParts
  readonly up: Pump
  readonly down: Pump
  error: Failure | null = null
  /** Both sides receive the bytes already taken from the spending, then the end. */
  cutting = false
  #over = false
  #uncut: () => void = () => undefined
  #lingering: NodeJS.Timeout | undefined

  constructor(parts: TunnelParts) {
    this.parts = parts
    this.up = this.#pump('up')
    this.down = this.#pump('down')
  }

  run(): void {
    const { client, upstream, spending, abortHandlers, idleMs } = this.parts
    this.#limitIdle(idleMs)
    client.use(new Side(this, client, upstream, 'client_reset'))
    upstream.use(new Side(this, upstream, client, 'target_reset'))
    this.#uncut = abortHandlers.on(spending.ended, (why) => this.#cut(why.error))
  }

  #limitIdle(ms: number): void {
    this.parts.watch.within(ms, () => this.#cut('idle_timeout'))
  }

  sideEnded(): void {
    const { idleMs, halfOpenMs } = this.parts
    this.#limitIdle(Math.min(idleMs, halfOpenMs))
  }

  #pump(direction: 'up' | 'down'): Pump {
    const { client, upstream, spending, watch, onForwarded } = this.parts
    return new Pump({
      from: direction === 'up' ? client : upstream,
      to: direction === 'up' ? upstream : client,
      spending,
      direction,
      onForwarded: (bytes) => {
        watch.touch()
        onForwarded(direction, bytes)
      },
      denied: (why) => this.#cut(why.error),
    })
  }

  #cut(why: Failure): void {
    const { client, upstream } = this.parts
    this.error ??= why
    if (this.cutting) return
    this.cutting = true
    this.#stopPumps()
    // Taken bytes are still sent, for at most `lingerMs`. A side that does not read them in time gets a reset.
    this.#afterLinger(() => {
      for (const { socket } of [client, upstream])
        if (socket.writableLength > 0) reset(socket)
        else socket.destroy()
    })
    client.socket.destroySoon()
    upstream.socket.destroySoon()
  }

  /**
   * Uses its own timer: the client's deadline ends with the client, but the target may be the side that does not read.
   */
  #afterLinger(step: () => void): void {
    clearTimeout(this.#lingering)
    this.#lingering = setTimeout(step, this.parts.lingerMs)
  }

  #stopPumps(): void {
    this.up.stop()
    this.down.stop()
  }

  /** Ends the tunnel when both sockets are destroyed. Their close events may come later. */
  leave(): void {
    const { client, upstream, watch, done } = this.parts
    if (this.#over || !client.socket.destroyed || !upstream.socket.destroyed) return
    this.#over = true
    this.#stopPumps()
    this.#uncut()
    watch.stop()
    clearTimeout(this.#lingering)
    done(this.error)
  }

  /**
   * One side failed. The other side receives the bytes sent to it, then a reset, so that it detects the missing part.
   */
  breakOff({ socket }: BufferedSocket): void {
    if (socket.destroyed) return
    if (socket.writableLength === 0) {
      reset(socket)
      return
    }
    this.#afterLinger(() => reset(socket))
    // The callback runs when all earlier bytes are sent.
    socket.write(nothing, () => reset(socket))
  }
}

/** Handles the bytes of one of the two connections. */
class Side implements ConnectionHandler {
  readonly #tunnel: Tunnel
  readonly #own: BufferedSocket
  readonly #other: BufferedSocket
  readonly #whenBroken: Failure
  #ended = false

  constructor(tunnel: Tunnel, own: BufferedSocket, other: BufferedSocket, whenBroken: Failure) {
    this.#tunnel = tunnel
    this.#own = own
    this.#other = other
    this.#whenBroken = whenBroken
  }

  get #out(): Pump {
    return this.#own === this.#tunnel.parts.client ? this.#tunnel.up : this.#tunnel.down
  }

  get #back(): Pump {
    return this.#own === this.#tunnel.parts.client ? this.#tunnel.down : this.#tunnel.up
  }

  bytes(chunk: Buffer): boolean {
    return this.#out.write(chunk)
  }

  end(): void {
    this.#ended = true
    this.#tunnel.sideEnded()
    this.#out.end()
  }

  drain(): void {
    this.#tunnel.parts.watch.touch()
    this.#back.drained()
  }

  closed(fault: Error | null): void {
    const tunnel = this.#tunnel
    if (fault !== null) {
      tunnel.error ??= this.#whenBroken
      this.#out.stop()
      tunnel.breakOff(this.#other)
    } else if (!tunnel.cutting && (!this.#ended || !this.#own.socket.writableFinished))
      this.#other.socket.destroy() // the gateway closed this side
    tunnel.leave()
  }

  holds(): boolean {
    return this.#out.holds()
  }
}

/** Relays bytes both ways until both sides end, one of them fails, or the tunnel is cut. */
export const runTunnel = (parts: TunnelParts): void => new Tunnel(parts).run()

/** Runs a tunnel for a client. @param done receives the error code at the end; null: no error */
export const tunnelOf = (
  { limits, metrics, abortHandlers }: GatewayContext,
  client: Client,
  upstream: BufferedSocket,
  { spending }: Admission,
  protocol: Protocol,
  done: (error: Failure | null) => void,
): void => {
  metrics.opened(protocol)
  const parts = {
    client: client.wire,
    upstream,
    spending,
    watch: client.watch,
    abortHandlers,
    idleMs: limits.tunnelIdleMs,
    halfOpenMs: limits.idleMs,
    lingerMs: limits.lingerMs,
    onForwarded: metrics.countBytes,
    done: (error: Failure | null) => {
      metrics.closed(protocol)
      done(error)
    },
  }
  try {
    runTunnel(parts)
  } catch (error) {
    upstream.socket.destroy()
    throw error
  }
}
