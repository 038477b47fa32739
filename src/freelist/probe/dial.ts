import { connect, type Socket } from 'node:net'
import type { Place } from '../record/endpoint.ts'
import { isOwnFault, ProbeFailure } from './failure.ts'
import { CheckUnavailable } from './port.ts'

/** The sockets of one check, which end together. */
export type Sockets = {
  /** A connection. @throws ProbeFailure, CheckUnavailable */
  dial(place: Place): Promise<Socket>
  /** Ends those that are open; what waits for a connection fails. */
  cut(): void
  /** Does the same for good: no dial that follows gets a connection. */
  end(): void
}

/** @param count told of every socket that is opened (1) and closed (-1) */
export const createSockets = (count: (change: 1 | -1) => void): Sockets => {
  const open = new Set<Socket>()
  let over = false
  const cut = (): void => {
    for (const socket of open) socket.destroy()
  }
  return {
    dial: ({ ip, port }) =>
      new Promise((resolve, reject) => {
        if (over) return reject(new ProbeFailure('connect_timeout', 'it took no connection in time'))
        const socket = connect({ host: ip, port, noDelay: true })
        open.add(socket)
        count(1)
        socket.once('connect', () => resolve(socket))
        // Settles what waits; once it is connected it says nothing any more, and the reader hears of the end itself.
        socket.on('error', (error: NodeJS.ErrnoException) => {
          if (isOwnFault(error)) reject(new CheckUnavailable(`no connection can be made here: ${error.code}`))
          else if (error.code === 'ETIMEDOUT')
            reject(new ProbeFailure('connect_timeout', 'it took no connection in time'))
          else reject(new ProbeFailure('refused', 'it refuses connections, or nothing leads there'))
        })
        socket.once('close', () => {
          open.delete(socket)
          count(-1)
          reject(new ProbeFailure('connect_timeout', 'it took no connection in time'))
        })
      }),
    cut,
    end: () => {
      over = true
      cut()
    },
  }
}
