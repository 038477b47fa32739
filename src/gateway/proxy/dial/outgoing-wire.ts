import type { OnReadOpts, Socket } from 'node:net'
import type { OnFault } from '../faults.ts'
import { createReadBuffer } from '../read-buffer.ts'
import { Reading, type Wire } from '../wire.ts'

/** The wire of a socket that we open: it reads into memory of its own that is used again. */
export const outgoingWire = (connect: (onread: OnReadOpts) => Socket, onFault: OnFault): Wire => {
  const reading = new Reading(true, onFault)
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
