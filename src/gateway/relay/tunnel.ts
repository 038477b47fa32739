import type { Failure } from '../../domain/exits/connection-failures.ts'
import type { ConnectionDeadline } from '../../platform/work/deadlines.ts'
import { type BufferedSocket, type ConnectionHandler, reset } from '../buffered-socket.ts'
import type { Client, GatewayContext } from '../client.ts'
import type { AbortHandlers, Admission, Denied, Protocol, Spending } from '../gateway-ports.ts'
import { gatewayUnavailable } from '../refusals.ts'

/**
 * Relays bytes both ways until both sides end, one of them fails, or the tunnel is cut.
 * @param done receives the error code at the end; null: no error
 */
export const runTunnel = (
  { limits, metrics, abortHandlers }: GatewayContext,
  client: Client,
  upstream: BufferedSocket,
  { spending }: Admission,
  protocol: Protocol,
  done: (error: Failure | null) => void,
): void => {
  metrics.opened(protocol)
  const tunnel = new Tunnel({
    client: client.wire,
    upstream,
    spending,
    deadline: client.deadline,
    abortHandlers,
    idleMs: limits.tunnelIdleMs,
    halfOpenMs: limits.idleMs,
    lingerMs: limits.lingerMs,
    onForwarded: metrics.countBytes,
    done: (error) => {
      metrics.closed(protocol)
      done(error)
    },
  })
  try {
    tunnel.run()
  } catch (error) {
    upstream.socket.destroy()
    throw error
  }
}

