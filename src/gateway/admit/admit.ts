import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import {
  anyTargeting,
  baseOf,
  forbiddenTargeting,
  type Line,
  parseUsername,
  type Targeting,
} from '../../domain/exits/line.ts'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import type { PlanId, ProxyId } from '../../kernel/ids.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'
import type { Scheduler } from '../../platform/work/scheduler.ts'
import {
  type Logins,
  type Passwords,
  rotationGraceMs,
  type Throttle,
} from '../authenticate/login-directory.ts'
import type { KnownPlan, PlanDirectory } from '../authenticate/plan-directory.ts'
import type { Rental, Rentals } from '../authenticate/rentals.ts'
import type { Whitelisted } from '../authenticate/whitelist-lookup.ts'
import type {
  Access,
  Admission,
  ConnectionAttempt,
  Denied,
  Exit,
  Outcome,
  Reached,
  Spending,
} from '../gateway-ports.ts'
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
} from '../refusals.ts'
import { refreshAccess } from '../workers.ts'
import type { Budgets, MeteringHour } from './budgets.ts'
import type { SessionCap, SessionCaps, Tunnel } from './open-tunnels.ts'
import { createAbortHandlers, createOpenTunnels, createTunnel } from './open-tunnels.ts'
import { inProgress, type RequestRecords } from './record-requests.ts'
import type { Usage } from './record-usage.ts'
import { createTrafficBudgets } from './traffic-budgets.ts'

