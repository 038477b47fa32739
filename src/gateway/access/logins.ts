import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { PlanId } from '../../kernel/ids.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'

/** Finds the plan that a username names. */
export type Logins = {
  /** Null: no plan has this username. Rejects when Postgres does not answer. */
  planOf(username: string): Promise<PlanId | null>
}

/** Plans that began this long before the last one that is known: clocks of several processes differ. */
const overlap = '10 minutes'
const pageSize = 5_000
/** Nobody's usernames are looked up at most this often each, milliseconds. */
const unknownMs = 300
/** Looking for new plans costs a query: at most this often, whatever is tried. */
const catchUpMs = 100

const maxKnown = 200_000
const maxUnknown = 10_000

export const createLogins = (deps: {
  readonly pool: pg.Pool
  readonly credentials: Credentials
  readonly monotonicMs: MonotonicClock
}): Logins => {
  const { pool, credentials, monotonicMs } = deps
  const known = new LRUCache<string, PlanId>({ max: maxKnown })
  const unknown = new LRUCache<string, number>({ max: maxUnknown })
  let catchingUp: Promise<void> | null = null
  let caughtUpMs = Number.NEGATIVE_INFINITY

  /** Adds the usernames of plans that began since the last one in the table; the first time, of all. */
  const addNew = async (): Promise<void> => {
    for (;;) {
      const { rows } = await pool.query<{ plan_id: PlanId; started_at: string }>({
        name: 'gateway-new-plans',
        text: `select plan.plan_id, plan.started_at from read.plans plan
                where plan.started_at >= coalesce(
                        (select max(login.started_at) - interval '${overlap}' from work.gateway_logins login), '-infinity')
                  and not exists (select from work.gateway_logins login
                                   where login.plan_id = plan.plan_id and login.started_at = plan.started_at)
                order by plan.started_at limit ${pageSize}`,
      })
      if (rows.length === 0) return
      await pool.query({
        name: 'gateway-add-logins',
        text: `insert into work.gateway_logins (username, plan_id, started_at)
               select * from unnest($1::text[], $2::text[], $3::timestamptz[]) on conflict do nothing`,
        values: [
          rows.map(({ plan_id: planId }) => credentials.of(planId, 0).username),
          rows.map(({ plan_id: planId }) => planId),
          rows.map(({ started_at: startedAt }) => startedAt),
        ],
      })
      if (rows.length < pageSize) return
    }
  }

  const catchUp = (): Promise<void> => {
    catchingUp ??= addNew().finally(() => {
      catchingUp = null
      caughtUpMs = monotonicMs()
    })
    return catchingUp
  }

  const find = async (username: string): Promise<PlanId | null> => {
    const { rows } = await pool.query<{ plan_id: PlanId }>({
      name: 'gateway-login',
      text: 'select plan_id from work.gateway_logins where username = $1::text',
      values: [username],
    })
    return rows[0]?.plan_id ?? null
  }

  return {
    planOf: async (username) => {
      const cached = known.get(username)
      if (cached !== undefined) return cached
      const nowMs = monotonicMs()
      if (nowMs - (unknown.get(username) ?? Number.NEGATIVE_INFINITY) < unknownMs) return null
      let found = await find(username)
      if (found === null && (catchingUp !== null || nowMs - caughtUpMs >= catchUpMs)) {
        await catchUp()
        found = await find(username)
      }
      if (found === null) unknown.set(username, nowMs)
      else known.set(username, found)
      return found
    },
  }
}
