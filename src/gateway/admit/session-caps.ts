import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { Clock } from '../../kernel/clock.ts'

/** A session's own cap, from the `-limit-` token of its username: bytes of both directions. */
export type SessionCap = {
  /** At most `wanted`; 0 once nothing is left. */
  take(wanted: number): number
  giveBack(bytes: number): void
  left(): number
}

export type SessionCaps = {
  /** Counting goes on where this or another process was. Rejects when Postgres does not answer. */
  open(session: {
    readonly planId: string
    readonly sessionId: string
    readonly limitBytes: number
    readonly lifetimeMs: number
  }): Promise<SessionCap>
  /**
   * Writes what was counted since the last time, and reads what other processes counted. Between two of these each
   * process counts for itself, so a session that several of them serve at once may pass its cap by what they pass in
   * that time.
   */
  flush(): Promise<void>
}

type Counter = {
  readonly planId: string
  readonly sessionId: string
  readonly lifetimeMs: number
  /** Of all processes, as of the last flush, and what this one added since. */
  used: number
  fresh: number
}

const maxSessions = 100_000

export const createSessionCaps = ({
  pool,
  clock,
}: {
  readonly pool: pg.Pool
  readonly clock: Clock
}): SessionCaps => {
  const counters = new LRUCache<string, Counter>({ max: maxSessions })
  const keyOf = (planId: string, sessionId: string): string => `${planId}/${sessionId}`

  /** The session's end is fixed by its first use; after it, its bytes count from 0 again. */
  const add = async (counted: readonly (Counter & { readonly bytes: number })[]): Promise<void> => {
    const nowMs = clock()
    const { rows } = await pool.query<{ plan_id: string; session_id: string; used_bytes: number }>({
      name: 'gateway-session-add',
      text: `insert into work.gateway_sessions as known (plan_id, session_id, used_bytes, ends_at)
             select plan_id, session_id, bytes, $4::timestamptz + make_interval(secs => lifetime_ms / 1000.0)
               from unnest($1::text[], $2::text[], $3::bigint[], $5::bigint[])
                 as given (plan_id, session_id, bytes, lifetime_ms)
              order by plan_id, session_id
             on conflict (plan_id, session_id) do update
               set used_bytes = case when known.ends_at <= $4::timestamptz then 0 else known.used_bytes end
                                + excluded.used_bytes,
                   ends_at = case when known.ends_at <= $4::timestamptz then excluded.ends_at else known.ends_at end
             returning plan_id, session_id, used_bytes`,
      values: [
        counted.map(({ planId }) => planId),
        counted.map(({ sessionId }) => sessionId),
        counted.map(({ bytes }) => bytes),
        new Date(nowMs).toISOString(),
        counted.map(({ lifetimeMs }) => lifetimeMs),
      ],
    })
    for (const row of rows) {
      const counter = counters.get(keyOf(row.plan_id, row.session_id))
      if (counter) counter.used = row.used_bytes
    }
  }

  return {
    open: async ({ planId, sessionId, limitBytes, lifetimeMs }) => {
      const key = keyOf(planId, sessionId)
      let counter = counters.get(key)
      if (!counter) {
        counter = { planId, sessionId, lifetimeMs, used: 0, fresh: 0 }
        counters.set(key, counter)
        await add([{ ...counter, bytes: 0 }])
      }
      const its = counter
      const left = (): number => Math.max(0, limitBytes - its.used - its.fresh)
      return {
        take: (wanted) => {
          const bytes = Math.min(wanted, left())
          its.fresh += bytes
          return bytes
        },
        giveBack: (bytes) => {
          its.fresh -= bytes
        },
        left,
      }
    },
    flush: async () => {
      const counted = [...counters.values()].filter(({ fresh }) => fresh > 0)
      if (counted.length === 0) return
      const batch = counted.map((counter) => ({ ...counter, bytes: counter.fresh }))
      // Taken out first: what comes in meanwhile is the next flush's.
      for (const [n, counter] of counted.entries()) {
        const bytes = batch[n]?.bytes ?? 0
        counter.used += bytes
        counter.fresh -= bytes
      }
      try {
        await add(batch)
      } catch (error) {
        for (const [n, counter] of counted.entries()) {
          const bytes = batch[n]?.bytes ?? 0
          counter.used -= bytes
          counter.fresh += bytes
        }
        throw error
      }
    },
  }
}
