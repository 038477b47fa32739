import { createTally, type Tally } from '../work/tally.ts'
import { addressSubject } from './client-address.ts'
import type { ApiError } from './errors.ts'
import { refuseUntil } from './errors.ts'
import type { Exchange } from './exchange.ts'
import type { AtOnce } from './route.ts'

export type ArrivingLimits = {
  /** Bodies that may be on their way at once, to all routes that have no places of their own. */
  readonly total: number
  /** Those of one account, or of one address where no account is known. */
  readonly perSender: number
  /** What they may take of memory once they are there. Routes with places of their own have as much again. */
  readonly bytes: number
}

export const defaultArrivingLimits: ArrivingLimits = {
  total: 1_000,
  perSender: 100,
  bytes: 64 * 1024 * 1024,
}

/** The bodies that are on their way. A request has no place in flight meanwhile: its client decides how long it takes. */
export type Arriving = {
  /**
   * @param bytes what it will take at the most
   * @param cut ends it with a refusal, when its room is needed
   * @throws rate_limited or overloaded, when its sender has as many on their way as may be
   */
  enter(exchange: Exchange, bytes: number, cut: (refusal: ApiError) => void): void
  /** It is there, or will never be. */
  leave(exchange: Exchange): void
}

type Body = { readonly sender: string; readonly bytes: number; cut(refusal: ApiError): void }

/** `bodies` has the oldest first. */
type Pool = {
  readonly limits: ArrivingLimits
  readonly bodies: Map<Exchange, Body>
  readonly bySender: Tally<string>
  bytes: number
}

const poolOf = (limits: ArrivingLimits): Pool => ({
  limits,
  bodies: new Map(),
  bySender: createTally(),
  bytes: 0,
})

const tooMany = (exchange: Exchange, count: number): ApiError =>
  exchange.caller === null
    ? refuseUntil('overloaded', 'too many bodies are on their way from this address', 1)
    : refuseUntil(
        'rate_limited',
        `${count} bodies of this account are on their way, which is as many as may be; finish some`,
        1,
      )

const tooSlow = (): ApiError =>
  refuseUntil('overloaded', 'the body was on its way for too long while the service had others to read', 1)

/**
 * One body too many ends the one that has been on its way for longest. So slow bodies, from however many accounts and
 * addresses, never keep a quick one out.
 */
export const createArriving = (limits: ArrivingLimits): Arriving => {
  const shared = poolOf(limits)
  const own = new Map<AtOnce, Pool>()

  const poolFor = ({ route }: Exchange): Pool => {
    const atOnce = route?.route.atOnce
    if (atOnce === undefined) return shared
    const { total, perAddress } = atOnce
    const pool = own.get(atOnce) ?? poolOf({ total, perSender: perAddress, bytes: limits.bytes })
    own.set(atOnce, pool)
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
      body.cut(tooSlow())
    }
  }

  return {
    enter: (exchange, bytes, cut) => {
      const pool = poolFor(exchange)
      const sender = exchange.caller?.accountId ?? addressSubject(exchange.address)
      if (pool.bySender.of(sender) >= pool.limits.perSender) throw tooMany(exchange, pool.limits.perSender)
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