type TunnelOptions = {
  readonly client: BufferedSocket
  readonly upstream: BufferedSocket
  readonly spending: Spending
  readonly deadline: ConnectionDeadline
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
  readonly options: TunnelOptions
  readonly up: Pump
  readonly down: Pump
  error: Failure | null = null
  /** Both sides receive the bytes already taken from the spending, then the end. */
  isCut = false
  #hasEnded = false
  #removeAbortHandler: () => void = () => undefined
  #lingerTimer: NodeJS.Timeout | undefined

  constructor(options: TunnelOptions) {
    this.options = options
    this.up = this.#pump('up')
    this.down = this.#pump('down')
  }

  run(): void {
    const { client, upstream, spending, abortHandlers, idleMs } = this.options
    this.#limitIdle(idleMs)
    client.use(new Side(this, client, upstream, 'client_reset'))
    upstream.use(new Side(this, upstream, client, 'target_reset'))
    this.#removeAbortHandler = abortHandlers.on(spending.ended, (why) => this.#cut(why.error))
  }

  #limitIdle(ms: number): void {
    this.options.deadline.within(ms, () => this.#cut('idle_timeout'))
  }

  sideEnded(): void {
    const { idleMs, halfOpenMs } = this.options
    this.#limitIdle(Math.min(idleMs, halfOpenMs))
  }

  #pump(direction: 'up' | 'down'): Pump {
    const { client, upstream, spending, deadline, onForwarded } = this.options
    return new Pump({
      from: direction === 'up' ? client : upstream,
      to: direction === 'up' ? upstream : client,
      spending,
      direction,
      onForwarded: (bytes) => {
        deadline.touch()
        onForwarded(direction, bytes)
      },
      denied: (why) => this.#cut(why.error),
    })
  }

  #cut(why: Failure): void {
    const { client, upstream } = this.options
    this.error ??= why
    if (this.isCut) return
    this.isCut = true
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
    clearTimeout(this.#lingerTimer)
    this.#lingerTimer = setTimeout(step, this.options.lingerMs)
  }

  #stopPumps(): void {
    this.up.stop()
    this.down.stop()
  }

  /** Ends the tunnel when both sockets are destroyed. Their close events may come later. */
  endIfClosed(): void {
    const { client, upstream, deadline, done } = this.options
    if (this.#hasEnded || !client.socket.destroyed || !upstream.socket.destroyed) return
    this.#hasEnded = true
    this.#stopPumps()
    this.#removeAbortHandler()
    deadline.stop()
    clearTimeout(this.#lingerTimer)
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
  readonly #resetError: Failure
  #hasEnded = false

  constructor(tunnel: Tunnel, own: BufferedSocket, other: BufferedSocket, resetError: Failure) {
    this.#tunnel = tunnel
    this.#own = own
    this.#other = other
    this.#resetError = resetError
  }

  get #outgoing(): Pump {
    return this.#own === this.#tunnel.options.client ? this.#tunnel.up : this.#tunnel.down
  }

  get #incoming(): Pump {
    return this.#own === this.#tunnel.options.client ? this.#tunnel.down : this.#tunnel.up
  }

  bytes(chunk: Buffer): boolean {
    return this.#outgoing.write(chunk)
  }

  end(): void {
    this.#hasEnded = true
    this.#tunnel.sideEnded()
    this.#outgoing.end()
  }

  drain(): void {
    this.#tunnel.options.deadline.touch()
    this.#incoming.drained()
  }

  closed(fault: Error | null): void {
    const tunnel = this.#tunnel
    if (fault !== null && this.#hasEnded) this.#closeOther()
    else if (fault !== null) {
      // A client that received everything may close its connection with unread bytes, which resets it.
      const hasReceivedAll = this.#own === tunnel.options.client && this.#own.socket.writableFinished
      if (!hasReceivedAll) tunnel.error ??= this.#resetError
      this.#outgoing.stop()
      tunnel.breakOff(this.#other)
    } else if (!tunnel.isCut && (!this.#hasEnded || !this.#own.socket.writableFinished))
      this.#other.socket.destroy() // the gateway closed this side
    tunnel.endIfClosed()
  }

  /** This side had sent everything. So the other side receives all of it, and nothing is missing. */
  #closeOther(): void {
    this.#incoming.stop()
    this.#outgoing.afterPending(() => this.#other.socket.destroySoon())
  }

  isChunkInUse(): boolean {
    return this.#outgoing.holds()
  }
}

type PumpOptions = {
  readonly from: BufferedSocket
  readonly to: BufferedSocket
  readonly spending: Spending
  readonly direction: 'up' | 'down'
  /** Bytes were written to the sink. */
  onForwarded(bytes: number): void
  /** No more bytes may pass. */
  denied(why: Denied): void
}

/** Delay before the next attempt when other tunnels took the bytes that `more` announced, milliseconds. */
const retryMs = 10

/** One direction of a connection. Every byte is taken from the spending before it is passed on. */
export class Pump {
  readonly #options: PumpOptions
  /** Bytes that were read and are not taken from the spending. */
  #pending: Buffer[] | null = null
  #isStalled = false
  #isEnding = false
  #isStopped = false
  #afterPending: (() => void) | null = null

  constructor(options: PumpOptions) {
    this.#options = options
  }

  /** Passes on the bytes that the spending allows. @returns whether the source may continue reading */
  write(chunk: Buffer): boolean {
    if (this.#isStopped) return false
    if (this.#pending !== null) {
      this.#enqueue(chunk)
      return false
    }
    const { spending, direction } = this.#options
    const granted = spending.take(chunk.length, direction)
    if (granted === chunk.length) return this.#forward(chunk)
    if (granted > 0) this.#forward(chunk.subarray(0, granted))
    this.#enqueue(chunk.subarray(granted))
    return false
  }

  /** Ends the sink after all written bytes. */
  end(): void {
    this.#isEnding = true
    if (this.#pending === null) this.#options.to.socket.end()
  }

  /** The write queue of the sink is empty. */
  drained(): void {
    if (!this.#isStalled) return
    this.#isStalled = false
    if (this.#pending === null && !this.#isStopped && !this.#isEnding) this.#options.from.resume()
  }

  /** Whether memory of a chunk is still in use. */
  holds(): boolean {
    return this.#pending !== null || this.#options.to.socket.writableLength > 0
  }

  /** Whether written bytes still wait for the spending. */
  hasPending(): boolean {
    return this.#pending !== null
  }

  /** Calls `step` when no written bytes wait for the spending. It is not called if the pump is stopped before. */
  afterPending(step: () => void): void {
    if (this.#pending === null) step()
    else this.#afterPending = step
  }

  /** Drops all bytes from now on. */
  stop(): void {
    this.#isStopped = true
    this.#pending = null
  }

  #forward(chunk: Buffer): boolean {
    const { to, spending, direction, onForwarded } = this.#options
    const { socket } = to
    if (!socket.writable) {
      spending.giveBack(chunk.length, direction)
      return true
    }
    onForwarded(chunk.length)
    socket.write(chunk)
    // If the kernel accepted all bytes at once, nothing is queued, and no drain event is needed.
    if (socket.writableLength === 0 || !socket.writableNeedDrain) return true
    this.#isStalled = true
    return false
  }

  #enqueue(rest: Buffer): void {
    if (this.#pending !== null) {
      this.#pending.push(rest)
      return
    }
    this.#pending = [rest]
    this.#requestMore().catch(() => {
      if (!this.#isStopped) this.#options.denied(gatewayUnavailable)
    })
  }

  /** Requests more from the spending until all waiting bytes are passed on. */
  async #requestMore(): Promise<void> {
    for (let chunks = this.#pending; chunks !== null && !this.#isStopped; chunks = this.#pending) {
      const why = await this.#options.spending.more(chunks[0]?.length)
      if (this.#isStopped) return
      if (why !== null) return this.#options.denied(why)
      if (!this.#forwardPending()) await new Promise((resolve) => setTimeout(resolve, retryMs))
    }
    if (!this.#isStopped) this.#settle()
  }

  /** @returns whether any bytes were taken */
  #forwardPending(): boolean {
    const { spending, direction } = this.#options
    const chunks = this.#pending ?? []
    let hasTaken = false
    for (let chunk = chunks[0]; chunk !== undefined && !this.#isStopped; chunk = chunks[0]) {
      const granted = spending.take(chunk.length, direction)
      hasTaken ||= granted > 0
      if (granted > 0) this.#forward(granted === chunk.length ? chunk : chunk.subarray(0, granted))
      if (granted < chunk.length) {
        chunks[0] = chunk.subarray(granted)
        return hasTaken
      }
      chunks.shift()
    }
    this.#pending = null
    return true
  }

  #settle(): void {
    const step = this.#afterPending
    this.#afterPending = null
    step?.()
    if (this.#isEnding) this.#options.to.socket.end()
    else if (!this.#isStalled) this.#options.from.resume()
  }
}

/** Takes all of the bytes or none. @returns whether they were taken */
export const reserveBytes = (spending: Spending, bytes: number, direction: 'up' | 'down'): boolean => {
  const granted = spending.take(bytes, direction)
  if (granted === bytes) return true
  if (granted > 0) spending.giveBack(granted, direction)
  return false
}

/** Limit of retries when other tunnels take the bytes that `more` announced. */
const maxTries = 100

/** Waits until all of the bytes are taken. @returns null when they are, or why none were */
export const chargeBytes = async (
  spending: Spending,
  bytes: number,
  direction: 'up' | 'down',
): Promise<Denied | null> => {
  for (let tries = 0; !reserveBytes(spending, bytes, direction); tries++) {
    const why = await spending.more(bytes, bytes)
    if (why !== null) return why
    if (tries === maxTries) throw new Error('the budget promised more and gave nothing')
  }
  return null
}
