import { Resolver } from 'node:dns/promises'
import { LRUCache } from 'lru-cache'
import type { MonotonicClock } from '../../kernel/clock.ts'

/**
 * The addresses of a name, both families. Rejects with an error whose `code` says whether the name does not exist
 * (`ENOTFOUND`, `ENODATA`) or nobody answered in time.
 */
export type Resolve = (name: string) => Promise<readonly string[]>

type Found = { readonly addresses: readonly string[]; readonly ttlSeconds: number }
export type Lookup = (name: string) => Promise<Found>

const maxNames = 10_000
const minMs = 5_000
const maxMs = 300_000
/** A name that does not exist is asked for again only after this. */
const absentMs = 5_000
const timeoutMs = 2_000
const tries = 2

const localhost: Found = { addresses: ['127.0.0.1', '::1'], ttlSeconds: maxMs / 1_000 }

/** Asks DNS itself: `getaddrinfo` would hold one of four threads of the process for as long as a name server likes. */
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
 * Remembers what names resolve to, for their time to live within 5 seconds and 5 minutes, and for 5 seconds that a name does
 * not exist. At most 10,000 names; one that is being asked for is asked once.
 */
export const cachedResolve = (lookup: Lookup, clock: MonotonicClock): Resolve => {
  type Entry = { readonly answer: Promise<readonly string[]>; untilMs: number }
  const entries = new LRUCache<string, Entry>({ max: maxNames })
  const ask = (name: string): Entry => {
    const asked = lookup(name)
    const entry: Entry = {
      answer: asked.then(({ addresses }) => addresses),
      untilMs: Number.POSITIVE_INFINITY,
    }
    const until = (ms: number): void => {
      entry.untilMs = clock() + ms
    }
    asked.then(
      ({ ttlSeconds }) => until(Math.min(Math.max(ttlSeconds * 1_000, minMs), maxMs)),
      (error) => until(isAbsent(error) ? absentMs : 0),
    )
    entry.answer.catch(() => undefined) // whoever asked is told
    entries.set(name, entry)
    return entry
  }
  return (name) => {
    const known = entries.get(name)
    return known !== undefined && clock() < known.untilMs ? known.answer.then((all) => all) : ask(name).answer
  }
}
