import type { MonotonicClock } from '../../kernel/clock.ts'
import type { Deadlines } from '../../platform/work/deadlines.ts'
import type { Dial } from '../dial/dial.ts'
import type { Access, Exits, GatewayLogger, ProxyMetrics } from '../gateway-ports.ts'
import type { OnFault } from '../refusals.ts'
import type { AbortHandlers } from '../relay/cuts.ts'
import type { Resolve } from '../targets/resolve.ts'
import type { TargetRules } from '../targets/targets.ts'

/** The objects that all connections of a gateway share. */
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

/** Limits of a gateway process; times are milliseconds. */
export type GatewayLimits = {
  /** Open client connections; further ones are answered 503. */
  readonly connections: number
  /** Unauthenticated connections of one source address; further ones are closed. */
  readonly unauthenticatedPerAddress: number
  /** Size of a request's head. */
  readonly headBytes: number
  readonly headMs: number
  /** Size of a response's head. Some targets send many cookies. */
  readonly responseHeadBytes: number
  /** Idle timeout of a tunnel without a byte in either direction. */
  readonly tunnelIdleMs: number
  /** Idle timeout of any other connection, and of a tunnel with one ended side. */
  readonly idleMs: number
  /** From the choice of an exit to the target's answer, for all attempts together. */
  readonly dialMs: number
  /** Exits tried for one connection. */
  readonly exitTries: number
  /** Time for the last bytes of a connection that is being ended. */
  readonly lingerMs: number
  /** Time that running connections get when the gateway closes. */
  readonly drainMs: number
  /** Precision of the times above. */
  readonly sweepMs: number
  /** Hosts per UDP association. */
  readonly udpPeers: number
  /** Datagrams of one UDP association that wait for name resolution; further ones are dropped. */
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
