import { createHash, timingSafeEqual } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import { basePattern } from '../../domain/exits/username.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { PlanId, ProxyId } from '../../kernel/ids.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'

/** Whose a username is: a plan's, or that of a rental which is reached by its username. */
export type Owner =
  | { readonly kind: 'plan'; readonly planId: PlanId }
  | { readonly kind: 'rental'; readonly proxyId: ProxyId }

/** Finds whose a username is. Rejects when Postgres does not answer. */
export type Logins = {
  /** Null: nobody's, as far as is known. */
  of(username: string): Promise<Owner | null>
  /**
   * Waits for a look at the read models that began `lagMs` after the question: whatever was sold or changed before it can
   * then be read. Earlier when the username was nobody's and is somebody's now.
   * @param askedMs when the question came, by the monotonic clock
   * @returns since when what is read holds it
   */
  caughtUp(username: string, askedMs: number): Promise<number>
}

/** Whose usernames a table of logins finds, and where it learns of new ones. */
type Source = {
  readonly name: 'plan' | 'rental'
  /** The table: `username`, the id, and since when it is a login. */
  readonly table: `work.${string}`
  readonly id: string
  /** The read table with the same id, and its column that says since when. */
  readonly read: `read.${string}`
  readonly since: string
}

const plans: Source = {
  name: 'plan',
  table: 'work.gateway_logins',
  id: 'plan_id',
  read: 'read.plans',
  since: 'started_at',
}

/** Only those whose addresses are endpoints of suppliers: all others are found by the address that was dialled. */
const rentals: Source = {
  name: 'rental',
  table: 'work.gateway_rental_logins',
  id: 'proxy_id',
  read: 'read.proxies',
  since: 'endpoint_since',
}

/** What began this long before the last one that is known is looked for again: clocks of several processes differ. */
const overlap = '10 minutes'
const pageSize = 5_000
/** Looking for new ones costs queries: a look begins at most this often, whatever is tried. */
const lookMs = 100
/** What was sold this long ago stands in the read models, unless they are behind. */
const lagMs = 150

const maxKnown = 200_000

type Parts = {
  readonly pool: pg.Pool
  readonly credentials: Credentials
  readonly monotonicMs: MonotonicClock
}

/** What a look found, and when it began by the monotonic clock. */
type Look = { readonly begunMs: number; readonly owners: ReadonlyMap<string, Owner> }

/** Finds the plans and rentals that usernames name. */
export const createLogins = ({ pool, credentials, monotonicMs }: Parts): Logins => {
  const known = new LRUCache<string, Owner>({ max: maxKnown })

  /** Adds the usernames of those that began since the last one in the table; the first time, of all. */
  const addNew = async ({ name, table, id, read, since }: Source): Promise<void> => {
    for (;;) {
      const { rows } = await pool.query<{ id: PlanId | ProxyId; since: string }>({
        name: `gateway-${name}s-new`,
        text: `select fresh.${id} as id, fresh.${since} as since from ${read} fresh
                where fresh.${since} >= coalesce(
                        (select max(login.started_at) - interval '${overlap}' from ${table} login), '-infinity')
                  and not exists (select from ${table} login
                                   where login.${id} = fresh.${id} and login.started_at = fresh.${since})
                order by fresh.${since} limit ${pageSize}`,
      })
      if (rows.length === 0) return
      await pool.query({
        name: `gateway-${name}s-add`,
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

  const find = async (usernames: readonly string[]): Promise<ReadonlyMap<string, Owner>> => {
    const { rows } = await pool.query<{
      username: string
      plan_id: PlanId | null
      proxy_id: ProxyId | null
    }>({
      name: 'gateway-logins',
      text: `select username, ${plans.id}, null as ${rentals.id} from ${plans.table} where username = any ($1::text[])
             union all
             select username, null, ${rentals.id} from ${rentals.table} where username = any ($1::text[])`,
      values: [usernames],
    })
    const owners = new Map<string, Owner>()
    for (const { username, plan_id: planId, proxy_id: proxyId } of rows) {
      if (planId !== null) owners.set(username, { kind: 'plan', planId })
      else if (proxyId !== null) owners.set(username, { kind: 'rental', proxyId })
    }
    return owners
  }

  let begunMs = Number.NEGATIVE_INFINITY
  let last: Promise<unknown> = Promise.resolve()
  let next: { readonly usernames: Set<string>; readonly look: Promise<Look> } | null = null

  /** Looks for all who joined until it begins: after the last look has ended, and not sooner than `lookMs` after its begin. */
  const look = async (after: Promise<unknown>, usernames: ReadonlySet<string>): Promise<Look> => {
    await after
    const restMs = begunMs + lookMs - monotonicMs()
    if (restMs > 0) await setTimeout(restMs)
    next = null
    const begun = monotonicMs()
    begunMs = begun
    await Promise.all([addNew(plans), addNew(rentals)])
    return { begunMs: begun, owners: await find([...usernames]) }
  }

  const joinNext = (username: string): Promise<Look> => {
    if (next === null) {
      const usernames = new Set<string>()
      next = { usernames, look: look(last, usernames) }
      // Whoever joined it is told of its failure.
      last = next.look.catch(() => undefined)
    }
    // Others are nobody's; Postgres would refuse some, such as one with a zero byte.
    if (basePattern.test(username)) next.usernames.add(username)
    return next.look
  }

  return {
    of: async (username) => {
      const cached = known.get(username)
      if (cached || !basePattern.test(username)) return cached ?? null
      const owner = (await find([username])).get(username) ?? null
      if (owner) known.set(username, owner)
      return owner
    },
    caughtUp: async (username, askedMs) => {
      for (;;) {
        const { begunMs: begun, owners } = await joinNext(username)
        if (begun >= askedMs + lagMs) return begun
        if (!known.has(username) && owners.has(username)) return begun
      }
    },
  }
}

/** After a rotation the former password works for this long, milliseconds. */
export const rotationGraceMs = 120_000

export type Passwords = {
  /** Which generation this is the password of; null: of none that works. Every comparison takes the same time. */
  generationOf(
    holder: {
      readonly id: PlanId | ProxyId
      readonly generation: number
      readonly rotatedAtMs: number | null
    },
    password: string,
    nowMs: number,
  ): number | null
  /** Takes as long as a comparison and finds nothing, for a username that nobody has. */
  nobody(password: string): void
}

const digestOf = (text: string): Buffer => createHash('sha256').update(text).digest()
const nobodys = digestOf('')
const maxDigests = 100_000

/** Compares digests, so that neither the length nor a common beginning can be told from the time. */
export const createPasswords = (credentials: Credentials): Passwords => {
  const digests = new LRUCache<string, Buffer>({ max: maxDigests })
  const expected = (id: PlanId | ProxyId, generation: number): Buffer => {
    const key = `${id}/${generation}`
    const cached = digests.get(key)
    if (cached) return cached
    const digest = digestOf(credentials.of(id, generation).password)
    digests.set(key, digest)
    return digest
  }
  return {
    generationOf: ({ id, generation, rotatedAtMs }, password, nowMs) => {
      const given = digestOf(password)
      const current = timingSafeEqual(given, expected(id, generation))
      const inGrace = rotatedAtMs !== null && nowMs < rotatedAtMs + rotationGraceMs && generation > 0
      const former = timingSafeEqual(given, expected(id, Math.max(0, generation - 1)))
      if (current) return generation
      return former && inGrace ? generation - 1 : null
    },
    nobody: (password) => {
      const given = digestOf(password)
      timingSafeEqual(given, nobodys)
      timingSafeEqual(given, nobodys)
    },
  }
}
