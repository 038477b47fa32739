import type { Wire } from '../wire.ts'
import { RaceCanceled, RaceTimeout } from './race.ts'

/** The other side ended before it had answered. */
export class AskingEnded extends Error {
  override readonly name = 'AskingEnded'
}

/** The answers of an exit while a connection through it is made. */
export type Asking = {
  /** The next bytes, so many of them. */
  exactly(bytes: number): Promise<Buffer>
  /** Up to and with the next empty line. */
  head(maxBytes: number): Promise<Buffer>
  /** What came after the answers waits for the next hand. */
  done(): void
  /** Gives up: closes the connection. */
  fail(): void
}

type Waiting = {
  readonly want: () => number | null
  readonly resolve: (bytes: Buffer) => void
  readonly reject: (error: Error) => void
}

const endOfHead = Buffer.from('\r\n\r\n')

/** @throws from its questions RaceTimeout, RaceCanceled, AskingEnded, and what the socket says */
export const askOver = (wire: Wire, timeoutMs: number, signal: AbortSignal): Asking => {
  let bytes: Buffer = Buffer.alloc(0)
  let waiting: Waiting | null = null
  let fault: Error | null = null

  const failed = (error: Error): void => {
    fault ??= error
    waiting?.reject(fault)
    waiting = null
  }
  const answer = (): void => {
    if (waiting === null) return
    try {
      const length = waiting.want()
      if (length === null) return
      const { resolve } = waiting
      waiting = null
      const taken = bytes.subarray(0, length)
      bytes = bytes.subarray(length)
      resolve(taken)
    } catch (error) {
      failed(error as Error)
    }
  }
  const stop = (error: Error): void => {
    failed(error)
    wire.socket.destroy()
  }
  const timer = setTimeout(() => stop(new RaceTimeout('the exit did not answer in time')), timeoutMs)
  const canceled = (): void => stop(new RaceCanceled('the client is gone'))
  if (signal.aborted) canceled()
  signal.addEventListener('abort', canceled, { once: true })
  const settle = (): void => {
    clearTimeout(timer)
    signal.removeEventListener('abort', canceled)
  }
  wire.use({
    bytes: (chunk) => {
      bytes = Buffer.concat([bytes, chunk])
      answer()
      return true
    },
    end: () => failed(new AskingEnded('the exit ended the connection')),
    drain: () => undefined,
    closed: (error) => failed(error ?? new AskingEnded('the exit ended the connection')),
    holds: () => false,
  })
  const ask = (want: () => number | null): Promise<Buffer> =>
    new Promise((resolve, reject) => {
      waiting = { want, resolve, reject }
      if (fault === null) answer()
      else failed(fault)
    })
  return {
    exactly: (length) => ask(() => (bytes.length >= length ? length : null)),
    head: (maxBytes) =>
      ask(() => {
        const at = bytes.indexOf(endOfHead)
        if (at === -1 && bytes.length > maxBytes) throw new AskingEnded('the answer of the exit is too long')
        return at === -1 ? null : at + endOfHead.length
      }),
    done: () => {
      settle()
      wire.rest(() => undefined)
      wire.unread(bytes)
    },
    fail: () => {
      settle()
      wire.socket.destroy()
    },
  }
}
