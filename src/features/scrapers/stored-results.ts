import { promisify } from 'node:util'
import { constants, zstdCompress, zstdDecompress } from 'node:zlib'
import type pg from 'pg'
import type { ResultBody } from '../../domain/scrapers/calls.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { sha256 } from '../../kernel/digest.ts'
import type { ScrapeId } from '../../kernel/ids.ts'
import { createBatchLoader } from '../../platform/postgres/batch-loader.ts'
import type { CacheDays } from './provider-port.ts'

const dayMs = 24 * 60 * 60 * 1000

/** How long a result is available again, milliseconds; longer if its call accepted older answers. */
export const resultTtlMs = dayMs

/** A body larger than this after compression is answered once and not stored. Bytes. */
export const maxStoredBytes = 10 * 1024 * 1024

/** Compressing a smaller body saves no page of the table. Bytes. */
const packedFromBytes = 1_024

/** A result, stored by the process that fetched it for the process that ends the call. */
export type StoredResult = {
  readonly outcome: 'found' | 'empty' | 'target_not_found'
  /** Null for `target_not_found`. */
  readonly body: ResultBody | null
  readonly cached: boolean
  readonly creditsCharged: number | null
}

/** Which calls may use an answer again, and how old it may be. */
export type CacheUse = {
  /** The same for equal inputs of a scraper and an account; null: the answer is not used again. */
  readonly key: string | null
  /** The age that the call accepts; null: it accepts no earlier answer. */
  readonly maxAgeDays: CacheDays | null
}

/** An earlier answer; `bytes` is null for `target_not_found`. */
export type CachedAnswer = { readonly outcome: StoredResult['outcome']; readonly bytes: Buffer | null }

export type Results = {
  /** Stores an answer, with its bytes if it has some. @returns the description of the body for the event */
  store(
    scrapeId: ScrapeId,
    attempt: number,
    result: Omit<StoredResult, 'body'>,
    bytes: Buffer | null,
    cache: CacheUse,
  ): Promise<ResultBody | null>
  /** The newest fetched answer with this key that is at most this old at a time; null if there is none. */
  cached(key: string, maxAgeDays: CacheDays, atMs: number): Promise<CachedAnswer | null>
  /** The keys with such an answer. */
  cachedKeys(keys: readonly string[], maxAgeDays: CacheDays, atMs: number): Promise<ReadonlySet<string>>
  /** The available result of an attempt, finished or not; null if there is none. */
  of(scrapeId: ScrapeId, attempt: number): Promise<StoredResult | null>
  /** The bytes of an answer; null once they expired. */
  bytes(scrapeId: ScrapeId, attempt: number): Promise<Buffer | null>
  /** Erases expired results. */
  forget(): Promise<void>
}

const pack = promisify(zstdCompress)
const unpack = promisify(zstdDecompress)
const packing = { params: { [constants.ZSTD_c_compressionLevel]: 3 } }

type Packed = { readonly packing: 'none' | 'zstd'; readonly bytes: Buffer }

const packed = async (bytes: Buffer): Promise<Packed> =>
  bytes.length < packedFromBytes
    ? { packing: 'none', bytes }
    : { packing: 'zstd', bytes: await pack(bytes, packing) }

/** A row to insert. */
type StoredRow = Omit<StoredResult, 'body'> & {
  readonly scrapeId: ScrapeId
  readonly attempt: number
  readonly body: ResultBody
  readonly packing: Packed['packing']
  readonly storedBytes: Buffer
  readonly cacheKey: string | null
  readonly ttlMs: number
}

/**
 * Compressed bodies larger than this are inserted alone, because hundreds of them would make a statement of gigabytes.
 */
const sharedUpToBytes = 65_536

const noBytes = Buffer.alloc(0)
const hasBody = (outcome: StoredResult['outcome']): boolean => outcome !== 'target_not_found'

/**
 * Expired results stay for this time, so that a batch still finds the answers that it counted on when it was accepted.
 * Milliseconds.
 */
const erasureDelayMs = 60 * 60 * 1000

/** Rows of one statement, few enough not to block others for long. */
const chunk = 500

/**
 * Stores answers for a day.
 * @param isLogHere The log is in this database: its next append, which ends the call, flushes the result to disk too.
 * So storing the result does not wait for the disk
 */
