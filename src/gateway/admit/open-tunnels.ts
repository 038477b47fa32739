import type pg from 'pg'
import type { Clock } from '../../kernel/clock.ts'
import type { AbortHandler, AbortHandlers, Denied, Spending } from '../gateway-ports.ts'
import { type OnFault, sessionLimitReached } from '../refusals.ts'
import type { Usage } from './record-usage.ts'

/** An admitted tunnel. */
export type Tunnel = {
  /**
   * The plan's spending. It ends when this tunnel is cut, and while the tunnel is open, also when the plan's spending
   * ends.
   */
  readonly spending: Spending
  /** Aborted when the plan's spending ends. */
  readonly planEnded: AbortSignal
  /** Cuts this tunnel. */
  terminate(denied: Denied): void
  /** Bytes since the last call. */
  countUnreported(): { readonly up: number; readonly down: number }
  /** Bytes since the last call, for the traffic records. */
  countUnrecorded(): { readonly up: number; readonly down: number }
  hasUnrecorded(): boolean
  /** All bytes of this tunnel. */
  total(): number
}

/** Counts the bytes of one tunnel and enforces the cap of its session. */
export const createTunnel = (spending: Spending, cap: SessionCap | null): Tunnel => {
  const ownController = new AbortController()
  const counted = { up: 0, down: 0 }
  const count = (bytes: number, direction: 'up' | 'down'): void => {
    counted[direction] += bytes
  }
  const reported = { up: 0, down: 0 }
  const recorded = { up: 0, down: 0 }
  const countSince = (mark: typeof counted) => {
    const since = { up: counted.up - mark.up, down: counted.down - mark.down }
    mark.up = counted.up
    mark.down = counted.down
    return since
  }
  return {
    planEnded: spending.ended,
    terminate: (denied) => ownController.abort(denied),
    countUnreported: () => countSince(reported),
    countUnrecorded: () => countSince(recorded),
    hasUnrecorded: () => counted.up !== recorded.up || counted.down !== recorded.down,
    total: () => counted.up + counted.down,
    spending: {
      ended: ownController.signal,
      take: (wanted, direction) => {
        const allowed = cap === null ? wanted : cap.take(wanted)
        const bytes = spending.take(allowed, direction)
        if (cap !== null && bytes < allowed) cap.giveBack(allowed - bytes)
        count(bytes, direction)
        return bytes
      },
      giveBack: (bytes, direction) => {
        cap?.giveBack(bytes)
        spending.giveBack(bytes, direction)
        count(-bytes, direction)
      },
      more: async (wanted = 1, least = 1) => {
        if (cap !== null && !(await cap.lease(Math.max(1, least)))) return sessionLimitReached
        return spending.more(wanted, least)
      },
    },
  }
}

/** The open tunnels of this process, by plan. */
type OpenTunnels = {
  /**
   * Reserves a slot for a tunnel that is about to open, so that concurrent attempts do not all find the last slot free.
   * @returns a function that releases the slot: call it when the tunnel is added or fails; null: `maxSlots` slots are
   * in use
   */
  reserveSlot(planId: string, maxSlots: number): (() => void) | null
  add(planId: string, generation: number, tunnel: Tunnel): void
  remove(planId: string, tunnel: Tunnel): void
  /** Cuts the tunnels of a plan whose credential generation passes the test. */
  terminate(planId: string, matches: (generation: number) => boolean, denied: Denied): void
  /** Adds the bytes since the last report to the statistics. */
  report(usage: Pick<Usage, 'traffic'>): void
}

export const createOpenTunnels = (): OpenTunnels => {
  const plans = new Map<string, Map<Tunnel, number>>()
  const reservedSlots = new Map<string, number>()
  const reservedSlotsOf = (planId: string): number => reservedSlots.get(planId) ?? 0
  const abortHandlers = createAbortHandlers()
  // `AbortSignal.any` would leak a kilobyte per tunnel into the signal of its plan.
  const handlerRemovals = new WeakMap<Tunnel, () => void>()
  return {
    reserveSlot: (planId, maxSlots) => {
      if ((plans.get(planId)?.size ?? 0) + reservedSlotsOf(planId) >= maxSlots) return null
      reservedSlots.set(planId, reservedSlotsOf(planId) + 1)
      return () => {
        const remaining = reservedSlotsOf(planId) - 1
        if (remaining === 0) reservedSlots.delete(planId)
        else reservedSlots.set(planId, remaining)
      }
    },
    add: (planId, generation, tunnel) => {
      const planTunnels = plans.get(planId) ?? new Map<Tunnel, number>()
      plans.set(planId, planTunnels.set(tunnel, generation))
      handlerRemovals.set(tunnel, abortHandlers.on(tunnel.planEnded, tunnel.terminate))
    },
    remove: (planId, tunnel) => {
      const planTunnels = plans.get(planId)
      planTunnels?.delete(tunnel)
      handlerRemovals.get(tunnel)?.()
      if (planTunnels?.size === 0) plans.delete(planId)
    },
    terminate: (planId, matches, denied) => {
      for (const [tunnel, generation] of plans.get(planId) ?? [])
        if (matches(generation)) tunnel.terminate(denied)
    },
    report: (usage) => {
      for (const [planId, planTunnels] of plans)
        for (const tunnel of planTunnels.keys()) {
          const { up, down } = tunnel.countUnreported()
          if (up + down !== 0) usage.traffic(planId, up, down)
        }
    },
  }
}

