import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import { socketAddressText } from '../../domain/free-list/endpoint.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { pageShape } from '../../platform/http/query.ts'
import {
  type AnnouncedNetwork,
  entryExample,
  type IpData,
  type IpFacts,
  ListEntry,
  type LiveList,
  type Snapshot,
} from '../free-list/index.ts'
import type { CensusReader } from './census.ts'
import type { RecordOfRanges, UnresponsiveRow } from './network-reads.ts'

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
const compareByLiveProxies = (a: Rank, b: Rank): number =>
  b.live - a.live || b.not_answering - a.not_answering || b.never_answered - a.never_answered || a.asn - b.asn

export const createNetworks = (dependencies: {
  readonly list: LiveList
  readonly census: CensusReader
  readonly data: IpData
  readonly readRanges: (ranges: AnnouncedNetwork['ranges'], limit: number) => Promise<RecordOfRanges>
  readonly monotonicMs: MonotonicClock
}): Networks => {
  const { list, census, data, readRanges, monotonicMs } = dependencies
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

const count = (description: string) => z.int().meta({ description })

const Network = z
  .object({
    asn: z.int(),
    name: z.string(),
    country_code: z.string().nullable().meta({
      description:
        "The country with most of the network's endpoints, as an alpha-2 code in lower case. Null: unknown.",
    }),
    live: count('The number of proxies that answered their last check.'),
    not_answering: count('The number of endpoints that answered before but not in their last check.'),
    never_answered: count('The number of addresses that never answered a check.'),
  })
  .meta({ id: 'FreeNetwork' })

export type Network = z.output<typeof Network>

export const NetworkPage = z
  .object({
    networks: z.array(Network),
    ...pageShape,
    counted_at: z.string().meta({
      format: 'date-time',
      description: 'The time when the endpoints without an answer were counted.',
    }),
    note: z.string().nullable().meta({
      description: 'The data that is missing because the service does not have it. Null: no data is missing.',
    }),
  })
  .meta({ id: 'FreeNetworks' })

const date = z.string().meta({ format: 'date' })

export const NetworkRecord = z
  .object({
    asn: z.int(),
    name: z.string(),
    counts: z.object({
      live: count('The number of proxies that answered their last check.'),
      not_answering: count('The number of endpoints that answered before but not in their last check.'),
      retesting: count(
        'The number of endpoints with repeated checks. No endpoint is ever removed, so this is the number of all endpoints.',
      ),
      never_answered: count('The number of addresses that never answered a check.'),
    }),
    live: z.array(ListEntry),
    not_answering: z.array(
      z.object({
        endpoint: z.string(),
        location: z.string().nullable(),
        last_answered: date,
        answered: z
          .string()
          .meta({ description: 'The number of successful checks and of all checks, as a text for people.' }),
        successes: z.int(),
        checks: z.int(),
      }),
    ),
    never_answered: z.array(z.object({ address: z.string(), tests: z.int(), last_tested: date })),
    note: z
      .string()
      .nullable()
      .meta({ description: 'A message when no proxy of the network is live. Null: live proxies exist.' }),
  })
  .meta({ id: 'FreeNetworkRecord' })

export type NetworkRecord = z.output<typeof NetworkRecord>

const example: Network = {
  asn: 7922,
  name: 'Comcast Cable Communications, LLC',
  country_code: 'us',
  live: 12,
  not_answering: 340,
  never_answered: 1204,
}

export const pageExample = {
  networks: [example],
  total: 1,
  limit: 50,
  offset: 0,
  counted_at: '2026-11-21T02:31:00.000Z',
  note: null,
}

export const recordExample: NetworkRecord = {
  asn: example.asn,
  name: example.name,
  counts: { live: 1, not_answering: 340, retesting: 340, never_answered: 1204 },
  live: [entryExample],
  not_answering: [
    {
      endpoint: '203.0.113.4:8080',
      location: 'Dallas, US',
      last_answered: '2026-11-20',
      answered: '412 / 530',
      successes: 412,
      checks: 530,
    },
  ],
  never_answered: [{ address: '203.0.113.5:3128', tests: 18, last_tested: '2026-11-20' }],
  note: null,
}
