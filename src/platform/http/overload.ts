import type { MonotonicClock } from '../../kernel/clock.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { addressSubject } from '../../kernel/ip-address.ts'
import { createTally, type Tally } from '../../kernel/tally.ts'
import { type ApiError, refuseWithRetryAfter } from './errors.ts'
import type { Exchange } from './exchange.ts'
import type { HttpMetrics } from './gauges.ts'
import type { ConcurrencyLimit } from './route.ts'

export type PendingBodyLimits = {
  /** Bodies that may be in transit at once, to all routes without slots of their own. */
  readonly total: number
  /** Those of one account, or of one address if the account is not known. */
  readonly perSender: number
  /** Their total size once they are complete. The routes with slots of their own have as much again. */
  readonly bytes: number
}

export const defaultPendingBodyLimits: PendingBodyLimits = {
  total: 1_000,
  perSender: 100,
  bytes: 64 * 1024 * 1024,
}

/** The bodies in transit. Such a request has no in-flight slot, because its client decides how long the body takes. */
export type PendingBodies = {
  /**
   * @param bytes the maximum size of the body
   * @param cut ends the body with a refusal if its room is needed
   * @throws rate_limited or overloaded if the sender is at its limit
   */
  enter(exchange: Exchange, bytes: number, cut: (refusal: ApiError) => void): void
  /** The body is complete, or will never be. */
  leave(exchange: Exchange): void
}

type Body = { readonly sender: string; readonly bytes: number; cut(refusal: ApiError): void }

/** `bodies` has the oldest first. */
type Pool = {
  readonly limits: PendingBodyLimits
  readonly bodies: Map<Exchange, Body>
  readonly bySender: Tally<string>
  bytes: number
}

const poolOf = (limits: PendingBodyLimits): Pool => ({
  limits,
  bodies: new Map(),
  bySender: createTally(),
  bytes: 0,
})

const tooManyError = (exchange: Exchange, count: number): ApiError =>
  exchange.caller === null
    ? refuseWithRetryAfter('overloaded', 'too many bodies are on their way from this address', 1)
    : refuseWithRetryAfter(
        'rate_limited',
        `${count} bodies of this account are on their way, which is as many as may be; finish some`,
        1,
      )

const tooSlowError = (): ApiError =>
  refuseWithRetryAfter(
    'overloaded',
    'the body was on its way for too long while the service had others to read',
    1,
  )

/**
 * At the limit, a new body ends the body that has been in transit longest. So slow bodies, from however many accounts
 * and addresses, never block a quick one.
 */
export const createPendingBodies = (limits: PendingBodyLimits): PendingBodies => {
  const shared = poolOf(limits)
  const ownByLimit = new Map<ConcurrencyLimit, Pool>()

  const poolFor = ({ route }: Exchange): Pool => {
    const atOnce = route?.route.atOnce
    if (atOnce === undefined) return shared
    const { total, perAddress } = atOnce
    const pool = ownByLimit.get(atOnce) ?? poolOf({ total, perSender: perAddress, bytes: limits.bytes })
    ownByLimit.set(atOnce, pool)
    return pool
  }

  const remove = (pool: Pool, exchange: Exchange, { sender, bytes }: Body): void => {
    pool.bodies.delete(exchange)
    pool.bySender.remove(sender)
    pool.bytes -= bytes
  }

  const makeRoom = (pool: Pool, bytes: number): void => {
    for (const [exchange, body] of pool.bodies) {
      if (pool.bodies.size < pool.limits.total && pool.bytes + bytes <= pool.limits.bytes) return
      remove(pool, exchange, body)
      body.cut(tooSlowError())
    }
  }

  return {
    enter: (exchange, bytes, cut) => {
      const pool = poolFor(exchange)
      const sender = exchange.caller?.accountId ?? addressSubject(exchange.address)
      if (pool.bySender.of(sender) >= pool.limits.perSender)
        throw tooManyError(exchange, pool.limits.perSender)
      makeRoom(pool, bytes)
      pool.bodies.set(exchange, { sender, bytes, cut })
      pool.bySender.add(sender)
      pool.bytes += bytes
    },
    leave: (exchange) => {
      const pool = poolFor(exchange)
      const body = pool.bodies.get(exchange)
      if (body !== undefined) remove(pool, exchange, body)
    },
  }
}

