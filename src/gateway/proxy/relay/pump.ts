import type { Denied, Spending } from '../ports.ts'
import { unavailable } from '../refusals.ts'
import type { Wire } from '../wire.ts'

/** One direction of a connection: what it passes on is taken from the spending first, to the byte. */
export type Pump = {
  /** Passes on what may be passed. @returns whether the source may go on reading */
  write(chunk: Buffer): boolean
  /** Ends the sink after all that was written. */
  end(): void
  /** The sink's queue is empty again. */
  drained(): void
  /** Whether memory of a chunk is still in use. */
  holds(): boolean
  /** Whether something that was written has not been taken yet. */
  pending(): boolean
  /** Nothing more goes through. */
  stop(): void
}

export type PumpParts = {
  readonly to: Wire
  readonly spending: Spending
  readonly direction: 'up' | 'down'
  /** Bytes are on their way to the sink. */
  passed(bytes: number): void
  /** The source may go on. */
  resume(): void
  /** Nothing more may be passed on. */
  denied(why: Denied): void
}

/** Between two askings when what `more` promised was taken by somebody else. */
const retryMs = 10

export const createPump = ({ to, spending, direction, passed, resume, denied }: PumpParts): Pump => {
  const { socket } = to
  /** Read, but not taken yet. */
  const held: Buffer[] = []
  let stalled = false
  let ending = false
  let stopped = false

  const pass = (chunk: Buffer): boolean => {
    if (!socket.writable) {
      spending.giveBack(chunk.length, direction)
      return true
    }
    passed(chunk.length)
    socket.write(chunk)
    // What the kernel took at once is gone, however much it was.
    if (socket.writableLength === 0 || !socket.writableNeedDrain) return true
    stalled = true
    return false
  }
  /** @returns how many of the bytes went out */
  const take = (chunk: Buffer): number => {
    const granted = spending.take(chunk.length, direction)
    if (granted === chunk.length) pass(chunk)
    else if (granted > 0) pass(chunk.subarray(0, granted))
    return granted
  }
  const settle = (): void => {
    if (ending) socket.end()
    else if (!stalled) resume()
  }
  const takeHeld = (): boolean => {
    let some = false
    while (held.length > 0) {
      const [chunk] = held as [Buffer]
      const granted = take(chunk)
      some ||= granted > 0
      if (granted < chunk.length) {
        held[0] = chunk.subarray(granted)
        return some
      }
      held.shift()
    }
    return true
  }
  const ask = async (): Promise<void> => {
    while (held.length > 0 && !stopped) {
      const why = await spending.more()
      if (stopped) return
      if (why !== null) return denied(why)
      if (!takeHeld()) await new Promise((resolve) => setTimeout(resolve, retryMs))
    }
    if (!stopped) settle()
  }
  const hold = (rest: Buffer): void => {
    held.push(rest)
    if (held.length > 1) return
    ask().catch(() => {
      if (!stopped) denied(unavailable())
    })
  }
  return {
    write: (chunk) => {
      if (stopped) return false
      if (held.length > 0) {
        hold(chunk)
        return false
      }
      const granted = spending.take(chunk.length, direction)
      if (granted === chunk.length) return pass(chunk)
      if (granted > 0) pass(chunk.subarray(0, granted))
      hold(chunk.subarray(granted))
      return false
    },
    end: () => {
      ending = true
      if (held.length === 0) socket.end()
    },
    drained: () => {
      if (!stalled) return
      stalled = false
      if (held.length === 0 && !stopped && !ending) resume()
    },
    holds: () => held.length > 0 || socket.writableLength > 0,
    pending: () => held.length > 0,
    stop: () => {
      stopped = true
      held.length = 0
    },
  }
}
