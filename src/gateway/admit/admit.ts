import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { anyTargeting, type Line, type Targeting } from '../../domain/exits/exit-targeting.ts'
import { baseOf, parseUsername } from '../../domain/exits/username.ts'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import type { PlanId, ProxyId } from '../../kernel/ids.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'
import type { Scheduler } from '../../platform/work/scheduler.ts'
import type { Throttle } from '../authenticate/credential-cache.ts'
import {
  accountBlocked,
  credentialRotated,
  databaseUnavailable,
  noCredentials,
  planEnded,
  rentalEnded,
  sessionLimitReached,
  tokenRefused,
  tooManyConnections,
  wrongCredentials,
} from '../authenticate/denials.ts'
import { type Logins, type Passwords, rotationGraceMs } from '../authenticate/login-directory.ts'
import type { KnownPlan, PlanDirectory } from '../authenticate/plan-directory.ts'
import type { Rental, Rentals } from '../authenticate/rentals.ts'
import type { Whitelisted } from '../authenticate/whitelist-lookup.ts'
import type { Access, Admission, ConnectionAttempt, Denied, Exit, Spending } from '../gateway-ports.ts'
import { refreshAccess } from '../workers.ts'
import type { Budgets } from './budgets.ts'
import { createOpenTunnels, createTunnel, type Tunnel } from './open-tunnels.ts'
import type { Usage } from './record-usage.ts'
import type { SessionCap, SessionCaps } from './session-caps.ts'

/** What each part of a targeting is called among the abilities of a product. */
const abilities = (targeting: Targeting): readonly (readonly [string, boolean])[] => {
  const { country, state, city, isp, asn, os, strict, udp, not } = targeting
  const excludes = not.countries.length + not.states.length + not.cities.length + not.asns.length > 0
  return [
    ['country', country !== null],
    ['state', state !== null],
    ['city', city !== null],
    ['isp', isp !== null],
    ['asn', asn !== null],
    ['os', os !== null],
    ['strict', !strict],
    ['udp', udp],
    ['exclude', excludes],
  ]
}

/** Refuses a line that asks for what its product does not have; null for one that does not. */
export const refuseUnsoldTargeting = (line: Line, sold: ReadonlySet<string>): Denied | null => {
  const beyond = abilities(line.targeting).find(([name, wanted]) => wanted && !sold.has(name))
  return beyond === undefined
    ? null
    : tokenRefused(beyond[0], `lines of this plan take ${[...sold].join(', ') || 'no targeting'}`)
}

export type AccessParts = {
  readonly scheduler: Scheduler
  readonly logins: Logins
  /** Made by `directory`, which is told what to do with each plan that it reads. */
  readonly directory: (onRead: (plan: KnownPlan) => void) => PlanDirectory
  readonly rentals: Rentals
  readonly credentials: Credentials
  readonly passwords: Passwords
  readonly throttle: Throttle
  readonly budgets: Budgets
  readonly sessionCaps: SessionCaps
  readonly usage: Usage
  /** The plan that an address may use without credentials, and where it goes out; null: none. */
  readonly whitelisted: (source: string) => Promise<Whitelisted | null>
  /** The targeting that a `-set-` token names; null: none, or another plan's. */
  readonly targetingOfSet: (planId: PlanId, set: string) => Promise<Targeting | null>
  /** The way out of a rented address. */
  readonly exitOf: (rental: Rental) => Promise<Exit>
  /** Tunnels that one plan may have open in this process. */
  readonly maxTunnels: number
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly logger: Pick<Logger, 'warn'>
}

/** Whose knock it is. */
type Found = {
  readonly plan: KnownPlan
  readonly generation: number
  /** Of an address on a whitelist that came without credentials; else the username says it. */
  readonly targeting: Targeting | null
}

/** From a question with wrong credentials to its answer: longer than all that is done for it takes. */
const wrongMs = 300
const bytesPerMegabyte = 1_000_000
const minuteMs = 60_000