/** The traffic cap of a session, from the `-limit-` token of its username. It counts bytes of both directions. */
export type SessionCap = {
  /** Takes at most `wanted` bytes of the lease of this process; 0 when nothing is left of it. */
  take(wanted: number): number
  giveBack(bytes: number): void
  /** The bytes that `take` can return at once. */
  left(): number
  /**
   * Leases more bytes unless `take` can already return `least`. @returns false: the cap leaves fewer than `least`.
   * Rejects when Postgres does not answer.
   */
  lease(least: number): Promise<boolean>
  /** The tunnel ended. */
  close(): void
}

export type SessionCaps = {
  /** Continues the count of this and other processes. */
  open(session: {
    readonly planId: string
    readonly sessionId: string
    readonly limitBytes: number
    readonly lifetimeMs: number
  }): SessionCap
  /** Gives back leased bytes that were not used since the last flush, so that other processes can use them. */
  flush(): Promise<void>
}

/**
 * The count of one session in this process. Postgres counts a lease as used from its start, so all processes together
 * never exceed the cap. If a process is killed, the session loses the bytes that the process had leased.
 */
type Counter = {
  readonly planId: string
  readonly sessionId: string
  readonly lifetimeMs: number
  /** Used and leased bytes of all processes, as of the last lease. */
  used: number
  /** Leased bytes that are not used. */
  free: number
  /** The end of the session lifetime in which the lease was taken; null before the first lease. */
  endsAt: string | null
  /** The last requested lease. Requests run one at a time. */
  lastLease: Promise<void>
  /** Whether bytes were used since the last flush. */
  busy: boolean
  /** Open tunnels. */
  users: number
}

/** A lease is this fraction (1/8) of the rest, so that processes without traffic reserve little; sizes are bytes. */
const share = 8
const largestLease = 4_000_000
const smallestLease = 16_384

