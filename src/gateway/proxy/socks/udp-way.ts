import type { Context } from '../context.ts'
import { addressIn } from '../dial/prefix.ts'
import type { Exit } from '../ports.ts'
import type { Target } from '../targets/host.ts'
import type { Toll } from './datagrams.ts'
import { directWay } from './udp-direct.ts'
import { socksWay } from './udp-socks.ts'

/** How datagrams get to targets and back. */
export type UdpWay = {
  /** A datagram that cannot go is lost, as datagrams may be, and costs nothing then. */
  send(target: Target, payload: Buffer, toll: Toll): void
  close(): void
  /** Settles when the exit relays no more. */
  readonly lost: Promise<void>
}

/** A datagram came back. */
export type Arrived = (from: { readonly address: string; readonly port: number }, payload: Buffer) => void

export type WayRequest = {
  readonly exit: Exit
  /** What keeps its address of a prefix; null: another one each time. */
  readonly session: string | null
  readonly timeoutMs: number
  readonly signal: AbortSignal
  readonly arrived: Arrived
}

/** @throws when the exit does not relay UDP */
export const openUdpWay = async (context: Context, request: WayRequest): Promise<UdpWay> => {
  const { via, sandbox } = request.exit
  switch (via.kind) {
    case 'direct':
      return directWay(context, via.localAddress, sandbox, request.arrived)
    case 'prefix':
      return directWay(context, addressIn(via.prefix, request.session), sandbox, request.arrived)
    case 'socks5':
      return socksWay(context, via, request)
    case 'http':
    case 'https':
      throw new Error('an HTTP proxy relays no UDP')
    default:
      return via satisfies never
  }
}
