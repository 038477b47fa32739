import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { PlanId, ProxyId } from '../../kernel/ids.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'

/** Finds whose a username is. */
export type Logins<Id> = {
  /** Null: nobody's of these. Rejects when Postgres does not answer. */
  of(username: string): Promise<Id | null>
}

/** Whose usernames a table of logins finds, and where it learns of new ones. */
type Source = {
  readonly name: string
  /** The table: `username`, the id, and since when it is a login. */
  readonly table: `work.${string}`
  readonly id: string
  /** The read table with the same id, and its column that says since when. */
  readonly read: `read.${string}`
  readonly since: string
}

const plans: Source = {
  name: 'gateway-plan',
  table: 'work.gateway_logins',
  id: 'plan_id',
  read: 'read.plans',
  since: 'started_at',
}

/** Only those whose addresses are endpoints of suppliers: all others are found by the address that was dialled. */
const rentals: Source = {
  name: 'gateway-rental',
  table: 'work.gateway_rental_logins',
  id: 'proxy_id',
  read: 'read.proxies',
  since: 'endpoint_since',
}

/** What began this long before the last one that is known is looked for again: clocks of several processes differ. */
const overlap = '10 minutes'
const pageSize = 5_000
/** Nobody's usernames are looked up at most this often each, milliseconds. */
const unknownMs = 300
/** Looking for new ones costs a query: at most this often, whatever is tried. */
const catchUpMs = 100

const maxKnown = 200_000
const maxUnknown = 10_000

type Parts = {
  readonly pool: pg.Pool
  readonly credentials: Credentials
  readonly monotonicMs: MonotonicClock
}

const createLogins = <Id extends PlanId | ProxyId>(
  { pool, credentials, monotonicMs }: Parts,
  { name, table, id, read, since }: Source,
): Logins<Id> => {
  const known = new LRUCache<string, Id>({ max: maxKnown })
  const unknown = new LRUCache<string, number>({ max: maxUnknown })
  let catchingUp: Promise<void> | null = null
  let caughtUpMs = Number.NEGATIVE_INFINITY

  /** Adds the usernames of those that began since the last one in the table; the first time, of all. */
  const addNew = async (): Promise<void> => {
    for (;;) {
      const { rows } = await pool.query<{ id: Id; since: string }>({
        name: `${name}s-new`,
        text: `select fresh.${id} as id, fresh.${since} as since from ${read} fresh
                where fresh.${since} >= coalesce(
                        (select max(login.started_at) - interval '${overlap}' from ${table} login), '-infinity')
                  and not exists (select from ${table} login
                                   where login.${id} = fresh.${id} and login.started_at = fresh.${since})
                order by fresh.${since} limit ${pageSize}`,
      })
      if (rows.length === 0) return
      await pool.query({
        name: `${name}s-add`,
        text: `insert into ${table} (username, ${id}, started_at)
               select * from unnest($1::text[], $2::text[], $3::timestamptz[])
               on conflict (username) do update set started_at = excluded.started_at`,
        values: [
          rows.map((row) => credentials.of(row.id, 0).username),
          rows.map((row) => row.id),
          rows.map((row) => row.since),
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

  const find = async (username: string): Promise<Id | null> => {
    const { rows } = await pool.query<{ id: Id }>({
      name: `${name}-login`,
      text: `select ${id} as id from ${table} where username = $1::text`,
      values: [username],
    })
    return rows[0]?.id ?? null
  }

  return {
    of: async (username) => {
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

/** Finds the plan that a username names. */
export const createPlanLogins = (parts: Parts): Logins<PlanId> => createLogins(parts, plans)

/** Finds the rental that a username names, of those that are reached by their username. */
export const createRentalLogins = (parts: Parts): Logins<ProxyId> => createLogins(parts, rentals)
