import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { CommandOverload, isTemporary } from '../commands/command.ts'
import type { QueueLimits, QueueWork, Settled } from './queue.ts'
import { keyOf, type QueueItem, type QueueTable } from './queue-table.ts'
import type { RepeatedWorker } from './worker.ts'
import type { Recorder } from './worker-runs.ts'

/** The outcome of an item. The texts are stored in its `result`, so they must not contain secrets or personal data. */
export type Outcome =
  | { readonly kind: 'done'; readonly result: string }
  /** Tried again by the schedule, or after `afterMs` if that is later. */
  | { readonly kind: 'again'; readonly why: string; readonly afterMs?: number }
  /** No attempt was possible, e.g. while the log cannot be reached. It does not count as an attempt. */
  | { readonly kind: 'later'; readonly why: string; readonly afterMs: number }
  /** Not tried again. An operator may inspect it and retry it. */
  | { readonly kind: 'dead'; readonly why: string }

/** Milliseconds until the next attempt after the n-th one (from 1). */
export type Schedule = (attempt: number) => number

/** `firstMs`, doubling, at most `maxMs`. */
export const exponentialBackoff =
  (firstMs: number, maxMs: number): Schedule =>
  (attempt) =>
    Math.min(maxMs, firstMs * 2 ** Math.min(attempt - 1, 40))

/**
 * A queue whose handler returns the outcome of each item.
 *
 * @example A new queue: a table, its owner column, a schedule and a handler.
 * ```ts
 * // migrations.ts
 * export const migrations: Migrations = {
 *   '1500_scrapes': `
 *     create table work.scrapes (
 *       source_id text primary key, site text not null,
 *       status text not null default 'pending', due_at timestamptz not null, attempts integer not null default 0,
 *       finished_at timestamptz, result text
 *     );
 *     select work.add_queue('scrapes', 'work.scrapes', 'site');`,
 * }
 * // queue.ts; the list in src/app/queues.ts shows it to operators
 * export const scrapes: QueueTable =
 *   { name: 'scrapes', table: 'work.scrapes', key: ['source_id'], owner: 'site', longestWaitMs: 3_600_000, columns: [] }
 * // start.ts
 * export const scrapeWorker = worker({
 *   name: scrapes.name, about: 'Scrapes pages', trigger: { everyMs: 1_000 }, per: 'process', process: 'server',
 * })
 * workers.start<Scrape>({
 *   worker: scrapeWorker,
 *   queue: scrapes,
 *   atOnce: { total: 16, each: 1 },
 *   longestMs: 60_000,
 *   schedule: exponentialBackoff(1_000, 3_600_000),
 *   maxAttempts: 10,
 *   work: async ({ source_id }) => ({ kind: 'done', result: await scrape(source_id) }),
 * })
 * ```
 */
export type StandardQueue<Item extends QueueItem> = {
  /** The worker for operators, with the interval of the checks for due items. */
  readonly worker: RepeatedWorker
  readonly queue: QueueTable
  /** The most running items: `total` in this process, `each` of one owner over all processes. */
  readonly atOnce: { readonly total: number; readonly each: number }
  /** Longer than the work on one item takes, milliseconds. */
  readonly longestMs: number
  readonly schedule: Schedule
  /** After this many attempts an item is dead. Default: no limit. */
  readonly maxAttempts?: number
  /** Replaces the worker's interval, milliseconds. */
  readonly pollMs?: number | undefined
  readonly fill?: () => Promise<void>
  /** An error is logged, and the item is tried again. */
  readonly work: (item: Item) => Promise<Outcome>
}

type Ended =
  | Extract<Outcome, { readonly kind: 'done' | 'dead' }>
  | { readonly kind: 'again'; readonly why: string; readonly afterMs: number; readonly counts: boolean }

const perLease = 32
/** The end of an outage is unknown, so the pause is fixed, seconds. */
const laterS = 5
const maxResultChars = 200

