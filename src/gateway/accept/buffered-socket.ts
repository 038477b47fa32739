import type { OnReadOpts, Socket } from 'node:net'
import { asError, type OnFault } from '../refusals.ts'

/** Idle tunnels are many, so they hold little; a fat flow asks for more with its first reads. */
const firstBytes = 4_096
const growth = 4
const maxBytes = 262_144
/** A read of less than this share of the buffer is a small one, */
const smallShare = 1 / 16
/** and so many of them one after another give memory back. */
const smallReads = 8

/**
 * The memory that one socket reads into: its own, since memory that several sockets read into is overwritten while the
 * write of another is still queued. It is used again as soon as what was read last has gone out, which saves an
 * allocation for each chunk, and grows from 4 KiB to 256 KiB with the flow.
 */
export type ReadBuffer = {
  /** So many bytes came. */
  filled(bytes: number): void
  /** Where the next bytes go. */
  next(): Buffer
}

/** @param reader says whether a chunk of the buffer is still in use */
export const createReadBuffer = (reader: { holds(): boolean }): ReadBuffer => {
  let size = firstBytes
  let buffer = Buffer.allocUnsafeSlow(size)
  let small = 0
  return {
    filled: (bytes) => {
      if (bytes === buffer.length) size = Math.min(size * growth, maxBytes)
      small = bytes < size * smallShare ? small + 1 : 0
      if (small < smallReads || size === firstBytes) return
      size /= growth
      small = 0
    },
    next: () => {
      if (size !== buffer.length || reader.holds()) buffer = Buffer.allocUnsafeSlow(size)
      return buffer
    },
  }
}

/** What handles the bytes of a connection at the moment: one for each phase of it. */
export type ConnectionHandler = {
  /** @returns whether to read on; if not, reading goes on with `resume` */
  bytes(chunk: Buffer): boolean
  /** The other side sends no more. Each handler is called once, also when another one was before it. */
  end(): void
  /** What was written has left the queue. */
  drain(): void
  /** The connection is over; null: without a fault. */
  closed(fault: Error | null): void
  /** Whether memory of a chunk is still in use: it is then not read into again. */
  holds(): boolean
}

/** A socket whose bytes always go to exactly one hand, and wait, bounded, while there is none. */
export type BufferedSocket = {
  readonly socket: Socket
  /** From now on `hand` gets what comes; first what waited. Reading goes on. */
  use(handler: ConnectionHandler): void
  /** Nobody reads for a while: bytes wait, and so does the end of the other side. */
  detach(): void
  /** Gives back the rest of a chunk, for the next hand. */
  unshift(rest: Buffer): void
  resume(): void
}

/** What still comes is read and thrown away: closing on it would reset the connection and lose what was sent last. */
export const discardHandler: ConnectionHandler = {
  bytes: () => true,
  end: () => undefined,
  drain: () => undefined,
  closed: () => undefined,
  holds: () => false,
}

/** Without a byte for so long, TCP asks whether the other side is there. */
const keepAliveMs = 60_000
/** How much waits while nobody reads; more stays with the kernel and so with the sender. */
const waitingBytes = 16_384

/**
 * The reading side of one socket. A class, since a process has thousands: its functions are there once, not once for each.
 */
export class BufferedReader implements BufferedSocket {
  #socket!: Socket
  /** Whether a chunk's memory belongs to the reader, so that what waits has to be copied. */
  readonly #copies: boolean
  readonly #onFault: OnFault
  #waiting: Buffer[] | null = null
  #handler: ConnectionHandler | null = null
  #paused = false
  #ended = false
  #endTold = false
  #fault: Error | null = null
  #over = false
  #overTold = false
  #flushing = false

  /** @param onFault told of what a hand throws, which ends this connection alone */
  constructor(copies: boolean, onFault: OnFault) {
    this.#copies = copies
    this.#onFault = onFault
  }

