import type { BufferedSocket } from '../accept/buffered-socket.ts'
import type { Denied, Spending } from '../gateway-ports.ts'
import { gatewayUnavailable } from '../refusals.ts'

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

export type PumpParts = {
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
  readonly #parts: PumpParts
  /** Bytes that were read and are not taken from the spending. */
  #held: Buffer[] | null = null
  #stalled = false
  #ending = false
  #stopped = false

  constructor(parts: PumpParts) {
    this.#parts = parts
  }

  /** Passes on the bytes that the spending allows. @returns whether the source may continue reading */
  write(chunk: Buffer): boolean {
    if (this.#stopped) return false
    if (this.#held !== null) {
      this.#hold(chunk)
      return false
    }
    const { spending, direction } = this.#parts
    const granted = spending.take(chunk.length, direction)
    if (granted === chunk.length) return this.#pass(chunk)
    if (granted > 0) this.#pass(chunk.subarray(0, granted))
    this.#hold(chunk.subarray(granted))
    return false
  }

  /** Ends the sink after all written bytes. */
  end(): void {
    this.#ending = true
    if (this.#held === null) this.#parts.to.socket.end()
  }

  /** The write queue of the sink is empty. */
  drained(): void {
    if (!this.#stalled) return
    this.#stalled = false
    if (this.#held === null && !this.#stopped && !this.#ending) this.#parts.from.resume()
  }

  /** Whether memory of a chunk is still in use. */
  holds(): boolean {
    return this.#held !== null || this.#parts.to.socket.writableLength > 0
  }

  /** Whether written bytes still wait for the spending. */
  pending(): boolean {
    return this.#held !== null
  }

  /** Drops all bytes from now on. */
  stop(): void {
    this.#stopped = true
    this.#held = null
  }

  #pass(chunk: Buffer): boolean {
    const { to, spending, direction, onForwarded } = this.#parts
    const { socket } = to
    if (!socket.writable) {
      spending.giveBack(chunk.length, direction)
      return true
    }
    onForwarded(chunk.length)
    socket.write(chunk)
    // If the kernel accepted all bytes at once, nothing is queued, and no drain event is needed.
    if (socket.writableLength === 0 || !socket.writableNeedDrain) return true
    this.#stalled = true
    return false
  }

  #hold(rest: Buffer): void {
    if (this.#held !== null) {
      this.#held.push(rest)
      return
    }
    this.#held = [rest]
    this.#ask().catch(() => {
      if (!this.#stopped) this.#parts.denied(gatewayUnavailable())
    })
  }

  /** Requests more from the spending until all waiting bytes are passed on. */
  async #ask(): Promise<void> {
    for (
      let waitingChunks = this.#held;
      waitingChunks !== null && !this.#stopped;
      waitingChunks = this.#held
    ) {
      const why = await this.#parts.spending.more(waitingChunks[0]?.length)
      if (this.#stopped) return
      if (why !== null) return this.#parts.denied(why)
      if (!this.#takeHeld()) await new Promise((resolve) => setTimeout(resolve, retryMs))
    }
    if (!this.#stopped) this.#settle()
  }

  /** @returns whether any bytes were taken */
  #takeHeld(): boolean {
    const { spending, direction } = this.#parts
    const waitingChunks = this.#held ?? []
    let hasTaken = false
    for (let chunk = waitingChunks[0]; chunk !== undefined && !this.#stopped; chunk = waitingChunks[0]) {
      const granted = spending.take(chunk.length, direction)
      hasTaken ||= granted > 0
      if (granted > 0) this.#pass(granted === chunk.length ? chunk : chunk.subarray(0, granted))
      if (granted < chunk.length) {
        waitingChunks[0] = chunk.subarray(granted)
        return hasTaken
      }
      waitingChunks.shift()
    }
    this.#held = null
    return true
  }

  #settle(): void {
    if (this.#ending) this.#parts.to.socket.end()
    else if (!this.#stalled) this.#parts.from.resume()
  }
}