export const createResults = (dependencies: {
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly isLogHere: boolean
}): Results => {
  const { pool, clock, isLogHere } = dependencies

  const insert = async (rows: readonly StoredRow[]): Promise<void> => {
    const column = <Value>(pick: (row: StoredRow) => Value): readonly Value[] => rows.map(pick)
    const nowMs = clock()
    await pool.query({
      name: isLogHere ? 'scrape-keep-unsynced' : 'scrape-keep',
      text: `${isLogHere ? `with now as materialized (select set_config('synchronous_commit', 'off', true))` : ''}
             insert into work.scrape_results
               (scrape_id, attempt, outcome, cached, credits_charged, hash, bytes, packing, body, cache_key, expires_at,
                fetched_at)
             select stored.*, $12::timestamptz
               from unnest($1::text[], $2::integer[], $3::text[], $4::boolean[], $5::integer[], $6::text[],
                           $7::integer[], $8::text[], $9::bytea[], $10::text[], $11::timestamptz[])
                    stored ${isLogHere ? ', now' : ''}`,
      values: [
        column(({ scrapeId }) => scrapeId),
        column(({ attempt }) => attempt),
        column(({ outcome }) => outcome),
        column(({ cached }) => cached),
        column(({ creditsCharged }) => creditsCharged),
        column(({ body }) => body.hash),
        column(({ body }) => body.bytes),
        column(({ packing }) => packing),
        column(({ storedBytes }) => storedBytes),
        column(({ cacheKey }) => cacheKey),
        column(({ ttlMs }) => isoTime(nowMs + ttlMs)),
        isoTime(nowMs),
      ],
    })
  }
  /** Results that arrive during a statement share the next one. */
  const insertTogether = createBatchLoader<StoredRow, true>(async (rows) => {
    await insert(rows)
    return new Map()
  })

  return {
    store: async (scrapeId, attempt, { outcome, cached, creditsCharged }, bytes, { key, maxAgeDays }) => {
      const content = bytes ?? noBytes
      const body = { hash: sha256(content).toString('hex'), bytes: content.length }
      const { packing, bytes: storedBytes } = await packed(content)
      if (storedBytes.length <= maxStoredBytes) {
        const row: StoredRow = {
          scrapeId,
          attempt,
          outcome,
          cached,
          creditsCharged,
          body,
          packing,
          storedBytes,
          // An answer that was used again keeps its age, so it is not the source of another one.
          cacheKey: cached ? null : key,
          ttlMs: cached ? resultTtlMs : (maxAgeDays ?? 1) * dayMs,
        }
        await (storedBytes.length > sharedUpToBytes ? insert([row]) : insertTogether(row))
      }
      return bytes === null ? null : body
    },

    cached: async (key, maxAgeDays, atMs) => {
      const { rows } = await pool.query<{
        outcome: StoredResult['outcome']
        packing: Packed['packing']
        body: Buffer
      }>({
        name: 'scrape-cached',
        text: `select outcome, packing, body from work.scrape_results
                where cache_key = $1::text and fetched_at > $2::timestamptz and expires_at > $3::timestamptz
                order by fetched_at desc limit 1`,
        values: [key, isoTime(atMs - maxAgeDays * dayMs), isoTime(atMs)],
      })
      const [row] = rows
      if (!row) return null
      const { outcome } = row
      if (!hasBody(outcome)) return { outcome, bytes: null }
      return { outcome, bytes: row.packing === 'none' ? row.body : await unpack(row.body) }
    },

    cachedKeys: async (keys, maxAgeDays, atMs) => {
      const { rows } = await pool.query<{ cache_key: string }>({
        name: 'scrape-cached-keys',
        text: `select distinct cache_key from work.scrape_results
                where cache_key = any ($1::text[]) and fetched_at > $2::timestamptz and expires_at > $3::timestamptz`,
        values: [keys, isoTime(atMs - maxAgeDays * dayMs), isoTime(atMs)],
      })
      return new Set(rows.map(({ cache_key: key }) => key))
    },

    of: async (scrapeId, attempt) => {
      const { rows } = await pool.query<{
        outcome: StoredResult['outcome']
        cached: boolean
        credits_charged: number | null
        hash: string
        bytes: number
      }>({
        name: 'scrape-result',
        text: `select outcome, cached, credits_charged, hash, bytes from work.scrape_results
                where scrape_id = $1::text and attempt = $2::integer and expires_at > $3::timestamptz`,
        values: [scrapeId, attempt, isoTime(clock())],
      })
      const [row] = rows
      if (!row) return null
      const { outcome, cached, credits_charged: creditsCharged, hash, bytes } = row
      return { outcome, cached, creditsCharged, body: hasBody(outcome) ? { hash, bytes } : null }
    },

    bytes: async (scrapeId, attempt) => {
      const { rows } = await pool.query<{ packing: 'none' | 'zstd'; body: Buffer }>({
        name: 'scrape-result-bytes',
        text: `select packing, body from work.scrape_results
                where scrape_id = $1::text and attempt = $2::integer and expires_at > $3::timestamptz`,
        values: [scrapeId, attempt, isoTime(clock())],
      })
      const [row] = rows
      if (!row) return null
      return row.packing === 'none' ? row.body : unpack(row.body)
    },

    forget: async () => {
      for (;;) {
        const { rowCount } = await pool.query({
          name: 'scrape-results-forget',
          text: `delete from work.scrape_results where (scrape_id, attempt) in (
                   select scrape_id, attempt from work.scrape_results where expires_at <= $1::timestamptz
                    order by expires_at limit ${chunk} for update skip locked)`,
          values: [isoTime(clock() - erasureDelayMs)],
        })
        if ((rowCount ?? 0) < chunk) return
      }
    },
  }
}