export const createSessionCaps = ({
  pool,
  clock,
}: {
  readonly pool: pg.Pool
  readonly clock: Clock
}): SessionCaps => {
  const counters = new Map<string, Counter>()
  const now = (): string => new Date(clock()).toISOString()

  /** The first use of a session sets its end. After the end its bytes count from 0 again. */
  const lease = async (counter: Counter, limitBytes: number, least: number): Promise<void> => {
    const { planId, sessionId, lifetimeMs } = counter
    const requestLease = () =>
      pool.query<{ readonly granted: number; readonly used_bytes: number; readonly ends_at: string }>({
        name: 'gateway-session-lease',
        text: `update work.gateway_sessions as known
                  set used_bytes = was.used + was.granted,
                      ends_at = case when was.ended then $3::timestamptz + make_interval(secs => $4::bigint / 1000.0)
                                     else known.ends_at end
                 from (select plan_id, session_id, ended, used,
                              greatest(0, least($5::bigint - used,
                                greatest($6::bigint, ${smallestLease}, least(${largestLease}, ($5::bigint - used) / ${share})))) as granted
                         from (select plan_id, session_id, ends_at <= $3::timestamptz as ended,
                                      case when ends_at <= $3::timestamptz then 0 else used_bytes end as used
                                 from work.gateway_sessions
                                where plan_id = $1::text and session_id = $2::text
                                  for update) locked) was
                where known.plan_id = was.plan_id and known.session_id = was.session_id
               returning was.granted, known.used_bytes, known.ends_at::text`,
        values: [planId, sessionId, now(), lifetimeMs, limitBytes, least],
      })
    let { rows } = await requestLease()
    while (rows.length === 0) {
      await pool.query({
        name: 'gateway-session-begin',
        text: `insert into work.gateway_sessions (plan_id, session_id, used_bytes, ends_at)
               values ($1::text, $2::text, 0, $3::timestamptz + make_interval(secs => $4::bigint / 1000.0))
               on conflict (plan_id, session_id) do nothing`,
        values: [planId, sessionId, now(), lifetimeMs],
      })
      rows = (await requestLease()).rows
    }
    const [{ granted, used_bytes: used, ends_at: endsAt }] = rows as [(typeof rows)[0]]
    // Leased bytes of an earlier lifetime of the session are void.
    if (counter.endsAt !== endsAt) counter.free = 0
    counter.endsAt = endsAt
    counter.used = used
    counter.free += granted
  }

  /** Gives back only bytes that were leased in the current lifetime of the session. */
  const giveBack = async (idle: readonly (readonly [Counter, number])[]): Promise<void> => {
    await pool.query({
      name: 'gateway-session-give-back',
      text: `update work.gateway_sessions as known
                set used_bytes = greatest(0, known.used_bytes - given.bytes)
               from unnest($1::text[], $2::text[], $3::bigint[], $4::text[])
                      as given (plan_id, session_id, bytes, ends_at)
              where known.plan_id = given.plan_id and known.session_id = given.session_id
                and known.ends_at = given.ends_at::timestamptz`,
      values: [
        idle.map(([{ planId }]) => planId),
        idle.map(([{ sessionId }]) => sessionId),
        idle.map(([, bytes]) => bytes),
        idle.map(([{ endsAt }]) => endsAt),
      ],
    })
  }

  return {
    open: ({ planId, sessionId, limitBytes, lifetimeMs }) => {
      const key = `${planId}/${sessionId}`
      const initial = { planId, sessionId, lifetimeMs, used: 0, free: 0, endsAt: null, busy: false, users: 0 }
      const counter: Counter = counters.get(key) ?? { ...initial, lastLease: Promise.resolve() }
      counters.set(key, counter)
      counter.users += 1
      // Tunnels of one session may have different caps.
      const left = (): number =>
        Math.max(0, Math.min(counter.free, limitBytes - (counter.used - counter.free)))
      return {
        take: (wanted) => {
          const bytes = Math.min(wanted, left())
          counter.free -= bytes
          counter.busy ||= bytes > 0
          return bytes
        },
        giveBack: (bytes) => {
          counter.free += bytes
        },
        left,
        lease: async (least) => {
          const previousLease = counter.lastLease.catch(() => undefined)
          const ownLease = previousLease.then(async () => {
            if (left() < least) await lease(counter, limitBytes, least)
          })
          counter.lastLease = ownLease
          await ownLease
          return left() >= least
        },
        close: () => {
          counter.users -= 1
        },
      }
    },
    flush: async () => {
      const idle: (readonly [Counter, number])[] = []
      for (const [key, counter] of counters) {
        if (counter.free > 0 && (!counter.busy || counter.users === 0)) {
          idle.push([counter, counter.free])
          counter.used -= counter.free
          counter.free = 0
        } else if (counter.users === 0) counters.delete(key)
        counter.busy = false
      }
      if (idle.length === 0) return
      try {
        await giveBack(idle)
      } catch (error) {
        for (const [counter, bytes] of idle) {
          counter.used += bytes
          counter.free += bytes
        }
        throw error
      }
    },
  }
}

const rethrow: OnFault = (error) => {
  throw error
}

/**
 * Thousands of tunnels of a plan share one signal. Adding or removing a listener takes time linear in their number. So
 * each signal has one listener and a set of handlers.
 * @param onFault receives the exception of a handler; the other handlers still run
 */
export const createAbortHandlers = (onFault: OnFault = rethrow): AbortHandlers => {
  const handlersBySignal = new WeakMap<AbortSignal, Set<AbortHandler>>()
  const handlersFor = (signal: AbortSignal): Set<AbortHandler> => {
    const existing = handlersBySignal.get(signal)
    if (existing) return existing
    const abortHandlers = new Set<AbortHandler>()
    handlersBySignal.set(signal, abortHandlers)
    signal.addEventListener(
      'abort',
      () => {
        for (const onAbort of [...abortHandlers])
          try {
            onAbort(signal.reason as Denied)
          } catch (error) {
            onFault(error)
          }
      },
      { once: true },
    )
    return abortHandlers
  }
  return {
    on: (signal, onAbort) => {
      if (signal.aborted) {
        onAbort(signal.reason as Denied)
        return () => undefined
      }
      const abortHandlers = handlersFor(signal)
      abortHandlers.add(onAbort)
      return () => void abortHandlers.delete(onAbort)
    },
  }
}
