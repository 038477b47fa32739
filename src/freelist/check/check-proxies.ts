import { type Clock, isoTime } from '../../kernel/clock.ts'
import { refuse, refuseUntil } from '../../platform/http/errors.ts'
import type { RateLimiter } from '../../platform/http/rate-limit.ts'
import type { Resolve } from '../../platform/outgoing/target.ts'
import { type IpData, nothingKnown } from '../ip-data/ip-data.ts'
import { type Check, CheckUnavailable } from '../probe/port.ts'
import type { CandidateRules } from '../record/candidate.ts'
import { type Protocol, placeText } from '../record/endpoint.ts'
import { proxyForms, readProxy, type WrittenProxy } from './proxy-text.ts'
import { notFound, type ProxyCheckResult, toldOf } from './result.ts'
import type { Seats } from './seats.ts'
import { type PinnedPlace, pin } from './target.ts'

export const maxProxies = 20
export const defaultTimeoutMs = 10_000
export const timeoutBounds = { min: 1_000, max: 20_000 } as const

export type Order = {
  /** As people write them, at most `maxProxies`. */
  readonly proxies: readonly string[]
  /** Left out: all, or the one that a proxy's scheme names. */
  readonly protocols?: readonly Protocol[] | undefined
  readonly timeoutMs?: number | undefined
  /** Whom limits count for. */
  readonly caller: string
  /** Stops all of it. */
  readonly signal: AbortSignal
}

/** A result with the place of its proxy in the order. */
export type Finding = { readonly index: number; readonly result: ProxyCheckResult }

/**
 * Accepts the order or refuses it whole; then nothing was dialled. The results come as they are found, one for each
 * proxy; who stops taking them ends the checks.
 * Rejects with rate_limited, invalid_parameter or overloaded.
 */
export type CheckProxies = (order: Order) => Promise<AsyncGenerator<Finding, void>>

type Job = { readonly written: WrittenProxy; readonly place: PinnedPlace; readonly shown: string }

const shownOf = ({ host, port }: WrittenProxy): string => placeText({ ip: host, port })

const readAll = (texts: readonly string[]): readonly WrittenProxy[] =>
  texts.map((text, at) => {
    const written = readProxy(text)
    // The text is not shown: it may hold a password.
    if (written === null)
      throw refuse(
        'invalid_parameter',
        `${texts.length === 1 ? 'the proxy' : `proxy ${at + 1} of ${texts.length}`} must be ${proxyForms}`,
      )
    return written
  })

/** The findings as they come, whatever their order. */
async function* asTheyCome<Value>(running: readonly Promise<Value>[]): AsyncGenerator<Value, void> {
  const left = new Map(running.map((promise, at) => [at, promise.then((value) => ({ at, value }))]))
  while (left.size > 0) {
    const { at, value } = await Promise.race(left.values())
    left.delete(at)
    yield value
  }
}

export const createCheckProxies = (deps: {
  readonly check: Check
  readonly rules: () => Promise<CandidateRules>
  readonly resolve: Resolve
  readonly data: IpData
  readonly seats: Seats
  /** A token a proxy; null: no limit. */
  readonly limiter: { readonly take: RateLimiter['take']; readonly burst: number } | null
  readonly clock: Clock
}): CheckProxies => {
  const { check, data, limiter, clock } = deps

  /** @returns what gives back one seat */
  const admit = ({ caller, proxies: { length } }: Order): (() => void) => {
    const waitS = limiter?.take(caller, Math.min(length, limiter.burst)) ?? 0
    if (waitS > 0) throw refuseUntil('rate_limited', `${length} checks are more than you may have now`, waitS)
    const seats = deps.seats.take(caller, length)
    if (seats === 'of caller')
      throw refuseUntil('rate_limited', 'as many checks of yours run as may; await some', 1)
    if (seats === 'of all') throw refuseUntil('overloaded', 'as many checks run as may', 1)
    return seats
  }

  const one = async ({ written, place, shown }: Job, order: Order, signal: AbortSignal) => {
    const checkedAt = isoTime(clock())
    if (place === null) return notFound(shown, checkedAt)
    const { protocols = written.protocol === null ? undefined : [written.protocol] } = order
    const found = await check(
      place,
      {
        timeoutMs: order.timeoutMs ?? defaultTimeoutMs,
        ...(protocols === undefined ? {} : { protocols }),
        ...(written.login === null ? {} : { login: written.login }),
      },
      signal,
    )
    return toldOf(shown, found, found.exitIp === null ? nothingKnown : await data.of(found.exitIp), checkedAt)
  }

  return async (order) => {
    const writtens = readAll(order.proxies)
    const giveBack = admit(order)
    let handedOver = 0
    try {
      const looking = { resolve: deps.resolve, rules: await deps.rules() }
      const jobs = await Promise.all(
        writtens.map(async (written) => {
          const shown = shownOf(written)
          return { written, shown, place: await pin(written, shown, looking) }
        }),
      )
      const stopping = new AbortController()
      const signal = AbortSignal.any([order.signal, stopping.signal])
      const running = jobs.map(async (job, index) => {
        handedOver += 1
        try {
          return { index, result: await one(job, order, signal) }
        } finally {
          giveBack()
        }
      })
      // A fault of one is told to whoever takes the results, if anybody still does.
      for (const result of running) result.catch(() => undefined)
      return (async function* () {
        try {
          yield* asTheyCome(running)
        } catch (error) {
          if (error instanceof CheckUnavailable)
            throw refuseUntil('overloaded', `checks cannot be made now: ${error.message}`, 5)
          throw error
        } finally {
          stopping.abort()
          await Promise.allSettled(running)
        }
      })()
    } finally {
      // Of an order that was refused.
      for (let n = handedOver; n < order.proxies.length; n += 1) giveBack()
    }
  }
}
