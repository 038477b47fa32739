import type { Socket } from 'node:net'

/** What handles the bytes of a connection at the moment: one for each phase of it. */
export type Hand = {
  /** @returns whether to read on; if not, reading goes on with `resume` */
  bytes(chunk: Buffer): boolean
  /** The other side sends no more. */
  end(): void
  /** What was written has left the queue. */
  drain(): void
  /** The connection is over; null: without a fault. */
  closed(fault: Error | null): void
  /** Whether memory of a chunk is still in use: it is then not read into again. */
  holds(): boolean
}

/** A socket whose bytes always go to exactly one hand, and wait, bounded, while there is none. */
export type Wire = {
  readonly socket: Socket
  /** From now on `hand` gets what comes; first what waited. Reading goes on. */
  use(hand: Hand): void
  /** Nobody reads for a while: bytes wait. `left` is called when the other side ends without any, or the connection is over. */
  rest(left: () => void): void
  /** Gives back the rest of a chunk, for the next hand. */
  unread(rest: Buffer): void
  resume(): void
}

/** What still comes is read and thrown away: closing on it would reset the connection and lose what was sent last. */
export const discarding: Hand = {
  bytes: () => true,
  end: () => undefined,
  drain: () => undefined,
  closed: () => undefined,
  holds: () => false,
}

/** How much waits while nobody reads; more stays with the kernel and so with the sender. */
const waitingBytes = 16_384

export type Reading = {
  readonly wire: (socket: Socket) => Wire
  /** @returns whether to read on */
  arrived(chunk: Buffer): boolean
  holds(): boolean
}

/** @param copies whether a chunk's memory belongs to the reader, so that what waits has to be copied */
export const createReading = (copies: boolean): Reading => {
  const waiting: Buffer[] = []
  let hand: Hand | null = null
  let left = (): void => undefined
  let paused = false
  let ended = false
  let endTold = false
  let over: { readonly fault: Error | null } | null = null
  let overTold = false
  let flushing = false
  let socket: Socket

  const waitingLength = (): number => waiting.reduce((sum, { length }) => sum + length, 0)
  const tellEnd = (): void => {
    if (!ended || endTold || hand === null || waiting.length > 0) return
    endTold = true
    hand.end()
  }
  /** A fault is told at once; bytes that waited come before an end without one. */
  const tellOver = (): void => {
    if (over === null || overTold || (hand !== null && waiting.length > 0 && over.fault === null)) return
    if (hand !== null) overTold = true
    if (hand === null) left()
    else hand.closed(over.fault)
  }
  const give = (to: Hand, chunk: Buffer): void => {
    const goOn = to.bytes(chunk)
    if (hand === to) paused = !goOn
  }
  /** What waited, in its order, as long as its reader wants it. */
  const flush = (): void => {
    if (flushing) return
    flushing = true
    while (hand !== null && !paused && waiting.length > 0) give(hand, waiting.shift()!)
    flushing = false
    tellEnd()
    tellOver()
  }
  const arrived = (chunk: Buffer): boolean => {
    if (hand === null || waiting.length > 0) {
      waiting.push(copies ? Buffer.from(chunk) : chunk)
      paused ||= waitingLength() >= waitingBytes
    } else give(hand, chunk)
    return !paused
  }
  const goOn = (): void => {
    if (paused || socket.destroyed) return
    // A socket with a buffer of its own does not say that it is paused.
    if (copies || socket.isPaused()) socket.resume()
  }
  const wire = (of: Socket): Wire => {
    socket = of
    let fault: Error | null = null
    socket.on('end', () => {
      ended = true
      tellEnd()
      if (hand === null && waiting.length === 0) left()
    })
    socket.on('drain', () => hand?.drain())
    socket.on('error', (error) => {
      fault = error
    })
    socket.on('close', () => {
      over = { fault }
      tellOver()
    })
    return {
      socket,
      use: (next) => {
        hand = next
        paused = false
        flush()
        goOn()
      },
      rest: (whenLeft) => {
        hand = null
        left = whenLeft
        paused = waitingLength() >= waitingBytes
        if (over === null) goOn()
        else left()
      },
      unread: (rest) => {
        if (rest.length > 0) waiting.unshift(copies ? Buffer.from(rest) : rest)
      },
      resume: () => {
        paused = false
        flush()
        goOn()
      },
    }
  }
  return { wire, arrived, holds: () => hand?.holds() ?? false }
}

/** The wire of a socket that is open already: that of a client. */
export const incomingWire = (socket: Socket): Wire => {
  const reading = createReading(false)
  const wire = reading.wire(socket)
  socket.on('data', (chunk: Buffer) => {
    if (!reading.arrived(chunk)) socket.pause()
  })
  return wire
}

/** Ends a connection so that the other side sees that something is missing. */
export const reset = (socket: Socket): void => {
  // Only plain TCP has a reset of its own.
  if ('encrypted' in socket || socket.connecting) socket.destroy()
  else socket.resetAndDestroy()
}
