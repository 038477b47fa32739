import { promisify } from 'node:util'
import { constants, zstdCompress, zstdDecompress } from 'node:zlib'
import type pg from 'pg'
import type { ResultBody } from '../../domain/scrapers/calls.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { sha256 } from '../../kernel/digest.ts'
import type { ScrapeId } from '../../kernel/ids.ts'
import { createBatchLoader } from '../../platform/postgres/batch-loader.ts'

/** How long a result is available again, milliseconds. */
export const resultTtlMs = 24 * 60 * 60 * 1000

/** A body larger than this after compression is answered once and not stored. Bytes. */
export const maxStoredBytes = 10 * 1024 * 1024

/** Compressing a smaller body saves no page of the table. Bytes. */
const packedFromBytes = 1_024

/** A result with a body, stored by the process that fetched it for the process that ends the call. */
export type StoredResult = {
  readonly outcome: 'found' | 'empty'
  readonly body: ResultBody
  readonly cached: boolean
  readonly creditsCharged: number | null
}

export type Results = {
  /** Stores the bytes of an answer. @returns the description of the body for the event */
  store(
    scrapeId: ScrapeId,
    attempt: number,
    result: Omit<StoredResult, 'body'>,
    bytes: Buffer,
  ): Promise<ResultBody>
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
type StoredRow = StoredResult & {
  readonly scrapeId: ScrapeId
  readonly attempt: number
  readonly packing: Packed['packing']
  readonly storedBytes: Buffer
}

/**
 * Compressed bodies larger than this are inserted alone, because hundreds of them would make a statement of gigabytes.
 */
const sharedUpToBytes = 65_536

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
    await pool.query({
      name: isLogHere ? 'scrape-keep-unsynced' : 'scrape-keep',
      text: `${isLogHere ? `with now as materialized (select set_config('synchronous_commit', 'off', true))` : ''}
             insert into work.scrape_results
               (scrape_id, attempt, outcome, cached, credits_charged, hash, bytes, packing, body, expires_at)
             select stored.*, $10::timestamptz
               from unnest($1::text[], $2::integer[], $3::text[], $4::boolean[], $5::integer[], $6::text[],
                           $7::integer[], $8::text[], $9::bytea[]) stored ${isLogHere ? ', now' : ''}`,
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
        isoTime(clock() + resultTtlMs),
      ],
    })
  }
  /** Results that arrive during a statement share the next one. */
  const insertTogether = createBatchLoader<StoredRow, true>(async (rows) => {
    await insert(rows)
    return new Map()
  })

  return {
    store: async (scrapeId, attempt, { outcome, cached, creditsCharged }, bytes) => {
      const body = { hash: sha256(bytes).toString('hex'), bytes: bytes.length }
      const { packing, bytes: storedBytes } = await packed(bytes)
      if (storedBytes.length > maxStoredBytes) return body
      const row: StoredRow = {
        scrapeId,
        attempt,
        outcome,
        cached,
        creditsCharged,
        body,
        packing,
        storedBytes,
      }
      await (storedBytes.length > sharedUpToBytes ? insert([row]) : insertTogether(row))
      return body
    },

    of: async (scrapeId, attempt) => {
      const { rows } = await pool.query<{
        outcome: 'found' | 'empty'
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
      return { outcome, cached, creditsCharged, body: { hash, bytes } }
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
          values: [isoTime(clock())],
        })
        if ((rowCount ?? 0) < chunk) return
      }
    },
  }
}
