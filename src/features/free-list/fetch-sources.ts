import { readFile, stat } from 'node:fs/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, hasElapsed } from '../../kernel/clock.ts'
import type { Send } from '../../platform/outgoing/send.ts'
import { faultKind } from '../../platform/outgoing/target.ts'
import { addCandidates, type CandidateRules, candidateRefusal } from './endpoint-store.ts'
import { parseFeed } from './parse-source.ts'
import { createSourceStore, type Source, type SourceState } from './sources.ts'

/** Detect an unchanged feed at the next read. */
export type Validators = { readonly etag: string | null; readonly lastModified: string | null }

export type Fetched =
  | { readonly kind: 'unchanged' }
  | { readonly kind: 'read'; readonly text: string; readonly validators: Validators }

/** The largest feed, 16 MiB. */
export const maxFeedBytes = 16_777_216

/** The feed could not be read. The message is the reason, without any text of its server. */
export class FeedFailed extends Error {
  override readonly name = 'FeedFailed'
}

const readFrom = async (path: string, stored: Validators): Promise<Fetched> => {
  const { size, mtimeMs } = await stat(path)
  if (size > maxFeedBytes) throw new FeedFailed(`the file has more than ${maxFeedBytes} bytes`)
  const etag = `${size}-${mtimeMs}`
  if (stored.etag === etag) return { kind: 'unchanged' }
  return { kind: 'read', text: await readFile(path, 'utf8'), validators: { etag, lastModified: null } }
}

const longestValidator = 400
const validator = (value: string | null): string | null =>
  value !== null && value.length <= longestValidator ? value : null

/**
 * Reads a feed unless it is unchanged: a conditional GET with `send`, which allows only public addresses, or the size
 * and modification time of a file.
 * @throws FeedFailed for an answer that is no feed, and errors of `send` and the file system
 */
export const fetchFeed = async ({ from }: Source, stored: Validators, send: Send): Promise<Fetched> => {
  if ('file' in from) return readFrom(from.file, stored)
  const { status, headers, text } = await send(from.url, {
    headers: {
      ...(stored.etag !== null && { 'if-none-match': stored.etag }),
      ...(stored.lastModified !== null && { 'if-modified-since': stored.lastModified }),
    },
  })
  if (status === 304) return { kind: 'unchanged' }
  if (status !== 200) throw new FeedFailed(`it answers with the status ${status}`)
  return {
    kind: 'read',
    text: await text(),
    validators: {
      etag: validator(headers.get('etag')),
      lastModified: validator(headers.get('last-modified')),
    },
  }
}

const minuteMs = 60_000
const longestPauseMs = 24 * 60 * minuteMs

const pauseOf = ({ everyMinutes }: Source, failures: number): number =>
  Math.min(longestPauseMs, everyMinutes * minuteMs * 2 ** Math.min(failures, 12))

/** The reason of a failure for operators: our text, or the kind of fault. */
const problemOf = (error: unknown): string => {
  if (error instanceof FeedFailed) return error.message
  if (error instanceof SyntaxError) return 'it is not JSON'
  return faultKind(error)
}

const initialState = {
  etag: null,
  lastModified: null,
  failures: 0,
  candidates: 0,
  refused: 0,
  unreadable: 0,
  added: 0,
}

export const countEndpoints = async (pool: pg.Pool): Promise<number> => {
  const { rows } = await pool.query<{ count: number }>('select count(*) as count from work.free_proxies')
  return rows[0]?.count ?? 0
}

/**
 * Reads due feeds one after another and stores their candidates. After a failure the pause doubles, up to a day.
 * @param parts.sources called on each run, because the sandbox feeds exist only while it runs
 * @param parts.mostEndpoints no endpoint is added beyond this number
 */
export const createFeeds = (parts: {
  readonly pool: pg.Pool
  readonly sources: () => Promise<readonly { readonly source: Source; readonly send: Send }[]>
  readonly rules: CandidateRules
  readonly mostEndpoints: number
  readonly clock: Clock
  readonly logger: Logger
}): { readDue(): Promise<void> } => {
  const { pool, rules, mostEndpoints, clock, logger } = parts
  const store = createSourceStore(pool)

  const readOne = async (source: Source, send: Send, before: SourceState | undefined): Promise<void> => {
    const { id: sourceId } = source
    const stored = { ...initialState, ...before, sourceId }
    const readMs = clock()
    const nextMs = readMs + pauseOf(source, 0)
    try {
      const fetched = await fetchFeed(source, stored, send)
      if (fetched.kind === 'unchanged')
        return await store.save({
          ...stored,
          outcome: 'unchanged',
          problem: null,
          failures: 0,
          readMs,
          nextMs,
        })
      const { candidates, unreadable, leftOut } = parseFeed(fetched.text, source.format)
      const legal = candidates.filter((candidate) => candidateRefusal(candidate, rules) === null)
      const capacity = Math.max(0, mostEndpoints - (await countEndpoints(pool)))
      const added = await addCandidates(pool, legal.slice(0, capacity), readMs)
      if (capacity < legal.length)
        logger.warn(
          { source: sourceId, mostEndpoints },
          'the record of free proxies is full: raise FAREBOX_FREELIST_ENDPOINTS to take in more',
        )
      await store.save({
        ...stored,
        ...fetched.validators,
        outcome: 'read',
        problem: null,
        failures: 0,
        candidates: legal.length,
        refused: candidates.length - legal.length + leftOut,
        unreadable,
        added: stored.added + added,
        readMs,
        nextMs,
      })
      logger.info({ source: sourceId, candidates: legal.length, added }, 'a feed of free proxies was read')
    } catch (error) {
      const failures = stored.failures + 1
      const problem = problemOf(error)
      logger.warn({ source: sourceId, problem, failures }, 'a feed of free proxies cannot be read')
      const later = readMs + pauseOf(source, failures)
      await store.save({ ...stored, outcome: 'failed', problem, failures, readMs, nextMs: later })
    }
  }

  return {
    readDue: async () => {
      const stored = await store.read()
      for (const { source, send } of await parts.sources()) {
        const before = stored.get(source.id)
        const nowMs = clock()
        // A feed whose last read is in the future was read with a wrong clock.
        const isDue =
          before === undefined ||
          hasElapsed(Date.parse(before.readAt), nowMs, Date.parse(before.nextAt) - Date.parse(before.readAt))
        if (isDue) await readOne(source, send, before)
      }
    },
  }
}
