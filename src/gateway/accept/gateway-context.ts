import type { MonotonicClock } from '../../kernel/clock.ts'
import type { Deadlines } from '../../platform/work/deadlines.ts'
import type { Dial } from '../dial/dial.ts'
import type { Access, Exits, GatewayLogger, ProxyMetrics } from '../gateway-ports.ts'
import type { OnFault } from '../refusals.ts'
import type { AbortHandlers } from '../relay/cuts.ts'
import type { Resolve } from '../targets/resolve.ts'
import type { TargetRules } from '../targets/targets.ts'

/** What every connection of a gateway shares. */
export type GatewayContext = {
  readonly access: Access
  readonly exits: Exits
  readonly dial: Dial
  readonly resolve: Resolve
  readonly rules: TargetRules
  readonly limits: GatewayLimits
  readonly metrics: ProxyMetrics
  readonly logger: GatewayLogger
  readonly clock: MonotonicClock
  readonly deadlines: Deadlines
  readonly abortHandlers: AbortHandlers
  readonly onFault: OnFault
}

/** Bounds of a gateway process; times are milliseconds. */
export type GatewayLimits = {
  /** Open client connections; one more is answered 503. */
  readonly connections: number
  /** Connections of one source address that have not said yet who they are; one more is closed. */
  readonly unauthenticatedPerAddress: number
  /** Of a request's head. */
  readonly headBytes: number
  readonly headMs: number
  /** Of a response's head: some targets send many cookies. */
  readonly responseHeadBytes: number
  /** Of a tunnel without a byte in either direction. */
  readonly tunnelIdleMs: number
  /** Of any other connection, and of a tunnel whose one side has ended. */
  readonly idleMs: number
  /** From choosing an exit until the target answers through it, all tries together. */
  readonly dialMs: number
  /** Exits that are tried for one connection. */
  readonly exitTries: number
  /** How long a connection that is being ended may take its last bytes. */
  readonly lingerMs: number
  /** What running connections get when the gateway closes. */
  readonly drainMs: number
  /** How exactly the times above are held. */
  readonly sweepMs: number
  /** Hosts that one UDP association may talk to. */
  readonly udpPeers: number
  /** Datagrams of one UDP association that wait for the address of a name; more are lost. */
  readonly udpWaiting: number
}

export const defaultLimits: GatewayLimits = {
  connections: 20_000,
  unauthenticatedPerAddress: 1_000,
  headBytes: 16_384,
  headMs: 10_000,
  responseHeadBytes: 262_144,
  tunnelIdleMs: 3_600_000,
  idleMs: 120_000,
  dialMs: 15_000,
  exitTries: 3,
  lingerMs: 2_000,
  drainMs: 10_000,
  sweepMs: 500,
  udpPeers: 256,
  udpWaiting: 64,
}
