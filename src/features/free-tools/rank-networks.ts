import { LRUCache } from 'lru-cache'
import { socketAddressText } from '../../domain/free-list/endpoint.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { AnnouncedNetwork, IpData, IpFacts, ListEntry, LiveList, Snapshot } from '../free-list/index.ts'
import type { CensusReader } from './census.ts'
import type { RecordOfRanges, UnresponsiveRow } from './network-reads.ts'
import type { Network, NetworkRecord } from './network-record.ts'

/** Rows of each list. */
export const maxNetworkRows = 200
const largestAsn = 4_294_967_295

/** The number of `7922` or `AS7922`; null for anything else. */
export const asnOf = (text: string): number | null => {
  const asn = /^(?:as)?\d{1,10}$/i.test(text) ? Number(text.replace(/^as/i, '')) : 0
  return asn >= 1 && asn <= largestAsn ? asn : null
}

/** How long the data of a network is cached, milliseconds. */
const cacheMs = 3_000
const maxCachedNetworks = 200

export type Networks = {
  /**
   * Networks with stored endpoints, those with most live proxies first. Rejects with overloaded during the first count.
   */
  all(
    country: string | undefined,
  ): Promise<{ readonly networks: readonly Network[]; readonly countedAt: string }>
  /** Null: no network with this number is known. */
  one(asn: number): Promise<NetworkRecord | null>
}

const dateOf = (instant: string): string => new Date(instant).toISOString().slice(0, 10)

const locationOf = ({ city, countryCode }: IpFacts): string | null => {
  if (countryCode === null) return city
  return city === null ? countryCode.toUpperCase() : `${city}, ${countryCode.toUpperCase()}`
}

const noteOf = (asn: number, live: number, notAnswering: number): string | null => {
  if (live > 0) return null
  const noneLive = `AS${asn} has no live proxy now`
  if (notAnswering === 0) return noneLive
  return notAnswering === 1
    ? `${noneLive}; 1 endpoint that answered before is checked again and again, and listed as soon as it answers`
    : `${noneLive}; ${notAnswering} endpoints that answered before are checked again and again, and listed as soon as they answer`
}

/** The fields that the sort order uses. */
export type Rank = Pick<Network, 'live' | 'not_answering' | 'never_answered' | 'asn'>

/** Networks with most live proxies first. */
export const compareByLiveProxies = (a: Rank, b: Rank): number =>
  b.live - a.live || b.not_answering - a.not_answering || b.never_answered - a.never_answered || a.asn - b.asn

export const createNetworks = (deps: {
  readonly list: LiveList
  readonly census: CensusReader
  readonly data: IpData
  readonly readRanges: (ranges: AnnouncedNetwork['ranges'], limit: number) => Promise<RecordOfRanges>
  readonly monotonicMs: MonotonicClock
}): Networks => {
  const { list, census, data, readRanges, monotonicMs } = deps
  const grouped = new WeakMap<Snapshot, ReadonlyMap<number | null, readonly ListEntry[]>>()
  const cachedRecords = new LRUCache<
    number,
    { readonly atMs: number; readonly read: Promise<RecordOfRanges> }
  >({
    max: maxCachedNetworks,
  })

  const liveOf = (snapshot: Snapshot): ReadonlyMap<number | null, readonly ListEntry[]> => {
    const before = grouped.get(snapshot)
    if (before !== undefined) return before
    const groups = Map.groupBy(snapshot.entries, ({ asn }) => asn)
    grouped.set(snapshot, groups)
    return groups
  }

  /** Concurrent callers share one read. */
  const recordOf = ({ asn, ranges }: AnnouncedNetwork): Promise<RecordOfRanges> => {
    const before = cachedRecords.get(asn)
    if (before !== undefined && monotonicMs() - before.atMs < cacheMs) return before.read
    const read = readRanges(ranges, maxNetworkRows)
    cachedRecords.set(asn, { atMs: monotonicMs(), read })
    read.catch(() => cachedRecords.delete(asn))
    return read
  }

  const unresponsiveRow = async (row: UnresponsiveRow) => ({
    endpoint: socketAddressText(row),
    location: locationOf(await data.of(row.ip)),
    last_answered: dateOf(row.last_answered ?? row.last_checked),
    answered: `${row.successes} / ${row.checks}`,
    successes: row.successes,
    checks: row.checks,
  })

  return {
    all: async (country) => {
      const [snapshot, { byAsn, countedAt }] = await Promise.all([list.current(), census.current()])
      const live = liveOf(snapshot)
      const networks = new Map<number, Network>(
        [...byAsn.values()].map(({ asn, name, country: country_code, notAnswering, neverAnswered }) => [
          asn,
          {
            asn,
            name,
            country_code,
            live: 0,
            not_answering: notAnswering,
            never_answered: neverAnswered,
          },
        ]),
      )
      for (const [asn, entries] of live) {
        const [first] = entries
        if (asn === null || first === undefined) continue
        const counted = networks.get(asn) ?? {
          asn,
          name: first.asn_org ?? `AS${asn}`,
          country_code: first.country_code,
          not_answering: 0,
          never_answered: 0,
        }
        networks.set(asn, { ...counted, live: entries.length })
      }
      return {
        countedAt,
        networks: [...networks.values()]
          .filter(
            (network) =>
              network.live + network.not_answering + network.never_answered > 0 &&
              (country === undefined || network.country_code === country),
          )
          .sort(compareByLiveProxies),
      }
    },
    one: async (asn) => {
      const network = await data.announced(asn)
      if (network === null) return null
      const [snapshot, { notAnswering, neverAnswered, quiet: unresponsive, never }] = await Promise.all([
        list.current(),
        recordOf(network),
      ])
      const live = liveOf(snapshot).get(asn) ?? []
      return {
        asn,
        name: network.org,
        counts: {
          live: live.length,
          not_answering: notAnswering,
          retesting: notAnswering,
          never_answered: neverAnswered,
        },
        live: live.slice(0, maxNetworkRows),
        not_answering: await Promise.all(unresponsive.map(unresponsiveRow)),
        never_answered: never.map((row) => ({
          address: socketAddressText(row),
          tests: row.checks,
          last_tested: dateOf(row.last_checked),
        })),
        note: noteOf(asn, live.length, notAnswering),
      }
    },
  }
}