/** Writes the outcomes of many items in one statement. An item that was tried in the meantime is not changed. */
const createSettle =
  <Item extends QueueItem>(pool: pg.Pool, { name, table, key }: QueueTable, clock: Clock) =>
  async (settled: readonly Settled<Item, Ended>[]): Promise<void> => {
    const of = <Value>(pick: (each: Settled<Item, Ended>) => Value): Value[] => settled.map(pick)
    const keys = key.map((column) => of(({ item }) => (item as unknown as Record<string, string>)[column]))
    const at = (n: number): string => `$${key.length + n}`
    const nowMs = clock()
    await pool.query({
      name: `${name}-settle`,
      text: `update ${table} d
                set status = r.status, attempts = r.attempts + r.counted, due_at = coalesce(r.due_at, d.due_at),
                    finished_at = case when r.status <> 'pending' then ${at(6)}::timestamptz end, result = r.result
               from unnest(${key.map((_, n) => `$${n + 1}::text[]`).join(', ')}, ${at(1)}::integer[], ${at(2)}::text[],
                      ${at(3)}::timestamptz[], ${at(4)}::text[], ${at(5)}::integer[])
                      as r (${key.join(', ')}, attempts, status, due_at, result, counted)
              where ${key.map((column) => `d.${column} = r.${column}`).join(' and ')}
                and d.status = 'pending' and d.attempts = r.attempts`,
      values: [
        ...keys,
        of(({ item }) => item.attempts),
        of(({ result: { kind } }) => (kind === 'again' ? 'pending' : kind)),
        of(({ result }) => (result.kind === 'again' ? isoTime(nowMs + result.afterMs) : null)),
        of(({ result }) => (result.kind === 'done' ? result.result : result.why).slice(0, maxResultChars)),
        of(({ result }) => (result.kind === 'again' && !result.counts ? 0 : 1)),
        isoTime(nowMs),
      ],
    })
  }

/** The outcome of an item after a temporary error (`isTemporary`). */
const laterAfter = (error: Error): Outcome => ({
  kind: 'later',
  why: error.message,
  afterMs: 1_000 * (error instanceof CommandOverload ? error.retryAfterS : laterS),
})

export const standardWork = <Item extends QueueItem>(
  dependencies: {
    readonly pool: pg.Pool
    readonly clock: Clock
    readonly logger: Logger
    readonly runs: Pick<Recorder, 'noted'>
  },
  options: StandardQueue<Item>,
): QueueWork<Item, Ended, null, null> => {
  const { pool, clock, logger, runs } = dependencies
  const { worker, queue, atOnce, schedule, maxAttempts = Number.POSITIVE_INFINITY, pollMs, work } = options
  const limits: QueueLimits = {
    active: atOnce.total,
    slow: 0,
    slowAfterMs: options.longestMs,
    perOwner: atOnce.each,
    perLease,
  }
  const tried = async (item: Item): Promise<Outcome> => {
    try {
      return await work(item)
    } catch (error) {
      if (isTemporary(error)) return laterAfter(error as Error)
      runs.noted(error)
      logger.error(
        { err: error, queue: queue.name, item: keyOf(queue, item) },
        'an item of a queue failed and is tried again',
      )
      return { kind: 'again', why: error instanceof Error ? error.message : String(error) }
    }
  }
  return {
    worker,
    queue,
    limits,
    longestMs: options.longestMs,
    pollMs,
    ...(options.fill && { fill: options.fill }),
    prepare: async () => () => null,
    work: async (item) => {
      const outcome = await tried(item)
      const attempt = item.attempts + 1
      if (outcome.kind === 'later') return { ...outcome, kind: 'again', counts: false }
      if (outcome.kind !== 'again') return outcome
      if (attempt >= maxAttempts) return { kind: 'dead', why: `given up: ${outcome.why}` }
      const afterMs = Math.max(schedule(attempt), outcome.afterMs ?? 0)
      return { kind: 'again', why: outcome.why, afterMs, counts: true }
    },
    settle: createSettle(pool, queue, clock),
    outcomeOf: ({ kind }) => kind,
  }
}
