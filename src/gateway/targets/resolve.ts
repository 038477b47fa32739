import { Resolver } from 'node:dns/promises'
import { LRUCache } from 'lru-cache'
import type { MonotonicClock } from '../../kernel/clock.ts'

/**
 * The addresses of a name, both families. Rejects with an error whose `code` is `ENOTFOUND` or `ENODATA` if the name
 * does not exist; other codes mean that there was no answer in time.
 */
export type Resolve = (name: string) => Promise<readonly string[]>

type Found = { readonly addresses: readonly string[]; readonly ttlSeconds: number }
export type Lookup = (name: string) => Promise<Found>

const maxNames = 10_000
const minMs = 5_000
const maxMs = 300_000
/** An absent name is looked up again after this time, milliseconds. */
const absentMs = 5_000
const timeoutMs = 2_000
const tries = 2

const localhost: Found = { addresses: ['127.0.0.1', '::1'], ttlSeconds: maxMs / 1_000 }

/**
 * Queries DNS directly. `getaddrinfo` would block one of the four threads of the process until the name server answers.
 */
export const askDns = (): Lookup => {
  const resolver = new Resolver({ timeout: timeoutMs, tries })
  return async (name) => {
    if (name === 'localhost' || name.endsWith('.localhost')) return localhost
    const answers = await Promise.allSettled([
      resolver.resolve4(name, { ttl: true }),
      resolver.resolve6(name, { ttl: true }),
    ])
    const records = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
    if (records.length === 0) throw answers.map((answer) => (answer as PromiseRejectedResult).reason)[0]
    return {
      addresses: records.map(({ address }) => address),
      ttlSeconds: Math.min(...records.map(({ ttl }) => ttl)),
    }
  }
}

const isAbsent = (error: unknown): boolean => {
  const { code } = error as { code?: unknown }
  return code === 'ENOTFOUND' || code === 'ENODATA'
}

/**
 * Caches addresses for their TTL, but at least 5 seconds and at most 5 minutes; absent names for 5 seconds. It caches
 * at most 10,000 names. Concurrent look-ups of a name share one query.
 */
export const cachedResolve = (lookup: Lookup, clock: MonotonicClock): Resolve => {
  type Entry = { readonly answer: Promise<readonly string[]>; untilMs: number }
  const entries = new LRUCache<string, Entry>({ max: maxNames })
  const ask = (name: string): Entry => {
    const lookupResult = lookup(name)
    const entry: Entry = {
      answer: lookupResult.then(({ addresses }) => addresses),
      untilMs: Number.POSITIVE_INFINITY,
    }
    const until = (ms: number): void => {
      entry.untilMs = clock() + ms
    }
    lookupResult.then(
      ({ ttlSeconds }) => until(Math.min(Math.max(ttlSeconds * 1_000, minMs), maxMs)),
      (error) => until(isAbsent(error) ? absentMs : 0),
    )
    entry.answer.catch(() => undefined) // the caller handles the rejection
    entries.set(name, entry)
    return entry
  }
  return (name) => {
    const cached = entries.get(name)
    return cached !== undefined && clock() < cached.untilMs
      ? cached.answer.then((addressList) => addressList)
      : ask(name).answer
  }
}
