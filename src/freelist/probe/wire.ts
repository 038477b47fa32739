import type { Socket } from 'node:net'
import { ProbeFailure } from './failure.ts'
import { mostBytes } from './http-answer.ts'

/** A connection whose answers are read by pieces. */
export type Wire = {
  readonly socket: Socket
  send(bytes: Buffer | string): void
  /**
   * What `read` makes of the bytes that came, as soon as it makes something of them; then they are gone.
   * @throws ProbeFailure when the connection ends first or more than 16 KiB come, and what `read` throws
   */
  take<Value>(read: (bytes: Buffer, ended: boolean) => Value | null): Promise<Value>
  /** The same for an exact number of bytes. */
  takeBytes(count: number): Promise<Buffer>
  /** Leaves the socket to another reader. @throws ProbeFailure when the other side spoke out of turn */
  release(): Socket
}

export const createWire = (socket: Socket): Wire => {
  let bytes: Buffer = Buffer.alloc(0)
  let ended = false
  let wake: (() => void) | null = null
  const onData = (chunk: Buffer): void => {
    bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk])
    wake?.()
  }
  const onEnd = (): void => {
    ended = true
    wake?.()
  }
  socket.on('data', onData)
  for (const event of ['end', 'close', 'error']) socket.on(event, onEnd)
  const take: Wire['take'] = async (read) => {
    for (;;) {
      const value = bytes.length > 0 ? read(bytes, ended) : null
      if (value !== null) {
        bytes = Buffer.alloc(0)
        return value
      }
      if (bytes.length > mostBytes) throw new ProbeFailure('bad_response', 'the answer is too long')
      if (ended) throw new ProbeFailure('bad_response', 'it ended the connection before its answer was whole')
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  }
  return {
    socket,
    send: (data) => void socket.write(data),
    take,
    takeBytes: (count) =>
      take((all) => (all.length >= count ? all : null)).then((all) => {
        bytes = all.subarray(count)
        return all.subarray(0, count)
      }),
    release: () => {
      if (bytes.length > 0) throw new ProbeFailure('bad_response', 'it spoke out of turn')
      socket.off('data', onData)
      for (const event of ['end', 'close', 'error']) socket.off(event, onEnd)
      return socket
    },
  }
}
