import type { Failure } from '../domain/exits/connection-failures.ts'
import type { Line } from '../domain/exits/line.ts'
import type { Family } from '../domain/shared/order-terms.ts'

/** The log of a gateway. It never contains a target, a user name or a password. */
export type GatewayLogger = {
  debug(line: object, text: string): void
  error(line: object, text: string): void
}

export type Protocol = 'http' | 'connect' | 'socks5' | 'udp'

/** The metrics of the data plane. They never contain a target or a customer. */
export type ProxyMetrics = {
  /** A client connected. */
  connected(): void
  disconnected(): void
  /** An admission started to pass bytes; `closed` ends it. */
  opened(protocol: Protocol): void
  closed(protocol: Protocol): void
  refused(status: number, error: Denied['error']): void
  /** One attempt to connect to a target through an exit. */
  dialled(kind: string, outcome: 'connected' | 'exit_failed' | 'target_failed', ms: number): void
  countBytes(direction: 'up' | 'down', bytes: number): void
  /** A fault of the gateway ended one connection. */
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

/** A refusal. `status` is the HTTP status; the SOCKS reply is derived from it. */
export type Denied = {
  readonly denied: true
  readonly status: 400 | 403 | 407 | 464 | 465 | 466 | 467 | 502 | 503 | 504 | 568
  /** `X-Proxy-Error`: the error code, such as `traffic_exhausted`. */
  readonly error: Failure
  /** `X-Proxy-Detail` and the body: a sentence for people, without secrets and without facts about other plans. */
  readonly detail: string
  readonly retryAfterSeconds?: number
}

/** A client tries to connect. */
export type ConnectionAttempt = {
  /** The id of its request, for the traffic records. */
  readonly requestId: string
  /** Null: no credentials were sent; the source address may be on a whitelist. */
  readonly credentials: { readonly username: string; readonly password: string } | null
  /** The client's address, without a `::ffff:` prefix. */
  readonly source: string
  /** Our address that the client dialled. It identifies a dedicated rental. */
  readonly dialled: string
  readonly protocol: Protocol
}

/** How a connection or a request ended. */
export type Outcome = {
  /** It is counted in the owner's usage report; null: it ended well. */
  readonly error: Failure | null
  /** The host and port of the target; null or absent: there was none. */
  readonly host: string | null
  readonly port?: number
  /** The exit that connected to the target, if one did. */
  readonly exit?: Exit | undefined
  /** Default: the protocol and the request of the connection attempt, and the time since its admission. */
  readonly protocol?: Protocol
  readonly requestId?: string
  readonly durationMs?: number
}

/** The target of a connection, and the exit that connected to it. */
export type Reached = Required<Pick<Outcome, 'host' | 'port' | 'exit'>>

/** An admitted connection. Call `close` once when it ends. */
export type Admission = {
  readonly denied: false
  /** `pln_…` or `prx_…`. */
  readonly holder: string
  readonly accountId: string
  /** The set, if any, is resolved. For a rental the targeting is empty. */
  readonly line: Line
  /** The exit of a dedicated address; null: `exits.route` chooses one. */
  readonly dedicated: Exit | null
  readonly spending: Spending
  /** The family of the ordered product, for `exits.route`; default: any. */
  readonly family?: Family
  /** The connection to the target is open. */
  reached?(target: Reached): void
  /** One of several requests of the connection ended well. */
  requestEnded?(outcome: Outcome): void
  close(outcome: Outcome): void
}

/** The traffic budget of a connection, in bytes. Synchronous, because it is used for every chunk. */
export type Spending = {
  /** Takes 0 to `wanted` bytes now and counts them as consumed. */
  take(wanted: number, direction: 'up' | 'down'): number
  /** Gives back bytes that were taken and could not be passed on. */
  giveBack(bytes: number, direction: 'up' | 'down'): void
  /**
   * Call it after `take` returned less than `wanted`. Settles when more can be taken, or with the reason why nothing
   * more can.
   * @param wanted bytes of the next `take`, default 1. With a shared speed it settles when this many are available
   * @param least fewer bytes are of no use, default 1
   */
  more(wanted?: number, least?: number): Promise<null | Denied>
  /**
   * Aborted with a `Denied` as its reason when running tunnels must be cut: used up, expired, blocked, password
   * rotated.
   */
  readonly ended: AbortSignal
}

export type AbortHandler = (why: Denied) => void

export type AbortHandlers = {
  /**
   * Calls `onAbort` when the signal is aborted, or at once if it already is.
   * @returns a function that removes the handler
   */
  on(signal: AbortSignal, onAbort: AbortHandler): () => void
}

export type Access = {
  admit(attempt: ConnectionAttempt): Promise<Admission | Denied>
}

/** An exit for connections. */
export type Exit = {
  readonly exitId: string
  readonly via:
    | { readonly kind: 'direct'; readonly localAddress: string | null }
    /** An IPv6 prefix routed to this machine. Each session, or each connection without one, uses one address of it. */
    | { readonly kind: 'prefix'; readonly prefix: string }
    | {
        readonly kind: 'http' | 'https' | 'socks5'
        readonly host: string
        readonly port: number
        readonly username: string | null
        readonly password: string | null
      }
  /** Addresses of this machine are allowed targets: sandbox only. */
  readonly sandbox: boolean
  readonly udp: boolean
  /** Two letters, such as `us`. Absent: unknown. */
  readonly country?: string
  /** Hosts of the sandbox that a direct exit resolves itself: `host:port`, and the address on this machine. */
  readonly sandboxHosts?: Readonly<Record<string, { readonly host: string; readonly port: number }>>
}

/** The chosen exit of one connection. */
export type Route = {
  readonly denied: false
  readonly exit: Exit
  /** The targeting did not match and `strict` is off. The answer has `X-Proxy-Fallback: country`. */
  readonly fallback: boolean
  /** Minutes until the session moves to another exit; null: no session. */
  readonly stickyMinutesLeft: number | null
  /** The session name until it moves, for exits with one address per session; null: no session. */
  readonly sessionName?: string | null
  /** Call once with the result of the dial. `failed` means the exit itself failed, not the target. */
  done(outcome: 'connected' | 'failed' | 'unused', latencyMs: number): void
  /** Call once when the connection through the exit has ended or failed. Frees its slot. */
  close(): void
}

export type Exits = {
  /** Denied: 403 no exit was ever there, 465 nothing matches, 568 the pinned exit fails, 503 all exits are full. */
  route(request: {
    readonly holder: string
    readonly line: Line
    /** Whether the exit must relay UDP. */
    readonly udp: boolean
    /** The family of the holder's product; undefined or null: any family. */
    readonly family?: Family | null
  }): Promise<Route | Denied>
}
