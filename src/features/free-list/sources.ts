import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type pg from 'pg'
import { z } from 'zod'
import { type FeedFormat, feedFormats } from '../../domain/free-list/endpoint.ts'
import { isoTime } from '../../kernel/clock.ts'
import { parseTarget, TargetRefused } from '../../platform/outgoing/target.ts'
import { StartRefused } from '../../platform/postgres/errors.ts'

/** A list of candidates that is read repeatedly. */
export type Source = {
  readonly id: string
  readonly from: { readonly url: string } | { readonly file: string }
  readonly format: FeedFormat
  readonly everyMinutes: number
}

const maxSources = 1_000

/** Prefix of the ids of the sandbox's feeds. */
export const sandboxPrefix = 'sandbox-'

export const isOfSandbox = (id: string): boolean => id.startsWith(sandboxPrefix)

const isPublicHttps = (text: string): boolean => {
  try {
    parseTarget(text, { allowLoopback: false })
    return true
  } catch (error) {
    if (error instanceof TargetRefused) return false
    throw error
  }
}

const Entry = z
  .strictObject({
    id: z
      .string()
      .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, 'an id of 1 to 64 of a-z 0-9 . _ -')
      .refine((id) => !isOfSandbox(id), `an id that does not begin with ${sandboxPrefix}`),
    url: z.string().refine(isPublicHttps, 'an https address of a public host').optional(),
    file: z.string().min(1, 'the path of a file').optional(),
    format: z.enum(feedFormats, `one of ${feedFormats.join(', ')}`).default('text'),
    every_minutes: z.int('whole minutes from 1 to 10080').min(1).max(10_080).default(60),
  })
  .refine(({ url, file }) => (url === undefined) !== (file === undefined), 'either url or file')

const File = z.strictObject({
  sources: z
    .array(Entry)
    .max(maxSources, `at most ${maxSources} sources`)
    .refine((all) => new Set(all.map(({ id }) => id)).size === all.length, 'ids that differ'),
})

/** Invalid feeds in the configuration file. The message names each place. */
export class SourcesRefused extends Error {
  override readonly name = 'SourcesRefused'
}

/**
 * The feeds of a configuration file: `{"sources": [{"id", "url" or "file", "format", "every_minutes"}]}`.
 * @throws SourcesRefused
 */
export const parseSources = (text: string): readonly Source[] => {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new SourcesRefused(`it is not JSON: ${(error as Error).message}`)
  }
  const parsed = File.safeParse(value)
  if (!parsed.success)
    throw new SourcesRefused(
      parsed.error.issues
        .map(({ path, message }) => `${path.join('.') || 'the file'}: ${message}`)
        .join('; '),
    )
  return parsed.data.sources.map(({ id, url, file, format, every_minutes }) => ({
    id,
    from: url === undefined ? { file: file ?? '' } : { url },
    format,
    everyMinutes: every_minutes,
  }))
}

/**
 * The feeds of FAREBOX_FREELIST_SOURCES. File paths in it are relative to its folder.
 * @throws StartRefused when it cannot be read or is invalid
 */
export const readSources = async (path: string | null): Promise<readonly Source[]> => {
  if (path === null) return []
  try {
    return parseSources(await readFile(path, 'utf8')).map((source) =>
      'file' in source.from
        ? { ...source, from: { file: resolve(dirname(path), source.from.file) } }
        : source,
    )
  } catch (error) {
    const reason =
      error instanceof SourcesRefused || (error as NodeJS.ErrnoException).code
        ? (error as Error).message
        : null
    if (reason === null) throw error
    throw new StartRefused(`FAREBOX_FREELIST_SOURCES: ${path}: ${reason}`, { cause: error })
  }
}

/** The feeds of a sandbox at this address. */
export const sandboxSources = (baseUrl: string): readonly Source[] =>
  (['text', 'json'] as const).map((format) => ({
    id: `${sandboxPrefix}${format}`,
    from: { url: `${baseUrl}/_sandbox/freelist/proxies.${format === 'text' ? 'txt' : 'json'}` },
    format,
    everyMinutes: 1,
  }))

/** State of a feed after its last reads. */
export type SourceState = {
  readonly sourceId: string
  readonly etag: string | null
  readonly lastModified: string | null
  readonly nextAt: string
  readonly readAt: string
  readonly outcome: 'read' | 'unchanged' | 'failed'
  readonly problem: string | null
  /** Consecutive failures. */
  readonly failures: number
  /** Counts of the last complete read: allowed candidates, refused candidates, and unreadable entries. */
  readonly candidates: number
  readonly refused: number
  readonly unreadable: number
  /** Endpoints that were new when read from this feed, in total. */
  readonly added: number
}

export type SourceStore = {
  read(): Promise<ReadonlyMap<string, SourceState>>
  save(
    state: Omit<SourceState, 'nextAt' | 'readAt'> & { readonly nextMs: number; readonly readMs: number },
  ): Promise<void>
}

export const createSourceStore = (pool: pg.Pool): SourceStore => ({
  read: async () => {
    const { rows } = await pool.query<SourceState>(
      `select source_id as "sourceId", etag, last_modified as "lastModified", next_at as "nextAt", read_at as "readAt",
              outcome, problem, failures, candidates, refused, unreadable, added
         from work.proxy_sources`,
    )
    return new Map(rows.map((row) => [row.sourceId, row]))
  },
  save: async (state) => {
    await pool.query(
      `insert into work.proxy_sources
         (source_id, etag, last_modified, next_at, read_at, outcome, problem, failures, candidates, refused, unreadable, added)
       values ($1::text, $2::text, $3::text, $4::timestamptz, $5::timestamptz, $6::text, $7::text, $8::int, $9::int, $10::int,
               $11::int, $12::bigint)
       on conflict (source_id) do update
         set etag = excluded.etag, last_modified = excluded.last_modified, next_at = excluded.next_at,
             read_at = excluded.read_at, outcome = excluded.outcome, problem = excluded.problem,
             failures = excluded.failures, candidates = excluded.candidates, refused = excluded.refused,
             unreadable = excluded.unreadable, added = excluded.added`,
      [
        state.sourceId,
        state.etag,
        state.lastModified,
        isoTime(state.nextMs),
        isoTime(state.readMs),
        state.outcome,
        state.problem,
        state.failures,
        state.candidates,
        state.refused,
        state.unreadable,
        state.added,
      ],
    )
  },
})
