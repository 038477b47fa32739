import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { anyTargeting, type Line, type Targeting, writeTargeting } from '../../domain/exits/line.ts'
import {
  type Candidate,
  type ConnectionNeeds,
  countryOnly,
  type ExitHealth,
  hash32,
  isLocal,
  type LiveExits,
  matchesTargeting,
  mix32,
  type ProposedPin,
  type SessionPin,
  type SessionRef,
  type StickySessions,
  sessionRef,
} from '../../features/exits/index.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Denied, Exit, Exits, Route } from '../gateway-ports.ts'
import { refuse } from '../refusals.ts'

export type ExitPool = Exits & {
  /** The exit with this id, for an address with its own exit; null: it takes no connections. */
  find(exitId: string): Exit | null
  /** The live exits of a carrier, for mobile rentals that rotate. */
  ofCarrier(carrierId: string): readonly Exit[]
}

/** The live candidates that match, with the running sum of their weights. */
type Choice = {
  readonly candidates: readonly Candidate[]
  readonly sums: readonly number[]
  readonly indexByKey: ReadonlyMap<string, number>
  readonly fallback: boolean
}

const maxFailures = 3
const maxChoices = 5_000
const maxCachedKeys = 100_000

const describeTargeting = (targeting: Targeting): string =>
  writeTargeting(targeting)
    .slice(1)
    .replaceAll(/-(?=[a-z.]+-)/g, ' ') || 'this line'

const noExit = (targeting: Targeting, needs: ConnectionNeeds): Denied =>
  refuse(
    465,
    'no_exit',
    targeting.strict && targeting.country !== null
      ? `no free exit matches ${describeTargeting(targeting)}${needs.udp ? ' over UDP' : ''}: widen the targeting, or add strict-off to fall back to the country`
      : `no free exit matches ${describeTargeting(targeting)}${needs.udp ? ' over UDP' : ''}: widen the targeting`,
  )

const sessionEnded = (why: string): Denied =>
  refuse(
    568,
    'session_failed',
    `the exit of this session ${why}: use another session id, or release the session`,
  )

const allExitsFull = refuse(503, 'exits_full', 'every exit that matches is at its capacity: try again', 1)

/**
 * The session id that a supplier receives. It differs from ours, and changes each time the session moves to another
 * exit.
 */
const supplierSession = (key: string, round: number): string =>
  createHash('sha256').update(`${key} ${round}`).digest('hex').slice(0, 16)

