import type { Exit } from '../ports.ts'
import type { Target } from '../targets/host.ts'
import type { Toll } from './datagrams.ts'

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
