import type pg from 'pg'
import type { Clock } from '../../kernel/clock.ts'

/** A session's own cap, from the `-limit-` token of its username: bytes of both directions. */
export type SessionCap = {
  /** At most `wanted`, of what this process has on lease; 0 once nothing is left of it. */
  take(wanted: number): number
  giveBack(bytes: number): void
  /** What `take` can give at once. */
  left(): number
  /**
   * Leases more, unless `take` can give `least` bytes already. @returns false: the cap does not leave so many. Rejects when
   * Postgres does not answer.
   */
  lease(least: number): Promise<boolean>
  /** No tunnel uses it any more. */
  close(): void
}

export type SessionCaps = {
  /** Counting goes on where this or another process was. */
  open(session: {
    readonly planId: string
    readonly sessionId: string
    readonly limitBytes: number
    readonly lifetimeMs: number
  }): SessionCap
  /** Gives back what was leased and not used since the last time, so that other processes may pass it. */
  flush(): Promise<void>
}

/**
 * Of one session in this process. Postgres counts a lease as used from its begin, so all processes together pass no more than
 * the cap; a process that is killed loses the session what it had on lease.
 */
type Counter = {
  readonly planId: string
  readonly sessionId: string
  readonly lifetimeMs: number
  /** Of all processes, with their leases, as of the last lease. */
  used: number
  /** Leased and not passed yet. */
  free: number
  /** Of the session's life that the lease is from; null before the first one. */
  endsAt: string | null
  /** The last lease that was asked for: one at a time. */
  leasing: Promise<void>
  /** Whether anything passed since the last flush. */
  busy: boolean
  /** Tunnels. */
  users: number
}

/** A lease is a part of what is left, so that little is with processes that do not pass it; bytes. */
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

  /** The session's end is fixed by its first use; after it, its bytes count from 0 again. */
  const lease = async (counter: Counter, limitBytes: number, least: number): Promise<void> => {
    const { planId, sessionId, lifetimeMs } = counter
    const ask = () =>
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
    let { rows } = await ask()
    while (rows.length === 0) {
      await pool.query({
        name: 'gateway-session-begin',
        text: `insert into work.gateway_sessions (plan_id, session_id, used_bytes, ends_at)
               values ($1::text, $2::text, 0, $3::timestamptz + make_interval(secs => $4::bigint / 1000.0))
               on conflict (plan_id, session_id) do nothing`,
        values: [planId, sessionId, now(), lifetimeMs],
      })
      rows = (await ask()).rows
    }
    const [{ granted, used_bytes: used, ends_at: endsAt }] = rows as [(typeof rows)[0]]
    // What was left of a lease of the session's former life went with it.
    if (counter.endsAt !== endsAt) counter.free = 0
    counter.endsAt = endsAt
    counter.used = used
    counter.free += granted
  }

  /** What is given back was leased in the life that the session still has. */
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
      const fresh = { planId, sessionId, lifetimeMs, used: 0, free: 0, endsAt: null, busy: false, users: 0 }
      const counter: Counter = counters.get(key) ?? { ...fresh, leasing: Promise.resolve() }
      counters.set(key, counter)
      counter.users += 1
      // Tunnels of one session may have caps that differ.
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
          const before = counter.leasing.catch(() => undefined)
          const mine = before.then(async () => {
            if (left() < least) await lease(counter, limitBytes, least)
          })
          counter.leasing = mine
          await mine
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