const denied = (answer: Denied | object): answer is Denied => 'denied' in answer && answer.denied === true

/** Who may connect, and with what; watches over those who did. */
export const startAccess = (
  parts: AccessParts,
): Access & {
  /** Writes what was noted until now. */
  flush(): Promise<void>
  stop(): Promise<void>
} => {
  const { credentials, passwords, budgets, clock, monotonicMs, logger } = parts
  const open = createOpenTunnels()
  const stopping = new AbortController()
  /** Rentals that tunnels are open on, by id and address: a rental may get another address while tunnels of the former run. */
  const openRentals = new Map<
    string,
    { readonly proxyId: ProxyId; readonly ip: string; readonly sinceMs: number; tunnels: number }
  >()

  const ofPlan = ({ blocked, expiresAtMs }: KnownPlan): Denied | null => {
    if (blocked) return accountBlocked
    return expiresAtMs !== null && expiresAtMs <= clock() ? planEnded : null
  }

  /** What a plan's new state means for its open tunnels. */
  const watch = (plan: KnownPlan): void => {
    const over = ofPlan(plan)
    if (over) budgets.deny(plan.planId, over)
    const { generation, rotatedAtMs } = plan
    const graceOver = rotatedAtMs !== null && clock() >= rotatedAtMs + rotationGraceMs
    const oldest = graceOver ? generation : generation - 1
    open.terminate(plan.planId, (of) => of < oldest, credentialRotated)
  }
  const directory = parts.directory(watch)

  /**
   * The plan of a knock and the generation of its password; what a foreign plan is like shows in nothing.
   * @param planId what its username names; null: no plan
   */
  const planOf = async (
    attempt: ConnectionAttempt,
    planId: PlanId | null,
    sinceMs: number,
  ): Promise<Found | Denied> => {
    const { credentials: given, source } = attempt
    if (given === null) {
      const listed = await parts.whitelisted(source)
      const plan = listed && (await directory.find(listed.planId, sinceMs))
      if (!plan) return noCredentials
      return { plan, generation: plan.generation, targeting: listed.targeting }
    }
    const plan = planId && (await directory.find(planId, sinceMs))
    if (!plan) {
      passwords.nobody(given.password)
      return wrongCredentials
    }
    const generation = passwords.generationOf({ ...plan, id: plan.planId }, given.password, clock())
    return generation === null ? wrongCredentials : { plan, generation, targeting: null }
  }

  const lineOf = async (
    attempt: ConnectionAttempt,
    { plan, targeting: listed }: Found,
  ): Promise<Line | Denied> => {
    const base = credentials.of(plan.planId, 0).username
    if (listed !== null) {
      const line: Line = { base, targeting: listed, session: null, limitMegabytes: null, set: null }
      return refuseUnsoldTargeting(line, plan.targeting) ?? line
    }
    const parsed = parseUsername(attempt.credentials?.username ?? base)
    if (!parsed.ok) return tokenRefused(parsed.problem.token, parsed.problem.detail)
    const { line } = parsed
    if (line.set === null) return refuseUnsoldTargeting(line, plan.targeting) ?? line
    const targeting = await parts.targetingOfSet(plan.planId, line.set)
    if (targeting === null)
      return tokenRefused(`set-${line.set}`, 'this plan has no such set: generate the line again')
    const whole = { ...line, targeting }
    return refuseUnsoldTargeting(whole, plan.targeting) ?? whole
  }

  const capOf = (line: Line, planId: PlanId): SessionCap | null => {
    if (line.limitMegabytes === null || line.session === null) return null
    return parts.sessionCaps.open({
      planId,
      sessionId: line.session.id,
      limitBytes: line.limitMegabytes * bytesPerMegabyte,
      lifetimeMs: line.session.lifetimeMinutes * minuteMs,
    })
  }

  /** Adds a tunnel of a plan to those that are open. @param leave gives its part of the budget back */
  const letIn = (
    { planId, accountId, family, countsHosts }: KnownPlan,
    generation: number,
    line: Line,
    tunnel: Tunnel,
    leave: () => void,
  ): Admission => {
    open.add(planId, generation, tunnel)
    let closed = false
    return {
      denied: false,
      holder: planId,
      accountId,
      line,
      dedicated: null,
      spending: tunnel.spending,
      ...(family !== null && { family }),
      close: ({ error, host }) => {
        if (closed) return
        closed = true
        open.remove(planId, tunnel)
        leave()
        const { up, down } = tunnel.passed()
        if (up + down !== 0) parts.usage.traffic(planId, up, down)
        parts.usage.ended({ planId, error, host: countsHosts ? host : null, bytes: tunnel.total() })
      },
    }
  }

  /** Lets a tunnel in when its plan and its session may pass anything. */
  const enter = async (plan: KnownPlan, generation: number, line: Line): Promise<Admission | Denied> => {
    const { planId, bytesPerSecond } = plan
    const entered = await budgets.enter({ planId, bytesPerSecond })
    if (entered.denied) return entered
    const cap = capOf(line, planId)
    const leave = (): void => {
      entered.leave()
      cap?.close()
    }
    try {
      if (cap === null || (await cap.lease(1)))
        return letIn(plan, generation, line, createTunnel(entered.spending, cap), leave)
    } catch (error) {
      leave()
      throw error
    }
    leave()
    return sessionLimitReached
  }

  const admitToPlan = async (
    attempt: ConnectionAttempt,
    named: PlanId | null,
    sinceMs: number,
  ): Promise<Admission | Denied> => {
    const found = await planOf(attempt, named, sinceMs)
    if (denied(found)) return found
    const { plan, generation } = found
    const { planId } = plan
    const over = ofPlan(plan)
    if (over) return over
    const fail = (answer: Denied): Denied => {
      parts.usage.ended({ planId, error: answer.error, host: null, bytes: 0 })
      return answer
    }
    const line = await lineOf(attempt, found)
    if (denied(line)) return fail(line)
    const unclaim = open.claim(planId, parts.maxTunnels)
    if (unclaim === null) return fail(tooManyConnections(parts.maxTunnels))
    try {
      const answer = await enter(plan, generation, line)
      return answer.denied ? fail(answer) : answer
    } finally {
      unclaim()
    }
  }

  const ofRental = ({ blocked, expiresAtMs }: Rental): Denied | null => {
    if (blocked) return accountBlocked
    return expiresAtMs <= clock() ? rentalEnded : null
  }

  const admitToRental = async (attempt: ConnectionAttempt, rental: Rental): Promise<Admission | Denied> => {
    const { proxyId, ip } = rental
    const { credentials: given } = attempt
    if (given === null) return noCredentials
    const { username } = credentials.of(proxyId, 0)
    const right = passwords.generationOf(
      { id: proxyId, generation: 0, rotatedAtMs: null },
      given.password,
      clock(),
    )
    if (right === null || given.username !== username) return wrongCredentials
    const over = ofRental(rental)
    if (over) return over
    const key = `${proxyId} ${ip}`
    const unclaim = open.claim(key, parts.maxTunnels)
    if (unclaim === null) return tooManyConnections(parts.maxTunnels)
    const tunnel = createTunnel(unmetered(), null)
    let exit: Exit
    try {
      exit = await parts.exitOf(rental)
      open.add(key, 0, tunnel)
    } finally {
      unclaim()
    }
    const among = openRentals.get(key) ?? { proxyId, ip, sinceMs: monotonicMs(), tunnels: 0 }
    among.tunnels += 1
    openRentals.set(key, among)
    let closed = false
    return {
      denied: false,
      holder: proxyId,
      accountId: rental.accountId,
      line: { base: username, targeting: anyTargeting, session: null, limitMegabytes: null, set: null },
      dedicated: exit,
      spending: tunnel.spending,
      close: () => {
        if (closed) return
        closed = true
        open.remove(key, tunnel)
        among.tunnels -= 1
        if (among.tunnels === 0) openRentals.delete(key)
      },
    }
  }

  /** The address that was dialled names a rental, or, at the gateway's own, the username names a plan or a rental. */
  const admitBy = async (attempt: ConnectionAttempt, sinceMs: number): Promise<Admission | Denied> => {
    const { credentials: given, dialled } = attempt
    const dialledRental = await parts.rentals.at(dialled, sinceMs)
    if (dialledRental !== null) return admitToRental(attempt, dialledRental)
    const owner = given && (await parts.logins.of(baseOf(given.username)))
    if (owner?.kind !== 'rental') return admitToPlan(attempt, owner?.planId ?? null, sinceMs)
    const rental = await parts.rentals.find(owner.proxyId, sinceMs)
    return rental === null ? admitToPlan(attempt, null, sinceMs) : admitToRental(attempt, rental)
  }

  /**
   * Refuses credentials only by what was read after they came: what was sold, rotated or replaced just before works with its
   * first request. Wrong ones take the same steps and at least the same time whether their username is somebody's or not.
   */
  const admit = async (attempt: ConnectionAttempt): Promise<Admission | Denied> => {
    const { credentials: given, source } = attempt
    const askedMs = monotonicMs()
    const first = await admitBy(attempt, Number.NEGATIVE_INFINITY)
    if (given === null || !first.denied || first.status !== 407) return first
    const second = await admitBy(attempt, await parts.logins.caughtUp(baseOf(given.username), askedMs))
    if (second !== wrongCredentials) return second
    const restMs = Math.max(0, askedMs + wrongMs - monotonicMs())
    await Promise.all([
      parts.throttle.wrong(source, stopping.signal),
      sleep(restMs, undefined, { signal: stopping.signal }).catch(() => undefined), // the gateway stops
    ])
    return wrongCredentials
  }

  /** Cuts the tunnels of rentals that are over. */
  const watchRentals = async (): Promise<void> => {
    for (const [key, { proxyId, ip, sinceMs }] of openRentals) {
      const rental = await parts.rentals.find(proxyId, sinceMs)
      // Another address took the place of this one.
      const over = rental?.ip === ip ? ofRental(rental) : rentalEnded
      if (over) open.terminate(key, () => true, over)
    }
  }

  const round = async (): Promise<void> => {
    open.report(parts.usage)
    const works = [
      directory.refresh(budgets.open()),
      watchRentals(),
      parts.sessionCaps.flush(),
      parts.usage.flush(),
    ]
    const failed = (await Promise.allSettled(works)).find((outcome) => outcome.status === 'rejected')
    if (failed) throw failed.reason
  }

  let failing = false
  const toldRound = async (): Promise<void> => {
    await round()
    failing = false
  }
  const failed = (err: unknown): void => {
    if (!failing)
      logger.warn(
        { err },
        'plans and rentals cannot be read: what was known half a minute ago is used until then',
      )
    failing = true
  }
  const refreshing = parts.scheduler.start(refreshAccess, toldRound, {
    onError: (error) => {
      failed(error)
      return refreshAccess.trigger.everyMs
    },
  })

  return {
    admit: async (attempt) => {
      try {
        return await admit(attempt)
      } catch (err) {
        failed(err)
        return databaseUnavailable
      }
    },
    flush: round,
    stop: async () => {
      stopping.abort()
      await refreshing.stop()
      await round().catch((err) => logger.warn({ err }, 'the last statistics of this process are lost'))
    },
  }
}

/** A dedicated address passes what it likes. */
const unmetered = (): Spending => ({
  take: (wanted) => wanted,
  giveBack: () => undefined,
  more: async () => null,
  ended: new AbortController().signal,
})