  /** Begins: to be called once, before anything of the socket is heard. */
  of(socket: Socket): BufferedSocket {
    this.#socket = socket
    // Finds out that the other side is gone without a word, and keeps what lies between from forgetting an idle connection.
    socket.setKeepAlive(true, keepAliveMs)
    socket.on('end', () => this.#sideEnded())
    socket.on('drain', () => this.#contained(() => this.#handler?.drain()))
    socket.on('error', (error) => {
      this.#fault = error
    })
    socket.on('close', () => {
      this.#over = true
      this.#tellOver()
    })
    return this
  }

  get socket(): Socket {
    return this.#socket
  }

  /** @returns whether to read on */
  arrived(chunk: Buffer): boolean {
    if (this.#handler !== null && this.#waiting === null) this.#give(this.#handler, chunk)
    else {
      this.#waiting ??= []
      this.#waiting.push(this.#copies ? Buffer.from(chunk) : chunk)
      this.#paused ||= this.#waitingLength() >= waitingBytes
    }
    return !this.#paused
  }

  holds(): boolean {
    return this.#handler?.holds() ?? false
  }

  use(next: ConnectionHandler): void {
    this.#handler = next
    this.#endTold = false
    this.#paused = false
    this.#flush()
    this.#goOn()
  }

  detach(): void {
    this.#handler = null
    this.#paused = this.#waitingLength() >= waitingBytes
    this.#goOn()
  }

  unshift(rest: Buffer): void {
    if (rest.length === 0) return
    this.#waiting ??= []
    this.#waiting.unshift(this.#copies ? Buffer.from(rest) : rest)
  }

  resume(): void {
    this.#paused = false
    this.#flush()
    this.#goOn()
  }

  #waitingLength(): number {
    return this.#waiting?.reduce((sum, { length }) => sum + length, 0) ?? 0
  }

  #sideEnded(): void {
    this.#ended = true
    this.#tellEnd()
  }

  #tellEnd(): void {
    if (!this.#ended || this.#endTold || this.#handler === null || this.#waiting !== null) return
    this.#endTold = true
    const handler = this.#handler
    this.#contained(() => handler.end())
  }

  /** A fault is told at once; bytes that waited come before an end without one. */
  #tellOver(): void {
    const handler = this.#handler
    if (!this.#over || this.#overTold || handler === null) return
    if (this.#waiting !== null && this.#fault === null) return
    this.#overTold = true
    this.#contained(() => handler.closed(this.#fault))
  }

  #give(to: ConnectionHandler, chunk: Buffer): void {
    try {
      const goOn = to.bytes(chunk)
      if (this.#handler === to) this.#paused = !goOn
    } catch (error) {
      this.#broken(error)
    }
  }

  #contained(work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#broken(error)
    }
  }

  #broken(error: unknown): void {
    this.#paused = true
    this.#waiting = null
    this.#fault ??= asError(error)
    this.#onFault(error)
    reset(this.#socket)
  }

  #takeWaiting(): Buffer | null {
    const first = this.#waiting?.shift() ?? null
    if (this.#waiting?.length === 0) this.#waiting = null
    return first
  }

  /** What waited, in its order, as long as its reader wants it. */
  #flush(): void {
    if (this.#flushing) return
    this.#flushing = true
    while (this.#handler !== null && !this.#paused && this.#waiting !== null)
      this.#give(this.#handler, this.#takeWaiting()!)
    this.#flushing = false
    this.#tellEnd()
    this.#tellOver()
  }

  #goOn(): void {
    if (this.#paused || this.#socket.destroyed) return
    // A socket with a buffer of its own does not say that it is paused.
    if (this.#copies || this.#socket.isPaused()) this.#socket.resume()
  }
}

/** The wire of a socket that is open already: that of a client. */
export const acceptBufferedSocket = (socket: Socket, onFault: OnFault): BufferedSocket => {
  const reading = new BufferedReader(false, onFault)
  reading.of(socket)
  socket.on('data', (chunk: Buffer) => {
    if (!reading.arrived(chunk)) socket.pause()
  })
  return reading
}

/** Ends a connection so that the other side sees that something is missing. */
export const reset = (socket: Socket): void => {
  // Only plain TCP has a reset of its own. By itself it waits for what is queued, which a side that does not read never takes.
  if (!('encrypted' in socket || socket.connecting)) socket.resetAndDestroy()
  socket.destroy()
}

/** The wire of a socket that we open: it reads into memory of its own that is used again. */
export const dialBufferedSocket = (
  connect: (onread: OnReadOpts) => Socket,
  onFault: OnFault,
): BufferedSocket => {
  const reading = new BufferedReader(true, onFault)
  const memory = createReadBuffer(reading)
  const socket = connect({
    buffer: memory.next,
    callback: (bytes, buffer) => {
      memory.filled(bytes)
      return reading.arrived((buffer as Buffer).subarray(0, bytes))
    },
  })
  return reading.of(socket)
}
