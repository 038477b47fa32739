import type { Socket } from 'node:net'
import type { TrustedProxies } from './client-address.ts'
import { addressSubject, peerAddress } from './client-address.ts'
import type { HttpMetrics } from './http-metrics.ts'

export type ConnectionLimits = {
  /** Open connections in all. */
  readonly total: number
  /** Those of one address, or of one IPv6 network of 64 bits. A trusted proxy has no such limit: it connects for everybody. */
  readonly perAddress: number
}

export const defaultConnectionLimits: ConnectionLimits = { total: 10_000, perAddress: 500 }

/** One connection as its requests see it. */
export type Connection = {
  /** A request of it is in work: it is not cut to make room. */
  work(): void
  /** A request of it has left its place. */
  rest(): void
}

/** Of a request that came over no socket. */
const none: Connection = { work: () => undefined, rest: () => undefined }

export type Connections = {
  /** Takes a new connection in, or hangs up on it. */
  take(socket: Socket): void
  of(socket: Socket): Connection
  readonly open: ReadonlySet<Socket>
}

/** Who connects from one place. `waiting` has those with no request in work, the one that waits longest first. */
type Group = { open: number; readonly waiting: Set<Socket> }

/**
 * Bounds connections, in all and by address. One too many makes room by cutting the connection that has waited longest for
 * its client (for a request, the rest of one, or the reading of an answer): of the same address, where that has its share,
 * else of all. So neither idle connections nor half-sent requests, however many, keep a new client out. Where every
 * connection has a request in work, the new one is cut.
 */
export const createConnections = (
  { total, perAddress }: ConnectionLimits,
  trusted: TrustedProxies,
  metrics: HttpMetrics,
): Connections => {
  const open = new Set<Socket>()
  const waiting = new Set<Socket>()
  const groups = new Map<string, Group>()
  const known = new WeakMap<Socket, Connection & { leave(): void }>()

  const cut = (socket: Socket): void => {
    known.get(socket)?.leave()
    socket.destroy()
    metrics.connectionCut()
  }

  /** @returns whether there is room now */
  const makeRoom = (among: ReadonlySet<Socket>): boolean => {
    const [longest] = among
    if (longest !== undefined) cut(longest)
    return longest !== undefined
  }

  const groupOf = (subject: string): Group => {
    const group = groups.get(subject) ?? { open: 0, waiting: new Set() }
    groups.set(subject, group)
    return group
  }

  const enter = (socket: Socket, subject: string | null): void => {
    const group = subject === null ? null : groupOf(subject)
    let working = 0
    const wait = (): void => {
      waiting.add(socket)
      group?.waiting.add(socket)
    }
    const unwait = (): void => {
      waiting.delete(socket)
      group?.waiting.delete(socket)
    }
    const leave = (): void => {
      if (!open.delete(socket)) return
      unwait()
      metrics.connections(open.size)
      if (group === null || subject === null) return
      group.open -= 1
      if (group.open === 0) groups.delete(subject)
    }
    open.add(socket)
    metrics.connections(open.size)
    if (group !== null) group.open += 1
    wait()
    known.set(socket, {
      work: () => {
        working += 1
        if (working === 1) unwait()
      },
      rest: () => {
        working -= 1
        if (working === 0 && open.has(socket)) wait()
      },
      leave,
    })
    socket.once('close', leave)
  }

  return {
    open,
    of: (socket) => known.get(socket) ?? none,
    take: (socket) => {
      const peer = peerAddress(socket)
      const subject = trusted(peer) ? null : addressSubject(peer)
      const group = subject === null ? undefined : groups.get(subject)
      const fits =
        (group === undefined || group.open < perAddress || makeRoom(group.waiting)) &&
        (open.size < total || makeRoom(waiting))
      if (fits) enter(socket, subject)
      else cut(socket)
    },
  }
}
