import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { EventLog, StoredEvent } from '../eventstore/port.ts'
import type { Session } from '../postgres/postgres-session.ts'
import { inTransaction, transact } from '../postgres/transaction.ts'
import { type Checkpoint, readCheckpoint } from './checkpoint.ts'
import { definitionsOf, qualified } from './definition.ts'
import { UndecodableEvent } from './feed.ts'
import type { FoldWatch, PoisonEvent } from './fold-batch.ts'
import type { ReadModel, ReadModelGroup } from './read-model.ts'
import { createFolding } from './write-batch.ts'

/** The new checkpoint of the group of rebuilt tables. */
export type RebuiltCheckpoint = Pick<Checkpoint, 'position' | 'lastEvent'>

export type TableSwap = {
  readonly session: Session
  readonly signal: AbortSignal
  readonly group: string
  readonly models: readonly ReadModel[]
  /** The models are all models of the group. */
  readonly whole: boolean
  readonly schema: string
  readonly logId: string
  /** The live tables belong to another log, or to another history of this log. */
  readonly foreign: boolean
  /**
   * Called under the locks with the current checkpoint. It brings the new tables to the position of the group and
   * returns that checkpoint, or null if they are too far behind to do it while reads wait.
   */
  readonly settle: (checkpoint: Checkpoint) => Promise<RebuiltCheckpoint | null>
}

/** SQLSTATEs of a lock that was not free in time, and of a deadlock: reads lock tables in different orders. */
const lockFailures = ['55P03', '40P01']

/** The live tables to drop: the tables of the models, and their former tables. */
const existing = async (client: pg.ClientBase, models: readonly ReadModel[]): Promise<readonly string[]> => {
  const { rows } = await client.query<{ name: string }>(
    `select format('read.%I', tablename) as name from pg_tables
     where schemaname = 'read' and tablename = any ($1::text[])`,
    [models.flatMap(({ tables, formerTables = [] }) => [...tables.map(({ name }) => name), ...formerTables])],
  )
  return rows.map(({ name }) => name)
}

const attempt = async (exchange: TableSwap, lockTimeoutMs: number): Promise<number | null> => {
  const { session, group, models, whole, schema, logId, foreign, settle } = exchange
  const { client } = session
  await client.query('begin')
  try {
    await client.query(`set local lock_timeout = ${lockTimeoutMs}`)
    // The checkpoint is locked before the tables, as in a batch of the runner. The other order would deadlock.
    const checkpoint = await readCheckpoint(client, group, 'for update')
    if (!checkpoint) throw new Error(`group ${group} has no checkpoint`)
    const live = await existing(client, models)
    const rebuiltTables = models.flatMap((model) => model.tables.map((table) => qualified(schema, table)))
    // The new tables are locked, too, so that no wait follows after `settle` has folded into them.
    await client.query(`lock table ${[...live, ...rebuiltTables].join(', ')} in access exclusive mode`)
    await client.query('set local lock_timeout = 0')
    const settled = await settle(checkpoint)
    if (settled === null) {
      await client.query('rollback')
      return null
    }
    for (const name of live) await client.query(`drop table ${name}`)
    for (const name of rebuiltTables) await client.query(`alter table ${name} set schema read`)
    await client.query(
      `update engine.checkpoints set epoch = epoch + 1, position = $2::bigint, log_id = $3::text,
         definitions = case when $7::boolean then '{}'::jsonb else definitions end || $4::jsonb,
         stopped = stopped - $8::text[],
         last_event = $5::uuid,
         lineage = case when $6::boolean then gen_random_uuid() else lineage end
       where name = $1::text`,
      [
        group,
        settled.position,
        logId,
        JSON.stringify(definitionsOf(models)),
        settled.lastEvent,
        foreign,
        whole,
        models.map(({ name }) => name),
      ],
    )
    await client.query('commit')
    return settled.position
  } catch (error) {
    await client.query('rollback')
    throw error
  }
}

/**
 * How long reads may wait for one attempt, milliseconds. After the deadlock timeout (1 s) autovacuums are cancelled.
 */
const lockTimeouts = [100, 200, 400, 800, 1600]
const maxAttempts = 100

/**
 * Retries a transaction while other sessions lock the tables of the group.
 * @throws Error if other sessions still lock the tables after 100 retries
 */
const retryLocks = async <Result>(
  group: string,
  signal: AbortSignal,
  transaction: (lockTimeoutMs: number) => Promise<Result>,
): Promise<Result> => {
  for (let count = 0; ; count += 1) {
    try {
      return await transaction(lockTimeouts[count % lockTimeouts.length] ?? 100)
    } catch (error) {
      if (!lockFailures.includes((error as { code?: string }).code ?? '')) throw error
      if (count >= maxAttempts)
        throw new Error(
          `other sessions keep the tables of group ${group} locked: end long transactions (pg_stat_activity)`,
          { cause: error },
        )
      await sleep(50 + Math.random() * 250, undefined, { signal })
    }
  }
}

/**
 * Replaces the live tables by the new ones, in one transaction. Reads wait for some milliseconds and then use the new
 * tables. The group's owner detects the new epoch, drops its cached rows and continues. Retries while other sessions
 * lock the tables. Resolves to null if `settle` returned null.
 * @throws Error if other sessions still lock the tables after 100 retries
 */
export const swapTables = (exchange: TableSwap): Promise<number | null> =>
  retryLocks(exchange.group, exchange.signal, (lockTimeoutMs) => attempt(exchange, lockTimeoutMs))

