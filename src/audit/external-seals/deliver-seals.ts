import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { pluralize } from '../../kernel/formats.ts'
import { sealStream } from '../../kernel/streams.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import {
  type Store,
  StoreFailed,
  type StoreLocation,
  storeLocationText,
} from '../../platform/outgoing/object-store.ts'
import type { Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { recordName, recordsOf, recordText } from './seal-record.ts'

/** The target or the log has changed. A retry cannot succeed. The message contains the next step. */
export class DeliveryRefused extends Error {
  override readonly name = 'DeliveryRefused'
}

type DeliveryDependencies = {
  readonly log: EventLog
  readonly store: Store
  readonly cursor: DeliveryCursor
  /** The display name of the target. */
  readonly target: string
}

const conflictingSeal = (target: string, name: string): DeliveryRefused =>
  new DeliveryRefused(
    `${target} has another seal as ${name}: it is that of another log, or the log was set back or rewritten since. Run "ledger verify" with exported seals; if the log was restored on purpose, name a new place`,
  )

const lostSeal = (target: string, revision: number): DeliveryRefused =>
  new DeliveryRefused(
    `seal ${revision} was brought to ${target}, and the log does not have it: it was cut off, rewritten or set back. Run "ledger verify" with exported seals; if the log was restored on purpose, name a new place`,
  )

/**
 * Call before the first delivery of a process.
 * @throws StoreFailed
 * @throws DeliveryRefused when the target allows seals to be replaced
 */
export const assertKeepsFiles = async (store: Store, target: string): Promise<void> => {
  if (await store.keepsFiles()) return
  throw new DeliveryRefused(
    `${target} overwrites files: it ignores "If-None-Match: *", so the seals of another log could replace those of this one. Use a place that supports conditional writes`,
  )
}

const lastRevision = async (log: EventLog): Promise<number> => (await log.lastOf(sealStream))?.revision ?? -1

/** @throws DeliveryRefused when the log does not have the last delivered seal */
const assertLogHas = async (
  { log, target }: DeliveryDependencies,
  { revision, eventId }: Delivered,
): Promise<void> => {
  if (eventId === null) return
  for await (const { id } of log.readStream(sealStream, revision)) {
    if (id === eventId) return
    break
  }
  throw lostSeal(target, revision)
}

/**
 * Delivers every seal that a target does not have, in order. Each is delivered at least once, because the cursor moves
 * after the write to the target.
 * @returns the number of delivered seals
 * @throws StoreFailed when a retry may succeed
 * @throws DeliveryRefused
 */
export const deliverSeals = async (
  dependencies: DeliveryDependencies,
  signal?: AbortSignal,
): Promise<number> => {
  const { log, store, cursor, target } = dependencies
  const delivered = await cursor.read()
  await assertLogHas(dependencies, delivered)
  let count = 0
  if ((await lastRevision(log)) <= delivered.revision) {
    if (delivered.problem !== null) await cursor.recovered()
    return count
  }
  for await (const { record, eventId } of recordsOf(log, delivered.revision + 1)) {
    if (signal?.aborted) break
    const name = recordName(record.revision)
    if ((await store.put(name, recordText(record))) === 'other') throw conflictingSeal(target, name)
    await cursor.advance(record.revision, eventId)
    count += 1
  }
  return count
}

/** How far a target is behind the log. */
export type DeliveryLag = {
  readonly target: string
  /** The number of seals and key rotations that the target does not have. */
  readonly seals: number
  /** When the first of those was made; null when there is none. */
  readonly since: string | null
  readonly problem: Delivered['problem']
}

/** Reads the lag from Postgres and the log. Any process may deliver. */
export const readDeliveryLag = async (
  { pool, log, clock }: { readonly pool: pg.Pool; readonly log: EventLog; readonly clock: Clock },
  location: StoreLocation,
): Promise<DeliveryLag> => {
  const target = storeLocationText(location)
  const delivered = await createDeliveryCursor(pool, clock, { logId: await log.logId(), target }).read()
  const seals = Math.max(0, (await lastRevision(log)) - delivered.revision)
  let since: string | null = null
  if (seals > 0)
    for await (const { record } of recordsOf(log, delivered.revision + 1)) {
      const { event } = record
      since = event.type === 'LogSealed' ? event.data.sealedAt : event.data.rotatedAt
      break
    }
  return { target, seals, since, problem: delivered.problem }
}

/** E.g. `3 seals behind for 120 seconds: it answered 503`. */
export const lagText = ({ seals, since, problem }: DeliveryLag, nowMs: number): string => {
  const waitedSeconds = since === null ? 0 : Math.max(0, Math.round((nowMs - Date.parse(since)) / 1000))
  return `${pluralize(seals, 'seal')} behind for ${pluralize(waitedSeconds, 'second')}${problem === null ? '' : `: ${problem.text}`}`
}

export type Delivery = {
  /** Call when this process has made a seal. */
  wake(): void
  stop(): Promise<void>
}

const firstBackoffMs = 1_000
const maxBackoffMs = 300_000
/** The pause after a refusal, which an operator must resolve. Later attempts detect the resolution. Milliseconds. */
const refusedBackoffMs = 60_000

export const sealDelivery = worker({
  name: 'seal-delivery',
  about: 'Delivers seals to their external target',
  trigger: { everyMs: 5_000, or: 'a seal is made' },
  per: 'cluster',
  lock: { auditor: 'seal delivery' },
  session: 'farebox seal delivery',
  process: 'auditor',
})

/**
 * Delivers seals to a target while the process runs. One process of a cluster does it at a time. No other work waits
 * for the delivery: it only reads the log.
 */
export const startDelivery = (dependencies: {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly place: StoreLocation
  readonly store: Store
  readonly clock: Clock
  readonly logger: Logger
  /** The interval of checks for seals from other processes, milliseconds. */
  readonly pollMs?: number
  readonly firstBackoffMs?: number
}): Delivery => {
  const { scheduler, pool, log, store, clock, logger, pollMs = sealDelivery.trigger.everyMs } = dependencies
  const target = storeLocationText(dependencies.place)
  const minBackoffMs = dependencies.firstBackoffMs ?? firstBackoffMs
  let backoffMs = minBackoffMs
  let isFailing = false
  let isTargetChecked = false

  const deliverRound = async (cursor: DeliveryCursor, signal: AbortSignal): Promise<number> => {
    try {
      if (!isTargetChecked) await assertKeepsFiles(store, target)
      isTargetChecked = true
      const count = await deliverSeals({ log, store, cursor, target }, signal)
      if (count > 0) logger.info({ target, count }, 'brought seals to their target')
      if (isFailing) logger.info({ target }, 'seals reach their target again')
      isFailing = false
      backoffMs = minBackoffMs
      return pollMs
    } catch (error) {
      if (error instanceof StoreFailed || error instanceof DeliveryRefused) await cursor.fail(error.message)
      throw error
    }
  }

  const onError = (error: unknown): number => {
    isFailing = true
    if (error instanceof DeliveryRefused) {
      logger.fatal({ target, problem: error.message }, 'seals are not brought to their target any more')
      return refusedBackoffMs
    }
    const problem = (error as Error).message
    logger.warn({ target, problem }, 'a seal did not reach its target and is brought again')
    backoffMs = Math.min(2 * backoffMs, maxBackoffMs)
    return backoffMs / 2
  }

  const delivery = scheduler.lead(
    sealDelivery,
    async ({ signal, repeat }) => {
      const cursor = createDeliveryCursor(pool, clock, { logId: await log.logId(), target })
      await repeat(() => deliverRound(cursor, signal))
    },
    { onError },
  )
  return {
    wake: delivery.wake,
    stop: async () => {
      const stopped = delivery.stop()
      await store.close() // aborts a hanging request
      await stopped
    },
  }
}

/** The state of the delivery to a target. */
export type Delivered = {
  /** The revision of the last delivered seal; -1 before the first. */
  readonly revision: number
  readonly eventId: string | null
  /** The reason why the next delivery fails, and since when; null when nothing is wrong. */
  readonly problem: { readonly text: string; readonly since: string } | null
}

/** The delivery state of one log to one target. The revision only decreases through `forget`. */
export type DeliveryCursor = {
  read(): Promise<Delivered>
  /** Records that the target has the seal of this revision and all earlier ones. */
  advance(revision: number, eventId: string): Promise<void>
  fail(problem: string): Promise<void>
  /** Removes the problem. */
  recovered(): Promise<void>
  /** Resets the state: all seals are delivered again. */
  forget(): Promise<void>
}

export const createDeliveryCursor = (
  pool: pg.Pool,
  clock: Clock,
  { logId, target }: { readonly logId: string; readonly target: string },
): DeliveryCursor => ({
  async read() {
    const { rows } = await pool.query<{
      revision: number
      event_id: string | null
      problem: string | null
      failing_since: Date | string | null
    }>(
      'select revision, event_id, problem, failing_since from work.seal_delivery where log_id = $1 and target = $2',
      [logId, target],
    )
    const [row] = rows
    if (row === undefined) return { revision: -1, eventId: null, problem: null }
    const since = row.failing_since === null ? null : new Date(row.failing_since).toISOString()
    return {
      revision: Number(row.revision),
      eventId: row.event_id,
      problem: row.problem === null || since === null ? null : { text: row.problem, since },
    }
  },

  async advance(revision, eventId) {
    await pool.query(
      `insert into work.seal_delivery as d (log_id, target, revision, event_id, delivered_at)
       values ($1, $2, $3, $4, $5)
       on conflict (log_id, target) do update
         set revision = excluded.revision, event_id = excluded.event_id, delivered_at = excluded.delivered_at,
             problem = null, failing_since = null
         where d.revision < excluded.revision`,
      [logId, target, revision, eventId, isoTime(clock())],
    )
  },

  async fail(problem) {
    await pool.query(
      `insert into work.seal_delivery as d (log_id, target, revision, problem, failing_since)
       values ($1, $2, -1, $3, $4)
       on conflict (log_id, target) do update
         set problem = excluded.problem, failing_since = coalesce(d.failing_since, excluded.failing_since)`,
      [logId, target, problem.slice(0, 500), isoTime(clock())],
    )
  },

  async recovered() {
    await pool.query(
      'update work.seal_delivery set problem = null, failing_since = null where log_id = $1 and target = $2',
      [logId, target],
    )
  },

  async forget() {
    await pool.query('delete from work.seal_delivery where log_id = $1 and target = $2', [logId, target])
  },
})
