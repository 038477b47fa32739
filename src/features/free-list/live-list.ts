import type { Logger } from 'pino'
import { type Endpoint, type SocketAddress, socketAddressText } from '../../domain/free-list/endpoint.ts'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import { etagOf } from '../../platform/http/answer.ts'
import type { PrebuiltAnswer } from '../../platform/http/route.ts'
import type { VersionedAddress } from './endpoint-reads.ts'
import type { IpData } from './ip-data.ts'
import {
  compareByRank,
  entryOf,
  type Filter,
  type ListEntry,
  type ListQuery,
  matchesFilter,
  nameOf,
} from './list-entry.ts'

/** A page of the filtered list. */
export type Page = {
  /** The time of the newest check in the whole list; null while the list is empty. */
  readonly updatedAt: string | null
  /** The size of the filtered list. */
  readonly total: number
  readonly entries: readonly ListEntry[]
}

/** The list at one time, with its cached answers. */
export type Snapshot = {
  /** In list order. */
  readonly entries: readonly ListEntry[]
  /** Whether a proxy of the list has this listening or exit address. */
  has(ip: string): boolean
  page(filter: Filter, limit: number): Page
  answer(query: ListQuery): PrebuiltAnswer
}

/** Cached answers of a snapshot. Ordinary use needs fewer filters than this. */
const maxCachedAnswers = 500

/** JSON with ASCII characters only, so that each is one byte. */
const asciiJson = (value: unknown): string =>
  JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

const newest = (entries: readonly ListEntry[]): string | null =>
  entries.reduce<string | null>(
    (latest, { last_checked }) =>
      last_checked !== null && (latest === null || last_checked > latest) ? last_checked : latest,
    null,
  )

/**
 * @param entries in list order
 * @param exits their exit addresses
 * @param note what all entries lack, or null
 */
export const snapshotOf = (
  entries: readonly ListEntry[],
  exits: ReadonlySet<string>,
  note: string | null,
): Snapshot => {
  const updatedAt = newest(entries)
  const addresses = new Set(entries.map(({ ip }) => ip))
  const texts = new Map<ListEntry, string>()
  const answers = new Map<string, PrebuiltAnswer>()

  const page = (filter: Filter, limit: number): Page => {
    const matching = entries.filter((entry) => matchesFilter(entry, filter))
    return { updatedAt, total: matching.length, entries: matching.slice(0, limit) }
  }

  const textOf = (entry: ListEntry): string => {
    const text = texts.get(entry) ?? asciiJson(entry)
    texts.set(entry, text)
    return text
  }

  const jsonOf = ({ total, entries: pageEntries }: Page): string => {
    const head = asciiJson({ updated_at: updatedAt, total, count: pageEntries.length, note })
    return `${head.slice(0, -1)},"proxies":[${pageEntries.map(textOf).join(',')}]}\n`
  }

  const make = (query: ListQuery): PrebuiltAnswer => {
    const found = page(query, query.limit)
    const lines = query.format === 'txt'
    const text = lines
      ? found.entries.map((entry) => `${socketAddressText(entry)}\n`).join('')
      : jsonOf(found)
    return { mediaType: lines ? 'text/plain' : 'application/json', text, etag: etagOf(text) }
  }

  return {
    entries,
    has: (ip) => addresses.has(ip) || exits.has(ip),
    page,
    answer: (query) => {
      const name = nameOf(query)
      const before = answers.get(name)
      if (before !== undefined) return before
      const buildSnapshot = make(query)
      if (answers.size < maxCachedAnswers) answers.set(name, buildSnapshot)
      return buildSnapshot
    },
  }
}

/** A snapshot older than this is read again while it is served, milliseconds. */
const refreshAfterMs = 1_000
/** A snapshot older than this is not served. Callers wait for the next one. Milliseconds. */
const maxAgeMs = 3_000
/** All rows are read again after this time, because the 24 hours of an uptime pass even if a row does not change. */
const fullReadEveryMs = 60_000
/** The process yields to other work after this many lookups. */
const lookUpsPerPause = 500

