import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { type Clock, isoTime, type MonotonicClock } from '../../kernel/clock.ts'
import { refuseWithRetryAfter } from '../../platform/http/errors.ts'
import type { IpData } from '../free-list/index.ts'
import type { PageRow } from './network-reads.ts'

/** A network in the stored endpoints. Live endpoints are counted from the live list. */
export type CountedNetwork = {
  readonly asn: number
  readonly name: string
  /** Most frequent country of its first endpoints, alpha-2 in lower case; null: not known. */
  readonly country: string | null
  readonly notAnswering: number
  readonly neverAnswered: number
}

export type Census = {
  readonly countedAt: string
  readonly byAsn: ReadonlyMap<number, CountedNetwork>
}

export type CensusReader = {
  /**
   * The last census. One that is older than a minute is renewed in the background. Rejects with overloaded if the first
   * one takes long.
   */
  current(): Promise<Census>
  stop(): Promise<void>
}

const refreshAfterMs = 60_000
const pageRows = 2_000
/**
 * Pause after each page, milliseconds. A million endpoints take half a minute, and other work gets nine tenths of it.
 */
const pauseMs = 40
/** The longest wait for the first census, milliseconds. */
const maxWaitMs = 5_000
/** The number of endpoints that determine a network's country. */
const located = 20

type NetworkCounts = {
  name: string
  notAnswering: number
  neverAnswered: number
  readonly countries: (string | null)[]
}

const mostFrequent = (values: readonly (string | null)[]): string | null => {
  const counts = new Map<string, number>()
  for (const value of values) if (value !== null) counts.set(value, (counts.get(value) ?? 0) + 1)
  return [...counts].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1))[0]?.[0] ?? null
}

/** Counts the endpoints of each network on request, in pages over all stored endpoints. */
export const createCensusReader = (dependencies: {
  readonly readPage: (after: PageRow | null, rows: number) => Promise<readonly PageRow[]>
  readonly data: IpData
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly logger: Logger
}): CensusReader => {
  const { readPage, data, clock, monotonicMs, logger } = dependencies
  const stopping = new AbortController()
  let cached: { readonly census: Census; readonly takenMs: number } | null = null
  let pending: Promise<Census> | null = null

  const count = async (networks: Map<number, NetworkCounts>, { ip, state }: PageRow): Promise<void> => {
    if (state === 'untested') return
    const network = await data.networkOf(ip)
    if (network === null) return
    const counting = networks.get(network.asn) ?? {
      name: network.org,
      notAnswering: 0,
      neverAnswered: 0,
      countries: [],
    }
    networks.set(network.asn, counting)
    if (state === 'not_answering') counting.notAnswering += 1
    if (state === 'never_answered') counting.neverAnswered += 1
    if (counting.countries.length < located) counting.countries.push((await data.of(ip)).countryCode)
  }

  const takeCensus = async (): Promise<Census> => {
    const countedAt = isoTime(clock())
    const networks = new Map<number, NetworkCounts>()
    for (let after: PageRow | null = null; ; ) {
      const page = await readPage(after, pageRows)
      for (const row of page) await count(networks, row)
      after = page.at(-1) ?? null
      if (page.length < pageRows) break
      await sleep(pauseMs, undefined, { signal: stopping.signal })
    }
    const byAsn = new Map(
      [...networks].map(([asn, { countries, ...counts }]) => [
        asn,
        { asn, ...counts, country: mostFrequent(countries) },
      ]),
    )
    const census = { countedAt, byAsn }
    cached = { census, takenMs: monotonicMs() }
    return census
  }

  const renew = (): Promise<Census> => {
    pending ??= takeCensus().finally(() => {
      pending = null
    })
    return pending
  }

  const first = async (): Promise<Census> => {
    const timeoutAbort = new AbortController()
    const timeout = sleep(maxWaitMs, null, { signal: timeoutAbort.signal }).catch(() => null)
    try {
      const census = await Promise.race([renew(), timeout])
      if (census === null) throw refuseWithRetryAfter('overloaded', 'the networks are being counted', 10)
      return census
    } finally {
      timeoutAbort.abort()
    }
  }

  return {
    current: async () => {
      if (cached === null) return first()
      if (monotonicMs() - cached.takenMs > refreshAfterMs && pending === null)
        renew().catch((err) => {
          if (!stopping.signal.aborted) logger.error({ err }, 'the networks could not be counted')
        })
      return cached.census
    },
    stop: async () => {
      stopping.abort()
      await pending?.catch(() => undefined)
    },
  }
}
