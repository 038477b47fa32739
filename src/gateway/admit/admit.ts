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

/** The parts of a targeting, by the name of the product's ability. */
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

/** Refuses a line with targeting that its product does not offer; null: the line is allowed. */
export const refuseUnsoldTargeting = (line: Line, sold: ReadonlySet<string>): Denied | null => {
  const beyond = abilities(line.targeting).find(([name, wanted]) => wanted && !sold.has(name))
  return beyond === undefined
    ? null
    : tokenRefused(beyond[0], `lines of this plan take ${[...sold].join(', ') || 'no targeting'}`)
}

export type AccessParts = {
  readonly scheduler: Scheduler
  readonly logins: Logins
  /** Creates the plan directory. It calls `onRead` for each plan that it reads. */
  readonly directory: (onRead: (plan: KnownPlan) => void) => PlanDirectory
  readonly rentals: Rentals
  readonly credentials: Credentials
  readonly passwords: Passwords
  readonly throttle: Throttle
  readonly budgets: Budgets
  readonly sessionCaps: SessionCaps
  readonly usage: Usage
  /** The plan that an address may use without credentials, and its targeting; null: none. */
  readonly whitelisted: (source: string) => Promise<Whitelisted | null>
  /** The targeting of a `-set-` token; null: there is no such set, or it belongs to another plan. */
  readonly targetingOfSet: (planId: PlanId, set: string) => Promise<Targeting | null>
  /** The exit of a rented address. */
  readonly exitOf: (rental: Rental) => Promise<Exit>
  /** Open tunnels per plan in this process. */
  readonly maxTunnels: number
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly logger: Pick<Logger, 'warn'>
}

/** The plan of a connection attempt. */
type Found = {
  readonly plan: KnownPlan
  readonly generation: number
  /** Set for a whitelisted address without credentials. Otherwise the username defines it. */
  readonly targeting: Targeting | null
}

/**
 * Wrong credentials are answered after at least this time, milliseconds. It is longer than all of their checks take.
 */
const wrongMs = 300
const bytesPerMegabyte = 1_000_000
const minuteMs = 60_000

const denied = (answer: Denied | object): answer is Denied => 'denied' in answer && answer.denied === true

/** Decides who may connect, and cuts the tunnels of plans and rentals that end. */
export const startAccess = (
  parts: AccessParts,
): Access & {
  /** Writes the recorded statistics. */
  flush(): Promise<void>
  stop(): Promise<void>
} => {
  const { credentials, passwords, budgets, clock, monotonicMs, logger } = parts
  const open = createOpenTunnels()
  const stopping = new AbortController()
  /** Rentals with open tunnels, by id and address. A rental may get a new address while tunnels of the old one run. */
  const openRentals = new Map<
    string,
    { readonly proxyId: ProxyId; readonly ip: string; readonly sinceMs: number; tunnels: number }
  >()

  const ofPlan = ({ blocked, expiresAtMs }: KnownPlan): Denied | null => {
    if (blocked) return accountBlocked
    return expiresAtMs !== null && expiresAtMs <= clock() ? planEnded : null
  }

  /** Applies a plan's new state to its open tunnels. */
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
   * The plan of a connection attempt, and the generation of its password. The answer reveals nothing about other plans.
   * @param planId the plan of the username; null: no plan
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

  /** Adds an open tunnel of a plan. @param leave releases the tunnel's part of the budget */
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

  /** Opens a tunnel if its plan and its session have traffic left. */
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

  /** The rental of the dialled address. On the gateway's own address: the plan or the rental of the username. */
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
   * Refuses credentials only after a read that began after the attempt. So plans and passwords that were sold, rotated
   * or replaced just before work at once. Wrong credentials take the same steps, and at least the same time, for known
   * and unknown usernames.
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

  /** Cuts the tunnels of rentals that ended. */
  const watchRentals = async (): Promise<void> => {
    for (const [key, { proxyId, ip, sinceMs }] of openRentals) {
      const rental = await parts.rentals.find(proxyId, sinceMs)
      // The rental got another address.
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

/** A dedicated address has no traffic limit. */
const unmetered = (): Spending => ({
  take: (wanted) => wanted,
  giveBack: () => undefined,
  more: async () => null,
  ended: new AbortController().signal,
})
