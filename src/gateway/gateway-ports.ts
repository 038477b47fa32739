import type { Failure } from '../domain/exits/connection-failures.ts'
import type { Line } from '../domain/exits/exit-targeting.ts'
import type { Family } from '../domain/shared/order-terms.ts'

/** What a gateway tells its log; never a target, a user name or a password. */
export type GatewayLogger = {
  debug(line: object, text: string): void
  error(line: object, text: string): void
}

export type Protocol = 'http' | 'connect' | 'socks5' | 'udp'

/** What the data plane measures. Nothing here names a target or a customer. */
export type ProxyMetrics = {
  /** A client connected. */
  connected(): void
  disconnected(): void
  /** Bytes began to pass for one admission; the other one ends it. */
  opened(protocol: Protocol): void
  closed(protocol: Protocol): void
  refused(status: number, error: Denied['error']): void
  /** One try to reach a target through an exit. */
  dialled(kind: string, outcome: 'connected' | 'exit_failed' | 'target_failed', ms: number): void
  countBytes(direction: 'up' | 'down', bytes: number): void
  /** A fault of the gateway itself ended one connection. */
  faulted(): void
}

export const noMetrics: ProxyMetrics = {
  connected: () => undefined,
  disconnected: () => undefined,
  opened: () => undefined,
  closed: () => undefined,
  refused: () => undefined,
  dialled: () => undefined,
  countBytes: () => undefined,
  faulted: () => undefined,
}

/** Why the gateway refuses; the status is the HTTP one, SOCKS replies are derived from it. */
export type Denied = {
  readonly denied: true
  readonly status: 403 | 407 | 464 | 465 | 466 | 467 | 502 | 503 | 504 | 568
  /** `X-Proxy-Error`: a word for programs, e.g. `traffic_exhausted`. */
  readonly error: Failure
  /** `X-Proxy-Detail` and the body: a sentence for people; never a secret, never anything of a foreign plan. */
  readonly detail: string
  readonly retryAfterSeconds?: number
}

/** Somebody wants to connect. */
export type ConnectionAttempt = {
  /** Null: no credentials were sent; the source address may be on a whitelist. */
  readonly credentials: { readonly username: string; readonly password: string } | null
  /** The client's address, without a `::ffff:` prefix. */
  readonly source: string
  /** The address of ours that the client dialled: it names a dedicated rental. */
  readonly dialled: string
  readonly protocol: 'http' | 'connect' | 'socks5' | 'udp'
}

/** A connection that was let in. `close` must be called once when it ends. */
export type Admission = {
  readonly denied: false
  /** `pln_…` or `prx_…`. */
  readonly holder: string
  readonly accountId: string
  /** The set, if any, is resolved. For a rental the targeting is empty. */
  readonly line: Line
  /** A dedicated address: the exit that it always takes; null: `exits.route` chooses. */
  readonly dedicated: Exit | null
  readonly spending: Spending
  /** The family of the product that was bought, for `exits.route`; left out: any. */
  readonly family?: Family
  /** `outcome`: `ok`, or the `error` word of what went wrong; counted for the owner's usage report. */
  close(outcome: { readonly error: Failure | null; readonly host: string | null }): void
}

/** What a connection may pass on, in bytes; synchronous, since it is asked for every chunk. */
export type Spending = {
  /** Takes up to `wanted` bytes now and counts them: from 0 to `wanted`. What is taken is sold. */
  take(wanted: number, direction: 'up' | 'down'): number
  /** Gives back what was taken and could not be passed on. */
  giveBack(bytes: number, direction: 'up' | 'down'): void
  /**
   * After `take` gave less than was wanted: settles when more can be taken, or with why nothing more will be.
   * @param wanted what the next `take` will ask for, 1 by default: where a speed is shared, its turn comes when so much is there
   * @param least fewer bytes are of no use, 1 by default
   */
  more(wanted?: number, least?: number): Promise<null | Denied>
  /** Aborted with a `Denied` as its reason when running tunnels are to be cut: used up, expired, blocked, credential rotated. */
  readonly ended: AbortSignal
}

export type Access = {
  admit(attempt: ConnectionAttempt): Promise<Admission | Denied>
}

/** One way out. */
export type Exit = {
  readonly exitId: string
  readonly via:
    | { readonly kind: 'direct'; readonly localAddress: string | null }
    /** An IPv6 prefix routed to this machine: one address of it for each session (or each connection). */
    | { readonly kind: 'prefix'; readonly prefix: string }
    | {
        readonly kind: 'http' | 'https' | 'socks5'
        readonly host: string
        readonly port: number
        readonly username: string | null
        readonly password: string | null
      }
  /** Addresses on this machine are legal targets of this exit: sandbox only. */
  readonly sandbox: boolean
  readonly udp: boolean
  /** Hosts that a direct exit knows by itself, as `host:port`, and where on this machine they answer: the sandbox's own. */
  readonly places?: Readonly<Record<string, { readonly host: string; readonly port: number }>>
}

/** The exit of one connection, chosen. */
export type Route = {
  readonly denied: false
  readonly exit: Exit
  /** The targeting did not match and `strict` is off: told in `X-Proxy-Fallback: country`. */
  readonly fallback: boolean
  /** Minutes until the session moves on by itself; null without a session. */
  readonly stickyMinutesLeft: number | null
  /** Names the session until it moves on, for an exit that has an address for each; null without one. */
  readonly sessionName?: string | null
  /** Call once: how dialling ended. `failed` is about the exit itself, never about the target behind it. */
  done(outcome: 'connected' | 'failed' | 'unused', latencyMs: number): void
  /** Call once when the connection through the exit is over, also when it was never made: its place is free again. */
  close(): void
}

export type Exits = {
  /** Denied: 403 no exit was ever at the place, 465 nothing matches, 568 the pinned exit fails, 503 all are at their capacity. */
  route(request: {
    readonly holder: string
    readonly line: Line
    /** Needed of the exit. */
    readonly udp: boolean
    /** Exits of this family only, as the holder's product says it; left out or null: of any. */
    readonly family?: Family | null
  }): Promise<Route | Denied>
}