/** Chooses exits for connections from the state in the memory of this process. */
export const createExitPool = (dependencies: {
  readonly live: Pick<LiveExits, 'index' | 'version'>
  readonly health: ExitHealth
  readonly sticky: StickySessions
  /** Targets on this machine are allowed through the sandbox's exits (FAREBOX_GATEWAY_ALLOW_LOOPBACK). */
  readonly allowLoopback: boolean
  /** Processes that share the exits' capacities. */
  readonly workers: number
  /** The service's clock. */
  readonly clock: Clock
  /** From 0 up to, but not including, 1. */
  readonly random: () => number
  /** Receives the duration of each dial, milliseconds. */
  readonly onDialled?: (exitId: string, outcome: 'connected' | 'failed', latencyMs: number) => void
}): ExitPool => {
  const { live, health, sticky, allowLoopback, workers, clock, random, onDialled } = dependencies
  let choices = new Map<string, Choice>()
  let choicesVersion = ''
  const openConnections = new Map<string, number>()
  const lastKeys = new LRUCache<string, string>({ max: maxCachedKeys })
  /** Consecutive failed dials of a session. */
  const failures = new LRUCache<string, number>({ max: maxCachedKeys })

  const aliveCandidates = (targeting: Targeting, needs: ConnectionNeeds): readonly Candidate[] =>
    live
      .index()
      .matching(targeting, needs)
      .filter(({ exitId }) => health.isAlive(exitId))

  const choiceFor = (targeting: Targeting, needs: ConnectionNeeds): Choice => {
    const version = live.version()
    if (choicesVersion !== version || choices.size >= maxChoices) choices = new Map()
    choicesVersion = version
    const key = `${writeTargeting(targeting)} ${needs.udp} ${needs.family}`
    const cached = choices.get(key)
    if (cached) return cached
    const exactMatches = aliveCandidates(targeting, needs)
    const fallback = exactMatches.length === 0 && !targeting.strict && targeting.country !== null
    const candidates = fallback ? aliveCandidates(countryOnly(targeting), needs) : exactMatches
    let sum = 0
    const sums = candidates.map(({ terms }) => {
      sum += terms.weight
      return sum
    })
    const indexByKey = new Map(candidates.map(({ key: entryKey }, at) => [entryKey, at]))
    const choice = { candidates, sums, indexByKey, fallback: fallback && candidates.length > 0 }
    choices.set(key, choice)
    return choice
  }

  const hasFreeSlot = ({ exitId, terms: { capacity } }: Candidate): boolean =>
    capacity === null || (openConnections.get(exitId) ?? 0) < Math.max(1, Math.floor(capacity / workers))

  /** A random free candidate, by weight. Differs from `previousKey` if there is another one. */
  const drawCandidate = (
    { candidates, sums, indexByKey }: Choice,
    previousKey: string | undefined,
  ): Candidate | null => {
    const skippedIndex =
      candidates.length > 1 && previousKey !== undefined ? indexByKey.get(previousKey) : undefined
    const skippedEnd = skippedIndex === undefined ? 0 : (sums[skippedIndex] ?? 0)
    const skippedWeight = skippedIndex === undefined ? 0 : (candidates[skippedIndex]?.terms.weight ?? 0)
    const total = (sums.at(-1) ?? 0) - skippedWeight
    for (let attempt = 0; attempt < 8; attempt += 1) {
      const drawnPoint = random() * total
      const weightPoint =
        skippedIndex !== undefined && drawnPoint >= skippedEnd - skippedWeight
          ? drawnPoint + skippedWeight
          : drawnPoint
      let low = 0
      let high = sums.length - 1
      while (low < high) {
        const middle = (low + high) >> 1
        if ((sums[middle] ?? 0) > weightPoint) high = middle
        else low = middle + 1
      }
      const candidate = candidates[low]
      if (candidate && hasFreeSlot(candidate)) return candidate
    }
    const free = candidates.filter(hasFreeSlot)
    return free.find(({ key }) => key !== previousKey) ?? free[0] ?? null
  }

  /**
   * Weighted rendezvous hashing: all processes choose the same candidate, and most choices stay when candidates
   * disappear.
   */
  const rendezvous = (choice: Choice, session: SessionRef, round: number, previousKey: string | null) => {
    const seed = hash32(session.key, mix32(round + 1))
    const others = choice.candidates.filter(({ key }) => key !== previousKey)
    let best: Candidate | null = null
    let bestScore = Number.NEGATIVE_INFINITY
    for (const candidate of others.length > 0 ? others : choice.candidates) {
      const unit = (mix32(candidate.hash ^ seed) + 1) / 0x1_0000_0001
      const score = -candidate.terms.weight / Math.log(unit)
      if (score > bestScore) {
        best = candidate
        bestScore = score
      }
    }
    return best
  }

  const exitOf = (
    { exitId, terms, login, template, coverage: cover, sandbox }: Candidate,
    targeting: Targeting,
    session: { readonly id: string; readonly minutes: number } | null,
  ): Exit => {
    const { via, udp } = terms
    const common = { exitId, sandbox: sandbox && allowLoopback, udp, country: cover.country }
    if (via.kind === 'direct' || via.kind === 'prefix') return { ...common, via }
    const { host, port } = via
    if (via.kind !== 'template') {
      const { username = null, password = null } = login ?? {}
      return { ...common, via: { kind: via.kind, host, port, username, password } }
    }
    const { state, city, isp, asn, os } = targeting
    const placeholders = {
      country: cover.country,
      COUNTRY: cover.country.toUpperCase(),
      state,
      city,
      isp,
      asn: asn === null ? null : String(asn),
      os,
      session: session?.id ?? null,
      lifetime: session === null ? null : String(session.minutes),
    }
    const values = Object.fromEntries(Object.entries(placeholders).filter(([, value]) => value !== null))
    return {
      ...common,
      via: {
        kind: via.protocol,
        host,
        port,
        username: template?.username.fill(values) ?? null,
        password: template?.password.fill(values) ?? null,
      },
    }
  }

  const routeTo = (
    candidate: Candidate,
    exit: Exit,
    details: {
      readonly fallback: boolean
      readonly minutesLeft: number | null
      readonly session: SessionRef | null
      readonly sessionName: string | null
    },
  ): Route => {
    const { exitId } = candidate
    const { session } = details
    let isOpen = true
    openConnections.set(exitId, (openConnections.get(exitId) ?? 0) + 1)
    return {
      denied: false,
      exit,
      fallback: details.fallback,
      stickyMinutesLeft: details.minutesLeft,
      sessionName: details.sessionName,
      done: (outcome, latencyMs) => {
        if (outcome === 'unused') return
        onDialled?.(exitId, outcome, latencyMs)
        if (outcome === 'connected') {
          health.connected(exitId)
          if (session) failures.delete(session.key)
          return
        }
        health.failed(exitId, isLocal(candidate.terms.via))
        if (!session) return
        const count = (failures.get(session.key) ?? 0) + 1
        failures.set(session.key, count)
        if (count >= maxFailures) sticky.fail(session)
      },
      close: () => {
        if (!isOpen) return
        isOpen = false
        const remaining = (openConnections.get(exitId) ?? 1) - 1
        if (remaining > 0) openConnections.set(exitId, remaining)
        else openConnections.delete(exitId)
      },
    }
  }

  const rotatingRoute = (line: Line, holder: string, needs: ConnectionNeeds): Route | Denied => {
    const choice = choiceFor(line.targeting, needs)
    if (choice.candidates.length === 0) return noExit(line.targeting, needs)
    const entryKey = `${holder}${writeTargeting(line.targeting)}`
    const candidate = drawCandidate(choice, lastKeys.get(entryKey))
    if (candidate === null) return allExitsFull
    lastKeys.set(entryKey, candidate.key)
    const targeting = choice.fallback ? countryOnly(line.targeting) : line.targeting
    return routeTo(candidate, exitOf(candidate, targeting, null), {
      fallback: choice.fallback,
      minutesLeft: null,
      session: null,
      sessionName: null,
    })
  }

  const pinnedRoute = async (
    line: Line,
    lifetimeMinutes: number,
    session: SessionRef,
    needs: ConnectionNeeds,
  ): Promise<Route | Denied> => {
    const { targeting } = line
    const propose = (previousPin: SessionPin | null): ProposedPin | null => {
      const round = previousPin === null ? 0 : previousPin.round + 1
      const candidate = rendezvous(choiceFor(targeting, needs), session, round, previousPin?.exitKey ?? null)
      if (candidate === null) return null
      failures.delete(session.key)
      const startedAtMs = clock()
      return {
        exitKey: candidate.key,
        round,
        startedAtMs,
        expiresAtMs: startedAtMs + lifetimeMinutes * 60_000,
      }
    }
    const pin = await sticky.pin(session, propose)
    if (pin === null) return noExit(targeting, needs)
    if (pin.failed) return sessionEnded('failed')
    const candidate = live.index().byKey.get(pin.exitKey)
    if (candidate === undefined) {
      sticky.fail(session)
      return sessionEnded('is gone')
    }
    if (!health.isAlive(candidate.exitId)) return sessionEnded('does not answer')
    if (needs.udp && !candidate.terms.udp) return noExit(targeting, needs)
    if (!hasFreeSlot(candidate)) return allExitsFull
    const fallback = !matchesTargeting(candidate, targeting)
    const minutesLeft = Math.max(1, Math.ceil((pin.expiresAtMs - clock()) / 60_000))
    const supplier = { id: supplierSession(session.key, pin.round), minutes: minutesLeft }
    return routeTo(candidate, exitOf(candidate, fallback ? countryOnly(targeting) : targeting, supplier), {
      fallback,
      minutesLeft,
      session,
      sessionName: supplier.id,
    })
  }

  return {
    route: async ({ holder, line, udp, family = null }) => {
      const { targeting, session } = line
      const needs: ConnectionNeeds = { udp: udp || targeting.udp, family }
      const unknownToken = live.index().unknownPlace(targeting)
      if (unknownToken) return refuse(403, 'bad_targeting', `${unknownToken.token}: ${unknownToken.detail}`)
      return session === null
        ? rotatingRoute(line, holder, needs)
        : pinnedRoute(line, session.lifetimeMinutes, sessionRef(holder, session.id, targeting), needs)
    },
    find: (exitId) => {
      const candidate = live.index().byExit.get(exitId)?.[0]
      return candidate && health.isAlive(exitId) ? exitOf(candidate, anyTargeting, null) : null
    },
    ofCarrier: (carrierId) =>
      live
        .index()
        .serving.filter(({ terms, exitId }) => terms.carrier === carrierId && health.isAlive(exitId))
        .map((candidate) => exitOf(candidate, anyTargeting, null)),
  }
}