export type LiveList = {
  /** The list, at most three seconds old. Rejects when the table cannot be read. */
  current(): Promise<Snapshot>
  /** The same if it is available at once, else null. */
  latest(): Snapshot | null
}

/** Reads of the stored endpoints. */
export type LiveReader = {
  /** All endpoints that answered their last check, with the marks of their row versions. */
  versions(): Promise<readonly VersionedAddress[]>
  /** The given endpoints. Their uptimes cover the 24 hours before `nowMs`. */
  endpoints(socketAddresses: readonly SocketAddress[], nowMs: number): Promise<readonly Endpoint[]>
}

type Row = { readonly mark: string; readonly entry: ListEntry; readonly exitIp: string | null }

const pause = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/**
 * The proxies that answered their last check, in memory. A read happens only on a request when the last one is old, and
 * covers only changed rows. Without requests nothing is read.
 */
export const createLiveList = (dependencies: {
  readonly reader: LiveReader
  readonly data: IpData
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly logger: Logger
}): LiveList => {
  const { reader, data, clock, monotonicMs, logger } = dependencies
  let rows: ReadonlyMap<string, Row> = new Map()
  let cachedSnapshot: { readonly snapshot: Snapshot; readonly readMs: number } | null = null
  let lastFullReadMs = Number.NEGATIVE_INFINITY
  let reading: Promise<Snapshot> | null = null

  /** The rows of `versionedAddresses`; unchanged ones are taken from `previousRows`. */
  const readRows = async (
    versionedAddresses: readonly VersionedAddress[],
    previousRows: ReadonlyMap<string, Row>,
  ): Promise<ReadonlyMap<string, Row>> => {
    const next = new Map<string, Row>()
    const changed = new Map<string, VersionedAddress>()
    for (const versionedAddress of versionedAddresses) {
      const key = socketAddressText(versionedAddress)
      const row = previousRows.get(key)
      if (row?.mark === versionedAddress.mark) next.set(key, row)
      else changed.set(key, versionedAddress)
    }
    const endpoints = changed.size === 0 ? [] : await reader.endpoints([...changed.values()], clock())
    for (const [at, endpoint] of endpoints.entries()) {
      if (at % lookUpsPerPause === lookUpsPerPause - 1) await pause()
      const key = socketAddressText(endpoint)
      // It stopped answering after the marks were read.
      if (endpoint.state !== 'live') continue
      const entry = entryOf(endpoint, await data.of(endpoint.ip))
      next.set(key, { mark: changed.get(key)!.mark, entry, exitIp: endpoint.exitIp })
    }
    return next
  }

  const isSame = (next: ReadonlyMap<string, Row>): boolean =>
    next.size === rows.size && [...next].every(([key, row]) => rows.get(key) === row)

  const read = async (): Promise<Snapshot> => {
    const readMs = monotonicMs()
    const isFullRead = readMs - lastFullReadMs >= fullReadEveryMs
    const next = await readRows(await reader.versions(), isFullRead ? new Map() : rows)
    if (isFullRead) lastFullReadMs = readMs
    const snapshot =
      cachedSnapshot !== null && isSame(next) ? cachedSnapshot.snapshot : buildSnapshot([...next.values()])
    rows = next
    cachedSnapshot = { snapshot, readMs }
    return snapshot
  }

  const buildSnapshot = (all: readonly Row[]): Snapshot =>
    snapshotOf(
      all.map(({ entry }) => entry).sort(compareByRank),
      new Set(all.flatMap(({ exitIp }) => exitIp ?? [])),
      data.note,
    )

  const refresh = (): Promise<Snapshot> => {
    reading ??= read().finally(() => {
      reading = null
    })
    return reading
  }

  const latest = (): Snapshot | null => {
    const ageMs = cachedSnapshot === null ? Number.POSITIVE_INFINITY : monotonicMs() - cachedSnapshot.readMs
    if (cachedSnapshot === null || ageMs > maxAgeMs) return null
    if (ageMs > refreshAfterMs && reading === null)
      refresh().catch((err) => logger.error({ err }, 'the live free proxies could not be read'))
    return cachedSnapshot.snapshot
  }

  return { latest, current: async () => latest() ?? refresh() }
}
