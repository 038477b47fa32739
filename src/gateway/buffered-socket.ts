import { connect, type OnReadOpts, type Socket } from 'node:net'
import { type Race, raceTo } from '../platform/outgoing/race.ts'
import { asError, type OnFault } from './refusals.ts'

/** Most tunnels are idle, so a buffer starts small. A fast flow grows it with its first reads. */
const initialSize = 4_096
const growth = 4
const maxBytes = 262_144
/** A read of less than this share of the buffer is small. */
const smallShare = 1 / 16
/** After this many small reads in a row the buffer shrinks. */
const smallReads = 8

/**
 * The memory that one socket reads into. Sockets cannot share it: a read would overwrite bytes that another socket has
 * not sent yet. It is reused as soon as the last read bytes are sent, which saves an allocation for each chunk. It
 * grows from 4 KiB to 256 KiB with the flow.
 */
type ReadBuffer = {
  /** The last read returned this many bytes. */
  filled(bytes: number): void
  /** The buffer for the next read. */
  next(): Buffer
}

/** @param reader its `holds` returns whether a chunk of the buffer is still in use */
const createReadBuffer = (reader: { isChunkInUse(): boolean }): ReadBuffer => {
  let size = initialSize
  let buffer = Buffer.allocUnsafeSlow(size)
  let smallReadCount = 0
  return {
    filled: (bytes) => {
      if (bytes === buffer.length) size = Math.min(size * growth, maxBytes)
      smallReadCount = bytes < size * smallShare ? smallReadCount + 1 : 0
      if (smallReadCount < smallReads || size === initialSize) return
      size /= growth
      smallReadCount = 0
    },
    next: () => {
      if (size !== buffer.length || reader.isChunkInUse()) buffer = Buffer.allocUnsafeSlow(size)
      return buffer
    },
  }
}

/** Handles the bytes of a connection during one of its phases. */
export type ConnectionHandler = {
  /** @returns whether to continue reading; if false, reading continues with `resume` */
  bytes(chunk: Buffer): boolean
  /** The other side half-closed the connection. Called once for each handler, also if an earlier handler was called. */
  end(): void
  /** The write queue is empty. */
  drain(): void
  /** The connection is closed; null: without an error. Called once for each handler, as `end`. */
  closed(fault: Error | null): void
  /** Whether memory of a chunk is still in use and must not be overwritten. */
  isChunkInUse(): boolean
}

/** A socket with exactly one handler. Without a handler its bytes are buffered, up to a limit. */
export type BufferedSocket = {
  readonly socket: Socket
  /** Sets the handler and resumes reading. The handler receives buffered bytes first. */
  use(handler: ConnectionHandler): void
  /** Removes the handler. Bytes and the end of the other side are buffered. */
  detach(): void
  /** Returns the unread rest of a chunk to the buffer, for the next handler. */
  unshift(rest: Buffer): void
  resume(): void
}

/** Reads and drops all bytes, and ignores all events. Handlers override parts of it. */
export const noopHandler: ConnectionHandler = {
  bytes: () => true,
  end: () => undefined,
  drain: () => undefined,
  closed: () => undefined,
  isChunkInUse: () => false,
}

/** After this long without a byte TCP sends a keep-alive probe, milliseconds. */
const keepAliveMs = 60_000
/** Buffered bytes of a socket without a handler. Further bytes stay in the kernel, which slows the sender down. */
const maxBufferedBytes = 16_384

/**
 * The reading side of one socket. It is a class because a process has thousands of them: methods exist once, closures
 * would exist once per socket.
 */
class BufferedReader implements BufferedSocket {
  #socket!: Socket
  /** Whether chunks share the read buffer, so that buffered chunks must be copied. */
  readonly #copies: boolean
  readonly #onFault: OnFault
  #buffered: Buffer[] | null = null
  #handler: ConnectionHandler | null = null
  #isPaused = false
  #hasEnded = false
  #isEndReported = false
  #fault: Error | null = null
  #isClosed = false
  #isCloseReported = false
  #isFlushing = false

  /** @param onFault receives the exceptions of handlers. Such an exception ends this connection only. */
  constructor(copiesChunks: boolean, onFault: OnFault) {
    this.#copies = copiesChunks
    this.#onFault = onFault
  }