export type AccessDependencies = {
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
  readonly meteringHour: MeteringHour
  /** Null: requests are not recorded. */
  readonly records: Pick<RequestRecords, 'add' | 'merge'> | null
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
type PlanAccess = {
  readonly plan: KnownPlan
  readonly generation: number
  /** Set for a whitelisted address without credentials. Otherwise the username defines it. */
  readonly targeting: Targeting | null
  /** The entry of the whitelist, without credentials. */
  readonly entryId: string | null
}

/**
 * Wrong credentials are answered after at least this time, milliseconds. It is longer than all of their checks take.
 */
const wrongCredentialsMs = 300
const bytesPerMegabyte = 1_000_000
const minuteMs = 60_000

const noBytes = { up: 0, down: 0 }

/** The facts of a record that are known at the admission. */
type RecordSource = {
  readonly attempt: ConnectionAttempt
  readonly plan: KnownPlan
  readonly startedMs: number
}

/** The facts of the record of an open connection. `target` is null until the connection to it is open. */
type OpenRecord = RecordSource & { target: Reached | null }

const isDenied = (answer: Denied | object): answer is Denied => 'denied' in answer && answer.denied === true

/** Decides who may connect, and cuts the tunnels of plans and rentals that end. */
export const startAccess = (
  dependencies: AccessDependencies,
): Access & {
  /** Writes the recorded statistics. */
  flush(): Promise<void>
  stop(): Promise<void>
} => {
  const { credentials, passwords, budgets, clock, monotonicMs, logger } = dependencies
  const openTunnels = createOpenTunnels()
  const trafficBudgets = createTrafficBudgets({ budgets, abortHandlers: createAbortHandlers(), clock })
  /** The open tunnels of plans. */
  const recordedTunnels = new Map<Tunnel, OpenRecord>()
  const stopping = new AbortController()
  /** Rentals with open tunnels, by id and address. A rental may get a new address while tunnels of the old one run. */
  const openRentals = new Map<
    string,
    { readonly proxyId: ProxyId; readonly ip: string; readonly sinceMs: number; tunnels: number }
  >()

  const denialOf = (
    { blocked, expiresAtMs }: Pick<KnownPlan, 'blocked' | 'expiresAtMs'>,
    ended: Denied,
  ): Denied | null => {
    if (blocked) return accountBlocked
    return expiresAtMs !== null && expiresAtMs <= clock() ? ended : null
  }

  /** Applies a plan's new state to its open tunnels. */
  const applyPlan = (plan: KnownPlan): void => {
    const denial = denialOf(plan, planEnded)
    if (denial) budgets.deny(plan.planId, denial)
    trafficBudgets.apply(plan)
    const { generation, rotatedAtMs } = plan
    const isGraceOver = rotatedAtMs !== null && clock() >= rotatedAtMs + rotationGraceMs
    const oldestGeneration = isGraceOver ? generation : generation - 1
    openTunnels.terminate(
      plan.planId,
      (tunnelGeneration) => tunnelGeneration < oldestGeneration,
      credentialRotated,
    )
  }
  const directory = dependencies.directory(applyPlan)

  /**
   * Refuses credentials only after a read that began after the attempt. So plans and passwords that were bought, rotated
   * or replaced just before work at once. Wrong credentials take the same steps, and at least the same time, for known
   * and unknown usernames.
   */
  const admit = async (attempt: ConnectionAttempt): Promise<Admission | Denied> => {
    const { credentials: givenCredentials, source } = attempt
    const attemptedMs = monotonicMs()
    const first = await admitBy(attempt, Number.NEGATIVE_INFINITY)
    if (givenCredentials === null || !first.denied || first.status !== 407) return first
    const second = await admitBy(
      attempt,
      await dependencies.logins.waitForNewLogins(baseOf(givenCredentials.username), attemptedMs),
    )
    if (second !== wrongCredentials) return second
    const remainingMs = Math.max(0, attemptedMs + wrongCredentialsMs - monotonicMs())
    await Promise.all([
      dependencies.throttle.delay(source, stopping.signal),
      sleep(remainingMs, undefined, { signal: stopping.signal }).catch(() => undefined), // the gateway stops
    ])
    return wrongCredentials
  }

  /** The rental of the dialled address. On the gateway's own address: the plan or the rental of the username. */
  const admitBy = async (attempt: ConnectionAttempt, sinceMs: number): Promise<Admission | Denied> => {
    const { credentials: givenCredentials, dialled } = attempt
    const dialledRental = await dependencies.rentals.at(dialled, sinceMs)
    if (dialledRental !== null) return admitToRental(attempt, dialledRental)
    const owner = givenCredentials && (await dependencies.logins.of(baseOf(givenCredentials.username)))
    if (owner?.kind !== 'rental') return admitToPlan(attempt, owner?.planId ?? null, sinceMs)
    const rental = await dependencies.rentals.find(owner.proxyId, sinceMs)
    return rental === null ? admitToPlan(attempt, null, sinceMs) : admitToRental(attempt, rental)
  }

  const admitToPlan = async (
    attempt: ConnectionAttempt,
    planIdOfUsername: PlanId | null,
    sinceMs: number,
  ): Promise<Admission | Denied> => {
    const planAccess = await planOf(attempt, planIdOfUsername, sinceMs)
    if (isDenied(planAccess)) return planAccess
    const { plan } = planAccess
    const { planId } = plan
    const denial = denialOf(plan, planEnded)
    if (denial) return denial
    const startedMs = monotonicMs()
    const fail = (answer: Denied): Denied => {
      dependencies.usage.ended({ planId, error: answer.error, host: null, bytes: 0 })
      record({ attempt, plan, startedMs }, { error: answer.error, host: null }, noBytes)
      return answer
    }
    const line = await lineOf(attempt, planAccess)
    if (isDenied(line)) return fail(line)
    const releaseSlot = openTunnels.reserveSlot(planId, dependencies.maxTunnels)
    if (releaseSlot === null) return fail(tooManyConnections(dependencies.maxTunnels))
    try {
      const answer = await openTunnel({ attempt, plan, startedMs }, planAccess, line)
      return answer.denied ? fail(answer) : answer
    } finally {
      releaseSlot()
    }
  }

  /**
   * The plan of a connection attempt, and the generation of its password. The answer reveals nothing about other plans.
   * @param planId the plan of the username; null: no plan
   */
  const planOf = async (
    attempt: ConnectionAttempt,
    planId: PlanId | null,
    sinceMs: number,
  ): Promise<PlanAccess | Denied> => {
    const { credentials: givenCredentials, source } = attempt
    if (givenCredentials === null) {
      const fromWhitelist = await dependencies.whitelisted(source)
      const plan = fromWhitelist && (await directory.find(fromWhitelist.planId, sinceMs))
      if (!plan) return noCredentials
      const { targeting, entryId } = fromWhitelist
      return { plan, generation: plan.generation, targeting, entryId }
    }
    const plan = planId && (await directory.find(planId, sinceMs))
    if (!plan) {
      passwords.compareWithNothing(givenCredentials.password)
      return wrongCredentials
    }
    const generation = passwords.generationOf(
      { ...plan, id: plan.planId },
      givenCredentials.password,
      clock(),
    )
    return generation === null ? wrongCredentials : { plan, generation, targeting: null, entryId: null }
  }

  /** The line of a plan: with the targeting of the username, of its set, or of the whitelist entry. */
  const lineOf = async (
    attempt: ConnectionAttempt,
    { plan, targeting: fromWhitelist }: PlanAccess,
  ): Promise<Line | Denied> => {
    const base = credentials.of(plan.planId, 0).username
    const parsed = parseUsername(fromWhitelist === null ? (attempt.credentials?.username ?? base) : base)
    if (!parsed.ok) return tokenRefused(parsed.problem.token, parsed.problem.detail)
    const { line } = parsed
    const setTargeting = line.set === null ? null : await dependencies.targetingOfSet(plan.planId, line.set)
    if (line.set !== null && setTargeting === null)
      return tokenRefused(`set-${line.set}`, 'this plan has no such set: generate the line again')
    const targeting = fromWhitelist ?? setTargeting ?? line.targeting
    const forbidden = forbiddenTargeting(targeting, plan.targeting)
    return forbidden === null
      ? { ...line, targeting }
      : tokenRefused(forbidden, `lines of this plan take ${[...plan.targeting].join(', ') || 'no targeting'}`)
  }

  /** Opens a tunnel if its plan, its traffic budgets and its session have traffic left. */
  const openTunnel = async (
    source: RecordSource,
    { generation, entryId }: PlanAccess,
    line: Line,
  ): Promise<Admission | Denied> => {
    const { planId, accountId, bytesPerSecond, family } = source.plan
    const budget = await budgets.open({ planId, bytesPerSecond })
    if (budget.denied) return budget
    const limited = trafficBudgets.limit(
      source.plan,
      { lineSet: line.set, whitelistEntryId: entryId },
      budget.spending,
    )
    const cap = capOf(line, planId)
    const closeBudget = (): void => {
      budget.close()
      limited.close()
      cap?.close()
    }
    const tunnel = createTunnel({ ...limited.spending, ended: budget.spending.ended }, cap)
    limited.onReached(tunnel.terminate)
    try {
      const reached = await limited.start()
      if (reached) {
        closeBudget()
        return reached
      }
      if (cap !== null && !(await cap.lease(1))) {
        closeBudget()
        return sessionLimitReached
      }
      openTunnels.add(planId, generation, tunnel)
    } catch (error) {
      closeBudget()
      throw error
    }
    let isRecorded = false
    const recorded: OpenRecord = { ...source, target: null }
    recordedTunnels.set(tunnel, recorded)
    const recordEnd = (outcome: Outcome): void => {
      isRecorded = true
      record(source, outcome, tunnel.countUnrecorded())
    }
    const countUsage = (): void => {
      const { up, down } = tunnel.countUnreported()
      if (up !== 0 || down !== 0) dependencies.usage.traffic(planId, up, down)
    }
    let closedWith: Outcome | null = null
    const giveBack: Spending['giveBack'] = (bytes, direction) => {
      tunnel.spending.giveBack(bytes, direction)
      // A datagram may fail after its association ended: the bytes are subtracted from those recorded.
      if (closedWith === null || !tunnel.hasUnrecorded()) return
      record(source, closedWith, tunnel.countUnrecorded(), inProgress)
      countUsage()
    }
    return {
      denied: false,
      holder: planId,
      accountId,
      line,
      dedicated: null,
      spending: { ...tunnel.spending, giveBack },
      ...(family !== null && { family }),
      reached: (target) => {
        recorded.target = target
      },
      requestEnded: recordEnd,
      close: (outcome) => {
        const { error, host } = outcome
        openTunnels.remove(planId, tunnel)
        recordedTunnels.delete(tunnel)
        closeBudget()
        if (!isRecorded || error !== null || tunnel.hasUnrecorded()) recordEnd(outcome)
        closedWith = outcome
        countUsage()
        dependencies.usage.ended({ planId, error, host, bytes: tunnel.total() })
      },
    }
  }

  /** Records the end of a connection or request, and its bytes since the last record. */
  const record = (
    { attempt, plan, startedMs }: RecordSource,
    outcome: Outcome,
    { up, down }: typeof noBytes,
    reason: string | null = outcome.error,
  ): void => {
    const { records, meteringHour } = dependencies
    if (records === null) return
    const hour = meteringHour.current()
    if (records.merge(plan.planId, hour, up, down, reason)) return
    records.add({
      planId: plan.planId,
      hour,
      requestId: outcome.requestId ?? attempt.requestId,
      protocol: outcome.protocol ?? attempt.protocol,
      line: attempt.credentials?.username ?? null,
      host: outcome.host,
      port: outcome.port ?? null,
      country: outcome.exit?.country ?? null,
      up,
      down,
      durationMs: outcome.durationMs ?? monotonicMs() - startedMs,
      reason,
    })
  }

  /** Ends an hour: counts and records the bytes of open tunnels in it. */
  dependencies.meteringHour.onHourEnd(() => {
    openTunnels.report(dependencies.usage)
    for (const [tunnel, source] of recordedTunnels)
      if (tunnel.hasUnrecorded())
        record(source, { host: null, ...source.target, error: null }, tunnel.countUnrecorded(), inProgress)
  })

  /** Lost bytes are neither charged nor recorded. */
  dependencies.meteringHour.onBatchLost(() => {
    for (const tunnel of recordedTunnels.keys()) {
      tunnel.countUnrecorded()
      tunnel.countUnreported()
    }
  })

  const capOf = (line: Line, planId: PlanId): SessionCap | null => {
    if (line.limitMegabytes === null || line.session === null) return null
    return dependencies.sessionCaps.open({
      planId,
      sessionId: line.session.id,
      limitBytes: line.limitMegabytes * bytesPerMegabyte,
      lifetimeMs: line.session.lifetimeMinutes * minuteMs,
    })
  }

  const admitToRental = async (attempt: ConnectionAttempt, rental: Rental): Promise<Admission | Denied> => {
    const { proxyId, ip } = rental
    const { credentials: givenCredentials } = attempt
    if (givenCredentials === null) return noCredentials
    const { username } = credentials.of(proxyId, 0)
    const validGeneration = passwords.generationOf(
      { id: proxyId, generation: 0, rotatedAtMs: null },
      givenCredentials.password,
      clock(),
    )
    if (validGeneration === null || givenCredentials.username !== username) return wrongCredentials
    const denial = denialOf(rental, rentalEnded)
    if (denial) return denial
    const key = `${proxyId} ${ip}`
    const releaseSlot = openTunnels.reserveSlot(key, dependencies.maxTunnels)
    if (releaseSlot === null) return tooManyConnections(dependencies.maxTunnels)
    const tunnel = createTunnel(unmeteredSpending(), null)
    let exit: Exit
    try {
      exit = await dependencies.exitOf(rental)
      openTunnels.add(key, 0, tunnel)
    } finally {
      releaseSlot()
    }
    const openRental = openRentals.get(key) ?? { proxyId, ip, sinceMs: monotonicMs(), tunnels: 0 }
    openRental.tunnels += 1
    openRentals.set(key, openRental)
    return {
      denied: false,
      holder: proxyId,
      accountId: rental.accountId,
      line: { base: username, targeting: anyTargeting, session: null, limitMegabytes: null, set: null },
      dedicated: exit,
      spending: tunnel.spending,
      close: () => {
        openTunnels.remove(key, tunnel)
        openRental.tunnels -= 1
        if (openRental.tunnels === 0) openRentals.delete(key)
      },
    }
  }

  /** Cuts the tunnels of rentals that ended. */
  const watchRentals = async (): Promise<void> => {
    for (const [key, { proxyId, ip, sinceMs }] of openRentals) {
      const rental = await dependencies.rentals.find(proxyId, sinceMs)
      // The rental got another address.
      const denial = rental?.ip === ip ? denialOf(rental, rentalEnded) : rentalEnded
      if (denial) openTunnels.terminate(key, () => true, denial)
    }
  }

  const round = async (): Promise<void> => {
    budgets.advanceHour()
    openTunnels.report(dependencies.usage)
    const tasks = [
      directory.refresh(budgets.openPlans()),
      watchRentals(),
      dependencies.sessionCaps.flush(),
      dependencies.usage.flush(),
    ]
    const failed = (await Promise.allSettled(tasks)).find((outcome) => outcome.status === 'rejected')
    if (failed) throw failed.reason
  }

  let isFailing = false
  const runRound = async (): Promise<void> => {
    await round()
    isFailing = false
  }
  const failed = (err: unknown): void => {
    if (!isFailing)
      logger.warn({ err }, 'plans and rentals cannot be read: cached ones are used for up to half a minute')
    isFailing = true
  }
  const refreshWorker = dependencies.scheduler.start(refreshAccess, runRound, {
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
      await refreshWorker.stop()
      await round().catch((err) => logger.warn({ err }, 'the last statistics of this process are lost'))
    },
  }
}

/** A dedicated address has no traffic limit. */
const unmeteredSpending = (): Spending => ({
  take: (wanted) => wanted,
  giveBack: () => undefined,
  more: async () => null,
  ended: new AbortController().signal,
})