/**
 * Stops a model of a group: records the event, and makes reads of its tables fail, in one transaction. It needs no lock
 * of the tables: a session that reads them for an hour (a backup) must not stop the other models. It does nothing if
 * another owner is active (another epoch). A superuser can read the tables until `dropStopped` drops them.
 */
export const stopModel = (
  client: pg.ClientBase,
  group: string,
  epoch: number,
  model: ReadModel,
  { message, event }: PoisonEvent,
): Promise<void> =>
  transact(client, async () => {
    const { rowCount } = await client.query(
      `update engine.checkpoints set epoch = epoch + 1, stopped = stopped || jsonb_build_object($3::text,
         jsonb_build_object('position', $4::bigint, 'error', $5::text, 'at', now()))
       where name = $1::text and epoch = $2::bigint`,
      [group, epoch, model.name, event.position, message],
    )
    if (rowCount !== 1) return
    const { rows } = await client.query<{ statement: string }>(
      `select format('revoke select on read.%I from %s', relname, string_agg(distinct
          case grantee when 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end, ', ')) as statement
       from pg_class, aclexplode(coalesce(relacl, acldefault('r', relowner)))
       where relnamespace = 'read'::regnamespace and relname = any ($1::text[]) and privilege_type = 'SELECT'
       group by relname`,
      [model.tables.map(({ name }) => name)],
    )
    for (const { statement } of rows) await client.query(statement)
  })

/**
 * Drops the tables of the stopped models. Retries while other sessions lock them.
 * @throws Error if other sessions still lock the tables after 100 retries
 */
export const dropStopped = (pool: pg.Pool, group: ReadModelGroup, signal: AbortSignal): Promise<void> =>
  retryLocks(group.name, signal, (lockTimeoutMs) =>
    inTransaction(pool, async (client) => {
      const stoppedNames = async (lock: 'for update' | '' = '') =>
        Object.keys((await readCheckpoint(client, group.name, lock))?.stopped ?? {})
      const stopped = await stoppedNames()
      const names = await existing(
        client,
        group.models.filter(({ name }) => stopped.includes(name)),
      )
      if (names.length === 0) return
      await client.query(`set local lock_timeout = ${lockTimeoutMs}`)
      // The checkpoint is locked after the tables here, so that batches do not wait for a session that reads the tables.
      await client.query(`lock table ${names.join(', ')} in access exclusive mode`)
      const still = await stoppedNames('for update')
      if (stopped.every((name) => still.includes(name))) await client.query(`drop table ${names.join(', ')}`)
    }),
  )

/** Folds the log from its start into the empty tables of a schema. */
export type Replay = {
  readonly position: number
  readonly events: number
  /** The id of the event at `position`; null if no event there was folded. */
  readonly lastEvent: string | null
  /** The last event that was read; null: none. */
  readonly lastRead: RecordedEvent | null
  /** Folds all events up to and including a position of the log, and none after it. */
  to(bound: number, onBatch?: () => void): Promise<void>
}

export type ReplayOptions = {
  readonly group: string
  readonly session: Session
  readonly schema: string
  readonly models: readonly ReadModel[]
  readonly log: Pick<EventLog, 'readAll'>
  readonly decode: (event: StoredEvent) => RecordedEvent
  readonly signal: AbortSignal
  /** Events of one batch; default 10,000. In larger batches, one write of a hot row covers more events. */
  readonly batch?: number
  /** Rows in memory; default 100,000. While all rows fit, none is selected. */
  readonly maxRows?: number
  readonly watch?: FoldWatch | undefined
}

/**
 * Three steps overlap: reading the next events, folding these, and writing the rows of the previous ones. This is
 * work for two cores.
 */
export const createReplay = (options: ReplayOptions): Replay => {
  const { log, signal, batch = 10_000, group, watch } = options
  const folding = createFolding(options)
  let position = 0
  let events = 0
  let lastEvent: string | null = null
  let lastRead: RecordedEvent | null = null

  const decode = (stored: StoredEvent): RecordedEvent => {
    try {
      return options.decode(stored)
    } catch (cause) {
      throw new UndecodableEvent(stored, cause)
    }
  }

  const read = (after: number): Promise<readonly StoredEvent[]> => {
    const page = log.readAll(after, batch)
    // It is awaited later. A failure before that must not be an unhandled rejection.
    page.catch(() => undefined)
    return page
  }

  const to = async (bound: number, onBatch?: () => void): Promise<void> => {
    if (bound <= position) return
    let page = read(position)
    for (;;) {
      signal.throwIfAborted()
      const stored = (await page).filter((event) => event.position <= bound)
      const last = stored.at(-1)
      if (!last) break
      const more = last.position < bound
      if (more) page = read(last.position)
      const [after, through] = [position, last.position]
      const decoded = stored.map(decode)
      lastRead = decoded.at(-1) ?? null
      const tables = await folding.take(decoded)
      watch?.onReplayed?.({ group, after, through, tables })
      position = last.position
      lastEvent = last.id
      events += stored.length
      onBatch?.()
      if (!more) break
    }
    await folding.written()
    // There is no event between the last event and the bound.
    if (position < bound) lastEvent = null
    position = bound
  }

  return {
    get position() {
      return position
    },
    get events() {
      return events
    },
    get lastEvent() {
      return lastEvent
    },
    get lastRead() {
      return lastRead
    },
    to,
  }
}