/**
 * Runs one synchronous piece of work of a request, during which all other requests wait. Stores the longest duration in
 * the exchange.
 * @returns the result of `run`
 * @throws the error of `run`
 */
export type MeasureEventLoopDelay = <Result>(exchange: Exchange, run: () => Result) => Result

export const createEventLoopDelayMeter =
  (monotonicMs: MonotonicClock): MeasureEventLoopDelay =>
  (exchange, run) => {
    const startMs = monotonicMs()
    try {
      return run()
    } finally {
      exchange.eventLoopDelayMs = Math.max(exchange.eventLoopDelayMs, monotonicMs() - startMs)
    }
  }

/**
 * The requests in progress. A request has a slot while the service works for it: from its headers until its answer,
 * except while its body is in transit (`createPendingBodies`). The slot is free before the client has read the answer,
 * so that clients which never send or never read cannot take every slot. If the client disconnects, the slot is
 * released at once or, if a handler is running, when the handler ends.
 */
export type InFlight = {
  /** @throws overloaded if all slots are taken */
  enter(exchange: Exchange): void
  /**
   * Counts a request in progress for its account, across all keys and addresses of the account.
   * @throws rate_limited if the account has its share of the slots
   */
  enterFor(exchange: Exchange, accountId: AccountId): void
  /** Releases the slot. Further calls have no effect. */
  leave(exchange: Exchange): void
}

type RequestSlots = { readonly atOnce: ConcurrencyLimit; taken: number; readonly byAddress: Tally<string> }

const createRequestSlots = (atOnce: ConcurrencyLimit): RequestSlots => ({
  atOnce,
  taken: 0,
  byAddress: createTally(),
})

export type InFlightLimits = {
  /** Slots of all routes without slots of their own. One address may take all of them. */
  readonly total: number
  /** Requests of one account in progress at once, on all routes. */
  readonly perAccount: number
}

export const createInFlight = ({ total, perAccount }: InFlightLimits, metrics: HttpMetrics): InFlight => {
  const shared = createRequestSlots({ total, perAddress: Number.POSITIVE_INFINITY })
  const ownByLimit = new Map<ConcurrencyLimit, RequestSlots>()
  const byAccount = createTally<AccountId>()

  const slotsOf = ({ route }: Exchange): RequestSlots => {
    const atOnce = route?.route.atOnce
    if (atOnce === undefined) return shared
    const requestSlots = ownByLimit.get(atOnce) ?? createRequestSlots(atOnce)
    ownByLimit.set(atOnce, requestSlots)
    return requestSlots
  }

  const count = (requestSlots: RequestSlots, { address, connection }: Exchange, change: 1 | -1): void => {
    requestSlots.taken += change
    if (change === 1) connection.markBusy()
    else connection.markIdle()
    if (requestSlots === shared) metrics.inFlight(requestSlots.taken)
    else if (change === 1) requestSlots.byAddress.add(addressSubject(address))
    else requestSlots.byAddress.remove(addressSubject(address))
  }

  return {
    enter: (exchange) => {
      const requestSlots = slotsOf(exchange)
      const { atOnce, byAddress } = requestSlots
      if (
        requestSlots.taken >= atOnce.total ||
        byAddress.of(addressSubject(exchange.address)) >= atOnce.perAddress
      )
        throw refuseWithRetryAfter('overloaded', 'the service is answering as many requests as it can', 1)
      count(requestSlots, exchange, 1)
      exchange.hasPlace = true
    },
    enterFor: (exchange, accountId) => {
      if (!exchange.hasPlace) return
      if (byAccount.of(accountId) >= perAccount)
        throw refuseWithRetryAfter(
          'rate_limited',
          `${perAccount} requests of this account are in work, which is as many as may be; await the answers of some`,
          1,
        )
      byAccount.add(accountId)
      exchange.countedFor = accountId
    },
    leave: (exchange) => {
      if (!exchange.hasPlace) return
      exchange.hasPlace = false
      count(slotsOf(exchange), exchange, -1)
      if (exchange.countedFor !== null) byAccount.remove(exchange.countedFor)
      exchange.countedFor = null
    },
  }
}
