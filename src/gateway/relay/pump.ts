import type { BufferedSocket } from '../accept/buffered-socket.ts'
import type { Denied, Spending } from '../gateway-ports.ts'
import { gatewayUnavailable } from '../refusals.ts'

/** Takes all of so many bytes or none. @returns whether they were taken */
export const reserveBytes = (spending: Spending, bytes: number, direction: 'up' | 'down'): boolean => {
  const granted = spending.take(bytes, direction)
  if (granted === bytes) return true
  if (granted > 0) spending.giveBack(granted, direction)
  return false
}

/** So often what `more` promised may have been taken by others. */
const maxTries = 100

/** @returns null when all of the bytes were taken, or why none were */
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
  /** Bytes are on their way to the sink. */
  onForwarded(bytes: number): void
  /** Nothing more may be passed on. */
  denied(why: Denied): void
}

/** Between two askings when what `more` promised was taken by somebody else. */
const retryMs = 10

/** One direction of a connection: what it passes on is taken from the spending first, to the byte. */
export class Pump {
  readonly #parts: PumpParts
  /** Read, but not taken yet. */
  #held: Buffer[] | null = null
  #stalled = false
  #ending = false
  #stopped = false

  constructor(parts: PumpParts) {
    this.#parts = parts
  }

  /** Passes on what may be passed. @returns whether the source may go on reading */
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

  /** Ends the sink after all that was written. */
  end(): void {
    this.#ending = true
    if (this.#held === null) this.#parts.to.socket.end()
  }

  /** The sink's queue is empty again. */
  drained(): void {
    if (!this.#stalled) return
    this.#stalled = false
    if (this.#held === null && !this.#stopped && !this.#ending) this.#parts.from.resume()
  }

  /** Whether memory of a chunk is still in use. */
  holds(): boolean {
    return this.#held !== null || this.#parts.to.socket.writableLength > 0
  }

  /** Whether something that was written has not been taken yet. */
  pending(): boolean {
    return this.#held !== null
  }

  /** Nothing more goes through. */
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
    // What the kernel took at once is gone, however much it was.
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

  /** Asks for more until all that is held has gone out. */
  async #ask(): Promise<void> {
    for (let held = this.#held; held !== null && !this.#stopped; held = this.#held) {
      const why = await this.#parts.spending.more(held[0]?.length)
      if (this.#stopped) return
      if (why !== null) return this.#parts.denied(why)
      if (!this.#takeHeld()) await new Promise((resolve) => setTimeout(resolve, retryMs))
    }
    if (!this.#stopped) this.#settle()
  }

  /** @returns whether anything could be taken */
  #takeHeld(): boolean {
    const { spending, direction } = this.#parts
    const held = this.#held ?? []
    let some = false
    for (let chunk = held[0]; chunk !== undefined && !this.#stopped; chunk = held[0]) {
      const granted = spending.take(chunk.length, direction)
      some ||= granted > 0
      if (granted > 0) this.#pass(granted === chunk.length ? chunk : chunk.subarray(0, granted))
      if (granted < chunk.length) {
        held[0] = chunk.subarray(granted)
        return some
      }
      held.shift()
    }
    this.#held = null
    return true
  }

  #settle(): void {
    if (this.#ending) this.#parts.to.socket.end()
    else if (!this.#stalled) this.#parts.from.resume()
  }
}
