import { createHash, timingSafeEqual } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import { basePattern } from '../../domain/exits/line.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { PlanId, ProxyId } from '../../kernel/ids.ts'
import { createRateLimiter } from '../../platform/http/rate-limiter.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'

/** The owner of a username: a plan, or a rental that is reached by its username. */
export type Owner =
  | { readonly kind: 'plan'; readonly planId: PlanId }
  | { readonly kind: 'rental'; readonly proxyId: ProxyId }

/** Finds the owners of usernames. Rejects when Postgres does not answer. */
export type Logins = {
  /** Null: no known owner. */
  of(username: string): Promise<Owner | null>
  /**
   * Waits for a lookup in the read models that begins `lagMs` or more after the attempt. It finds everything that was
   * sold or changed before the attempt. Returns earlier if the username had no owner and now has one.
   * @param attemptedMs the time of the attempt, by the monotonic clock
   * @returns the start of that lookup: data read after this time is fresh enough
   */
  waitForNewLogins(username: string, attemptedMs: number): Promise<number>
}

/** A table of logins, and the read table that new logins come from. */
type Source = {
  readonly name: 'plan' | 'rental'
  /** The table with `username`, the id, and `started_at`. */
  readonly table: `work.${string}`
  readonly id: string
  /** The read table with the same id, and its column with the start time. */
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

/** Only rentals whose addresses are endpoints of suppliers. All others are found by the dialled address. */
const rentals: Source = {
  name: 'rental',
  table: 'work.gateway_rental_logins',
  id: 'proxy_id',
  read: 'read.proxies',
  since: 'endpoint_since',
}

/** New logins are searched this long before the newest known one, because the clocks of processes differ. */
const overlap = '10 minutes'
const pageSize = 5_000
/** Lookups of new logins start at most this often, milliseconds, because each costs queries. */
const lookupIntervalMs = 100
/** The read models include sales after this time, milliseconds, unless they lag. */
const lagMs = 150

const maxKnown = 200_000

type Parts = {
  readonly pool: pg.Pool
  readonly credentials: Credentials
  readonly monotonicMs: MonotonicClock
}

/** The result of a lookup, and its start by the monotonic clock. */
type LookupResult = { readonly startedMs: number; readonly owners: ReadonlyMap<string, Owner> }

/** Creates the lookup of the plans and rentals that usernames belong to. */
export const createLogins = ({ pool, credentials, monotonicMs }: Parts): Logins => {
  const cachedOwners = new LRUCache<string, Owner>({ max: maxKnown })

  /** Adds the usernames that began after the newest one in the table; on the first call, all. */
  const addNewLogins = async ({ name, table, id, read, since }: Source): Promise<void> => {
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

  let startedMs = Number.NEGATIVE_INFINITY
  let lastLookup: Promise<unknown> = Promise.resolve()
  let nextLookup: { readonly usernames: Set<string>; readonly loginLookup: Promise<LookupResult> } | null =
    null

  /**
   * One lookup for all usernames that join before it begins. It begins after the previous lookup has ended, and at
   * least `lookupIntervalMs` after that one began.
   */
  const loginLookup = async (
    previousLookup: Promise<unknown>,
    usernames: ReadonlySet<string>,
  ): Promise<LookupResult> => {
    await previousLookup
    const remainingMs = startedMs + lookupIntervalMs - monotonicMs()
    if (remainingMs > 0) await sleep(remainingMs)
    nextLookup = null
    const lookupStartMs = monotonicMs()
    startedMs = lookupStartMs
    await Promise.all([addNewLogins(plans), addNewLogins(rentals)])
    return { startedMs: lookupStartMs, owners: await find([...usernames]) }
  }

  const joinNextLookup = (username: string): Promise<LookupResult> => {
    if (nextLookup === null) {
      const usernames = new Set<string>()
      nextLookup = { usernames, loginLookup: loginLookup(lastLookup, usernames) }
      // Callers that joined the lookup receive its failure.
      lastLookup = nextLookup.loginLookup.catch(() => undefined)
    }
    // No other name can have an owner. Postgres would reject some, such as one with a zero byte.
    if (basePattern.test(username)) nextLookup.usernames.add(username)
    return nextLookup.loginLookup
  }

  return {
    of: async (username) => {
      const cached = cachedOwners.get(username)
      if (cached || !basePattern.test(username)) return cached ?? null
      const owner = (await find([username])).get(username) ?? null
      if (owner) cachedOwners.set(username, owner)
      return owner
    },
    waitForNewLogins: async (username, attemptedMs) => {
      for (;;) {
        const { startedMs: lookupStartMs, owners } = await joinNextLookup(username)
        if (lookupStartMs >= attemptedMs + lagMs) return lookupStartMs
        if (!cachedOwners.has(username) && owners.has(username)) return lookupStartMs
      }
    },
  }
}

/** After a rotation the former password works for this long, milliseconds. */
export const rotationGraceMs = 120_000

export type Passwords = {
  /** The generation of a valid password; null: the password is not valid. Every comparison takes the same time. */
  generationOf(
    holder: {
      readonly id: PlanId | ProxyId
      readonly generation: number
      readonly rotatedAtMs: number | null
    },
    password: string,
    nowMs: number,
  ): number | null
  /** For a username without an owner: takes as long as a comparison. */
  compareWithNothing(password: string): void
}

const digestOf = (text: string): Buffer => createHash('sha256').update(text).digest()
const emptyDigest = digestOf('')
const maxDigests = 100_000

/** Compares digests, so that the time reveals neither the length nor a common prefix. */
export const createPasswords = (credentials: Credentials): Passwords => {
  const digests = new LRUCache<string, Buffer>({ max: maxDigests })
  const expectedDigest = (id: PlanId | ProxyId, generation: number): Buffer => {
    const key = `${id}/${generation}`
    const cached = digests.get(key)
    if (cached) return cached
    const digest = digestOf(credentials.of(id, generation).password)
    digests.set(key, digest)
    return digest
  }
  return {
    generationOf: ({ id, generation, rotatedAtMs }, password, nowMs) => {
      const givenDigest = digestOf(password)
      const isCurrentValid = timingSafeEqual(givenDigest, expectedDigest(id, generation))
      const inGrace = rotatedAtMs !== null && nowMs < rotatedAtMs + rotationGraceMs && generation > 0
      const isPreviousValid = timingSafeEqual(givenDigest, expectedDigest(id, Math.max(0, generation - 1)))
      if (isCurrentValid) return generation
      return isPreviousValid && inGrace ? generation - 1 : null
    },
    compareWithNothing: (password) => {
      const givenDigest = digestOf(password)
      timingSafeEqual(givenDigest, emptyDigest)
      timingSafeEqual(givenDigest, emptyDigest)
    },
  }
}

/** Delays wrong credentials by their source address. Correct credentials are never delayed. */
export type Throttle = {
  /**
   * Counts a wrong attempt and resolves when it may be answered.
   * @param signal ends the wait when the gateway stops
   */
  delay(source: string, signal: AbortSignal): Promise<void>
}

/** The first 20 wrong attempts of an address are answered at once, then one per second. */
const rate = { burst: 20, perSecond: 1 }
const longestWaitMs = 10_000
/** Delayed answers in total. Further ones are not delayed, to bound the memory. */
const maxDelayed = 2_000

export const createThrottle = (monotonicMs: MonotonicClock): Throttle => {
  const limiter = createRateLimiter(rate, monotonicMs)
  let delayedCount = 0
  return {
    delay: async (source, signal) => {
      const waitMs = Math.min(longestWaitMs, limiter.take(source) * 1_000)
      if (waitMs === 0 || delayedCount >= maxDelayed) return
      delayedCount += 1
      await sleep(waitMs, undefined, { signal }).catch(() => undefined) // the gateway stops: the answer is sent now
      delayedCount -= 1
    },
  }
}