  /** Attaches the socket. Call it once, before the socket emits any event. */
  attach(socket: Socket): BufferedSocket {
    this.#socket = socket
    // Detects a silent loss of the other side, and prevents middleboxes from dropping an idle connection.
    socket.setKeepAlive(true, keepAliveMs)
    socket.on('end', () => this.#sideEnded())
    socket.on('drain', () => this.#guard(() => this.#handler?.drain()))
    socket.on('error', (error) => {
      this.#fault = error
    })
    socket.on('close', () => {
      this.#isClosed = true
      this.#reportClose()
    })
    return this
  }

  get socket(): Socket {
    return this.#socket
  }

  /** @returns whether to continue reading */
  receive(chunk: Buffer): boolean {
    if (this.#handler !== null && this.#buffered === null) this.#deliver(this.#handler, chunk)
    else {
      this.#buffered ??= []
      this.#buffered.push(this.#copies ? Buffer.from(chunk) : chunk)
      this.#isPaused ||= this.#bufferedLength() >= maxBufferedBytes
    }
    return !this.#isPaused
  }

  isChunkInUse(): boolean {
    return this.#handler?.isChunkInUse() ?? false
  }

  use(next: ConnectionHandler): void {
    this.#handler = next
    this.#isEndReported = false
    this.#isCloseReported = false
    this.#isPaused = false
    this.#flush()
    this.#resumeReading()
  }

  detach(): void {
    this.#handler = null
    this.#isPaused = this.#bufferedLength() >= maxBufferedBytes
    this.#resumeReading()
  }

  unshift(rest: Buffer): void {
    if (rest.length === 0) return
    this.#buffered ??= []
    this.#buffered.unshift(this.#copies ? Buffer.from(rest) : rest)
  }

  resume(): void {
    this.#isPaused = false
    this.#flush()
    this.#resumeReading()
  }

  #bufferedLength(): number {
    return this.#buffered?.reduce((sum, { length }) => sum + length, 0) ?? 0
  }

  #sideEnded(): void {
    this.#hasEnded = true
    this.#reportEnd()
  }

  #reportEnd(): void {
    if (!this.#hasEnded || this.#isEndReported || this.#handler === null || this.#buffered !== null) return
    this.#isEndReported = true
    const handler = this.#handler
    this.#guard(() => handler.end())
  }

  /** Reports a socket error at once. Without an error, buffered bytes come before the close. */
  #reportClose(): void {
    const handler = this.#handler
    if (!this.#isClosed || this.#isCloseReported || handler === null) return
    if (this.#buffered !== null && this.#fault === null) return
    this.#isCloseReported = true
    this.#guard(() => handler.closed(this.#fault))
  }

  #deliver(to: ConnectionHandler, chunk: Buffer): void {
    try {
      const canContinue = to.bytes(chunk)
      if (this.#handler === to) this.#isPaused = !canContinue
    } catch (error) {
      this.#fail(error)
    }
  }

  #guard(work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#fail(error)
    }
  }

  #fail(error: unknown): void {
    this.#isPaused = true
    this.#buffered = null
    this.#fault ??= asError(error)
    this.#onFault(error)
    reset(this.#socket)
  }

  #shiftBuffered(): Buffer | null {
    const first = this.#buffered?.shift() ?? null
    if (this.#buffered?.length === 0) this.#buffered = null
    return first
  }

  /** Passes buffered bytes to the handler, in order, until it pauses. */
  #flush(): void {
    if (this.#isFlushing) return
    this.#isFlushing = true
    while (this.#handler !== null && !this.#isPaused && this.#buffered !== null)
      this.#deliver(this.#handler, this.#shiftBuffered()!)
    this.#isFlushing = false
    this.#reportEnd()
    this.#reportClose()
  }

  #resumeReading(): void {
    if (this.#isPaused || this.#socket.destroyed) return
    // A socket with `onread` does not report that it is paused.
    if (this.#copies || this.#socket.isPaused()) this.#socket.resume()
  }
}

/** Wraps a socket that is already open: that of a client. */
export const acceptBufferedSocket = (socket: Socket, onFault: OnFault): BufferedSocket => {
  const bufferedReader = new BufferedReader(false, onFault)
  bufferedReader.attach(socket)
  socket.on('data', (chunk: Buffer) => {
    if (!bufferedReader.receive(chunk)) socket.pause()
  })
  return bufferedReader
}

/** Closes a connection abruptly, so that the other side detects the missing bytes. */
export const reset = (socket: Socket): void => {
  // TLS sockets have no reset. `resetAndDestroy` alone waits for queued bytes, which a side that does not read never
  // takes.
  if (!('encrypted' in socket || socket.connecting)) socket.resetAndDestroy()
  socket.destroy()
}

/** Opens a socket that reads into its own reused memory. */
export const dialBufferedSocket = (
  connect: (onread: OnReadOpts) => Socket,
  onFault: OnFault,
): BufferedSocket => {
  const bufferedReader = new BufferedReader(true, onFault)
  const memory = createReadBuffer(bufferedReader)
  const socket = connect({
    buffer: memory.next,
    callback: (bytes, buffer) => {
      memory.filled(bytes)
      return bufferedReader.receive((buffer as Buffer).subarray(0, bytes))
    },
  })
  return bufferedReader.attach(socket)
}

/**
 * Opens a socket to the first address that answers. With `localAddress` null the system chooses the local address.
 * @throws as `raceTo`
 */
export const raceToSocket = ({
  port,
  localAddress,
  onFault,
  ...race
}: Omit<Race<BufferedSocket>, 'dial'> & {
  readonly port: number
  readonly localAddress: string | null
  readonly onFault: OnFault
}): Promise<BufferedSocket> =>
  raceTo({
    ...race,
    dial: (host) =>
      dialBufferedSocket(
        (onread) =>
          connect({
            host,
            port,
            allowHalfOpen: true,
            noDelay: true,
            onread,
            autoSelectFamily: false,
            ...(localAddress === null ? {} : { localAddress }),
          }),
        onFault,
      ),
  })
