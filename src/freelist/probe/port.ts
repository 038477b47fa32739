import type { Anonymity, CheckError, Place, Protocol } from '../record/endpoint.ts'

/** What a check of one endpoint found. A proxy that only pretends to work is not alive. */
export type CheckResult = {
  readonly alive: boolean
  /** All that passed, in the order of `protocols`. */
  readonly protocols: readonly Protocol[]
  /** The worst over the protocols that passed; null when none did. */
  readonly anonymity: Anonymity | null
  /** Where its requests reached the judge from. */
  readonly exitIp: string | null
  /** Whether it put a certificate of its own in the judge's place; null when no tunnel to the judge's TLS came about. */
  readonly interceptsTls: boolean | null
  /** From dialling it to the judge's whole answer, by the quickest protocol that passed; whole milliseconds. Null when none passed. */
  readonly latencyMs: number | null
  /** Until it took the connection, whole milliseconds; null when it did not. */
  readonly connectMs: number | null
  /** Null when it is alive. */
  readonly error: CheckError | null
  /** The same in a sentence, for people. Nothing in it was written by the proxy. */
  readonly detail: string | null
}

export type CheckOptions = {
  /** Left out: all of them. */
  readonly protocols?: readonly Protocol[]
  /** For the whole check. */
  readonly timeoutMs: number
  /** Until it took the first connection; left out: as long as the whole check may take. */
  readonly connectTimeoutMs?: number
  /** Sent to the proxy as it asks for it: Basic, or RFC 1929. SOCKS4 has no password and gets the username alone. */
  readonly login?: { readonly username: string; readonly password: string }
}

/** The check could not be made, for a reason of this side: no judge answers, no socket can be had. It says nothing of the proxy. */
export class CheckUnavailable extends Error {
  override readonly name = 'CheckUnavailable'
}

/**
 * Checks one endpoint through the judge of this service; the judge is configured, never chosen by a caller. Whether the
 * endpoint may be dialled at all is to be asked before (`candidateRefusal`).
 * Rejects with the signal's reason, or CheckUnavailable.
 */
export type Check = (endpoint: Place, options: CheckOptions, signal: AbortSignal) => Promise<CheckResult>
