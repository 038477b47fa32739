import type pg from 'pg'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { isConnectionLost } from '../../platform/postgres/errors.ts'
import { openSession, type Session } from '../../platform/postgres/postgres-session.ts'
import { transact } from '../../platform/postgres/transaction.ts'
import { readCheckpoint, readStoppedModels, stoppedText } from '../../platform/projections/checkpoint.ts'
import { compareTables } from '../../platform/projections/compare-tables.ts'
import { createTableSql, definitionOf, qualified } from '../../platform/projections/definition.ts'
import type { PoisonEvent } from '../../platform/projections/fold-batch.ts'
import type { ReadModel, ReadModelGroup } from '../../platform/projections/read-model.ts'
import { createFolding } from '../../platform/projections/write-batch.ts'
import { createEventReader, readable } from './event-reader.ts'
import type { Findings } from './finding.ts'

/** Rows that a model caches in memory. The limit makes the memory use independent of the length of the log. */
const maxRows = 5_000

/**
 * Folds read models into a scratch schema.
 * @param onPoison called for each event that a model cannot process; the model skips it and continues
 */
const createDerivation = async (
  session: Session,
  schema: string,
  models: readonly ReadModel[],
  onPoison: (poison: PoisonEvent) => void,
) => {
  for (const table of models.flatMap(({ tables }) => tables))
    await session.client.query(createTableSql(schema, table, 'unlogged'))
  return createFolding({ session, schema, models, maxRows, onPoison })
}

export type GroupSummary = {
  readonly group: string
  /** The position of the live tables at the comparison. */
  readonly position: number
  readonly tables: number
  readonly rows: number
}

/** One group of read models, rebuilt in the scratch schema. */
export type Rederivation = {
  readonly group: string
  take(events: readonly RecordedEvent[]): Promise<void>
  /**
   * Folds up to the position of the live tables in one snapshot, and compares both.
   * @param onTable called before each table
   */
  compare(onTable: () => void): Promise<GroupSummary>
  /** Folds up to a position, if that is not done yet, and writes all rows. */
  complete(position: number): Promise<void>
}

const pageSize = 5_000
/** The largest number of events that are folded while the snapshot is open, so that the snapshot is short. */
const nearEvents = 20_000
const maxRounds = 50

const readLiveTables = async (client: pg.ClientBase, group: ReadModelGroup): Promise<ReadonlySet<string>> => {
  const names = group.models.flatMap(({ tables }) => tables.map(({ name }) => name))
  const { rows } = await client.query<{ name: string }>(
    `select tablename as name from pg_tables where schemaname = 'read' and tablename = any ($1::text[])
        and has_table_privilege(format('read.%I', tablename), 'select')`,
    [names],
  )
  return new Set(rows.map(({ name }) => name))
}

/** The part of two tables that differs: a column, by position or definition, or the primary key; null when none does. */
const differingPart = async (
  client: pg.ClientBase,
  live: string,
  derived: string,
): Promise<string | null> => {
  const { rows } = await client.query<{ name: string }>(
    `with columns as (
       select attrelid, attname, format_type(atttypid, atttypmod) as type, attcollation, attnotnull, attgenerated,
           row_number() over (partition by attrelid order by attnum) as place
         from pg_attribute where attrelid in ($1::regclass, $2::regclass) and attnum > 0 and not attisdropped
     ), one as (select * from columns where attrelid = $1::regclass),
        other as (select * from columns where attrelid = $2::regclass)
     (select 'column ' || coalesce(one.attname, other.attname) as name
       from one full join other using (attname, type, attcollation, attnotnull, attgenerated, place)
      where one.attrelid is null or other.attrelid is null
      group by 1 order by min(place), count(*) limit 1)
     union all
     select 'its primary key' where (
       select count(distinct pg_get_constraintdef(oid)) <> 1 or count(*) <> 2 from pg_constraint
        where conrelid in ($1::regclass, $2::regclass) and contype = 'p')
     limit 1`,
    [live, derived],
  )
  return rows[0]?.name ?? null
}

export const createRederivation = async (options: {
  readonly scratch: Scratch
  readonly log: EventLog
  readonly group: ReadModelGroup
  readonly findings: Findings
  /** Called for each event that a model of the group cannot process. */
  readonly onPoison: (poison: PoisonEvent) => void
  /** False: there are no live tables, and all events are folded. Default: true. */
  readonly isLive?: boolean
}): Promise<Rederivation> => {
  const { scratch, log, group, findings, onPoison, isLive = true } = options
  const session = await scratch.session()
  const { client } = session
  const derivation = await createDerivation(session, scratch.schema, group.models, onPoison)
  // The position of the live tables. Events after it are not folded until the live tables have passed them.
  let bound = isLive ? ((await readCheckpoint(client, group.name))?.position ?? 0) : Number.POSITIVE_INFINITY
  let position = 0
  const reader = createEventReader()

  const report = (problem: string): void =>
    findings.add({ where: 'group', check: 'projections', group: group.name, problem })

  const foldEvents = async (events: readonly RecordedEvent[]): Promise<void> => {
    const last = events.at(-1)
    if (last === undefined || position >= bound) return
    await derivation.take(last.position <= bound ? events : events.filter((event) => event.position <= bound))
    position = Math.min(bound, last.position)
  }

  const catchUp = async (): Promise<void> => {
    while (position < bound) {
      scratch.signal.throwIfAborted()
      const page = await log.readAll(position, pageSize)
      await foldEvents(readable(reader.read(page, 0)))
      position = Math.max(position, Math.min(bound, page.at(-1)?.position ?? bound))
      if (page.length < pageSize) break
    }
    await derivation.written()
    position = Math.max(position, bound)
  }

  /** Problems of the definitions and the checkpoint of the live tables, read in the open snapshot. */
  const readLiveProblems = async (
    live: pg.ClientBase,
    liveTables: ReadonlySet<string>,
    logId: string,
  ): Promise<readonly string[]> => {
    const checkpoint = await readCheckpoint(live, group.name)
    if (checkpoint === null)
      return ['its tables were never made: "farebox projections rebuild all" makes them, and so does a start']
    const problems: string[] = []
    if (checkpoint.logId !== logId)
      problems.push(`its tables were folded from the log ${checkpoint.logId}, this one is ${logId}`)
    if (checkpoint.position > (await log.head()))
      problems.push(`its tables are at position ${checkpoint.position}, past the end of the log`)
    for (const model of group.models) {
      if (
        model.tables.every(({ name }) => liveTables.has(name)) &&
        checkpoint.definitions[model.name]?.digest !== definitionOf(model).digest
      )
        problems.push(
          `the tables of ${model.name} were made by another version of the program: start this one, then verify`,
        )
    }
    bound = checkpoint.position
    return problems
  }

  const compareAll = async (
    live: pg.ClientBase,
    liveTables: ReadonlySet<string>,
    onTable: () => void,
  ): Promise<number> => {
    const stopped = (await readStoppedModels(live)).filter((each) => each.group === group.name)
    for (const each of stopped) report(stoppedText(each))
    const tables = group.models.flatMap((model) =>
      stopped.some((each) => each.model === model.name) ? [] : model.tables,
    )
    for (const table of tables) {
      scratch.signal.throwIfAborted()
      onTable()
      if (!liveTables.has(table.name)) {
        report(`its table read.${table.name} is missing, or it is no table that this user may read`)
        continue
      }
      const changedPart = await differingPart(
        client,
        qualified('read', table),
        qualified(scratch.schema, table),
      )
      if (changedPart !== null) {
        report(`its table read.${table.name} was changed: ${changedPart}`)
        continue
      }
      const difference = await compareTables(
        table,
        { client: live, schema: 'read' },
        { client, schema: scratch.schema },
      )
      if (difference === null) continue
      const { rebuilt: derived, ...cell } = difference
      findings.add({ where: 'cell', check: 'projections', group: group.name, ...cell, derived })
    }
    let rows = 0
    for (const table of tables) {
      const countResult = await client.query<{ rows: number }>(
        `select count(*) as rows from ${qualified(scratch.schema, table)}`,
      )
      rows += countResult.rows[0]?.rows ?? 0
    }
    return rows
  }

  const compare = async (onTable: () => void): Promise<GroupSummary> => {
    for (let round = 0; round < maxRounds; round += 1) {
      await catchUp()
      bound = Math.max(bound, (await readCheckpoint(client, group.name))?.position ?? 0)
      if (bound - position <= nearEvents) break
    }
    const logId = await log.logId()
    const { client: live } = await scratch.liveSession()
    const presentTables = await readLiveTables(live, group)
    return transact(
      live,
      async () => {
        // Locks before the snapshot: a table that is swapped after it would appear empty.
        if (presentTables.size > 0)
          await live.query(
            `lock table ${[...presentTables].map((name) => `read.${name}`).join(', ')} in access share mode`,
          )
        const problems = await readLiveProblems(live, presentTables, logId)
        await catchUp()
        for (const problem of problems) report(problem)
        const tables = group.models.flatMap((model) => model.tables).length
        const rows = problems.length > 0 ? 0 : await compareAll(live, presentTables, onTable)
        return { group: group.name, position: bound, tables, rows }
      },
      'isolation level repeatable read',
    )
  }

  const complete = async (through: number): Promise<void> => {
    bound = Math.max(position, through)
    await catchUp()
  }

  return { group: group.name, take: foldEvents, compare, complete }
}

/** A schema for the tables of one verification. Closing drops it. */
export type Scratch = {
  readonly schema: string
  /** Why schemas of killed verifications could not be removed. */
  readonly problems: readonly string[]
  /** Opens a separate connection. Its commits do not wait for the disk, and it waits a minute for a lock. */
  session(): Promise<Session>
  /** The connection that reads the live tables. Code of their owner can run in it, so it cannot write in the schema. */
  liveSession(): Promise<Session>
  /** Aborted when one of the connections is lost. */
  readonly signal: AbortSignal
  close(): Promise<void>
}

/** Schemas of killed verifications: no session has their lock. The service's role leaves those of the auditor. */
const leftOverSql = `
  select nspname as schema from pg_namespace n
   where pg_has_role(nspowner, 'usage') and nspname like 'verify\\_%' and not exists (
     select from pg_locks l where l.locktype = 'advisory' and l.objsubid = 1
       and (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('farebox ' || nspname, 0))`

type Holder = { readonly pid: number; readonly name: string; readonly role: string }

const holdersSql = `
  select distinct a.pid, a.application_name as name, a.usename::text as role
    from pg_locks l join pg_class c on c.oid = l.relation join pg_namespace n on n.oid = c.relnamespace
    join pg_stat_activity a on a.pid = l.pid
   where n.nspname = $1::text and l.granted and a.pid <> pg_backend_pid() order by a.pid`

const sessionName = 'farebox verify'

/** The longest wait for a lock. Every session of the service can take locks, also those of the scratch tables. */
const lockWaitMs = 60_000

/**
 * Drops the schema of a killed verification. Statements of that verification that still run are terminated. For other
 * sessions that use the schema, `onWait` is called and the drop is retried.
 * @param isOver whether to stop waiting for other sessions
 * @throws Error when the schema cannot be dropped
 */
const dropLeftOver = async (
  client: pg.Client,
  schema: string,
  onWait: (text: string) => void,
  isOver: () => boolean,
): Promise<void> => {
  for (;;) {
    try {
      await client.query(`drop schema if exists ${client.escapeIdentifier(schema)} cascade`)
      return
    } catch (error) {
      if ((error as { code?: string }).code !== '55P03') throw error
    }
    const { rows } = await client.query<Holder>(holdersSql, [schema])
    for (const { pid, name } of rows)
      if (name === sessionName) await client.query('select pg_terminate_backend($1::int)', [pid])
    const names = rows.map(({ pid, name, role }) => `process ${pid} of Postgres (${name || role})`)
    const namesText = names.join(', ') || 'another session'
    if (isOver()) throw new Error(`${namesText} uses it`)
    onWait(`waiting for ${namesText}: it uses ${schema}, which a killed verification left behind`)
  }
}

/** Drops the schemas of killed verifications. @returns why schemas could not be dropped */
const dropLeftOvers = async (
  client: pg.Client,
  onWait: (text: string) => void,
  waitMs: number,
): Promise<readonly string[]> => {
  const startedMs = performance.now()
  const problems: string[] = []
  await client.query("set lock_timeout = '1s'")
  const { rows } = await client.query<{ schema: string }>(leftOverSql)
  for (const { schema } of rows)
    await dropLeftOver(client, schema, onWait, () => performance.now() - startedMs > waitMs).catch(
      (error) => {
        if (isConnectionLost(error)) throw error
        problems.push(`the schema ${schema} of a killed verification cannot be dropped: ${error.message}`)
      },
    )
  await client.query(`set lock_timeout = ${lockWaitMs}`)
  return problems
}

/** The schema of a run, and the name of the lock of its process. */
export const scratchSchema = (runId: string): string => `verify_${runId.replace(/[^a-z0-9]/g, '').slice(-24)}`

/**
 * Prepares this session to join and sort whole tables. Call it when the tables of the schema are filled. Until then the
 * session is tuned for single-row lookups, and Postgres has no row counts: joins took quadratic time.
 */
export const planForWholeTables = async (client: pg.Client, schema: string): Promise<void> => {
  const { rows } = await client.query<{ tables: string | null }>(
    `select string_agg(format('%I.%I', schemaname, tablename), ', ') as tables
       from pg_tables where schemaname = $1::text`,
    [schema],
  )
  await client.query(`set enable_seqscan = on; set enable_hashjoin = on; set enable_mergejoin = on;
    set work_mem = '64MB'; analyze ${rows[0]!.tables}`)
}

/**
 * Creates the schema `verify_…`, locked by an advisory lock of the first session. Removes the schemas of killed
 * verifications.
 * @param pool connections that make the schema and fold into it
 * @param options.livePool connections that read the live tables; default: `pool`
 * @param options.onLocked called with the lock. Until then no other session can know the run and take its lock.
 * @param options.onWait called once a second with the sessions that it waits for
 * @param options.waitMs how long it waits for them, milliseconds
 */
export const openScratch = async (
  pool: pg.Pool,
  runId: string,
  options: {
    readonly livePool?: pg.Pool
    readonly onLocked?: (() => Promise<void>) | undefined
    readonly onWait?: ((text: string) => void) | undefined
    readonly waitMs?: number
  } = {},
): Promise<Scratch> => {
  const { livePool = pool, onLocked, onWait = () => undefined, waitMs = lockWaitMs } = options
  const schema = scratchSchema(runId)
  const sessions: Session[] = []
  const open = async (from: pg.Pool): Promise<Session> => {
    const newSession = await openSession(from, sessionName, 0)
    sessions.push(newSession)
    // Ends running statements soon after this process is killed, not hours later.
    await newSession.client.query(
      `set client_connection_check_interval = '1s'; set lock_timeout = ${lockWaitMs}`,
    )
    newSession.ended.addEventListener('abort', () => lostConnection.abort(newSession.ended.reason), {
      once: true,
    })
    return newSession
  }
  const lostConnection = new AbortController()
  let live: Promise<Session> | null = null
  const { client } = await open(pool)
  let problems: readonly string[]
  try {
    await client.query("select pg_advisory_lock(hashtextextended('farebox ' || $1::text, 0))", [schema])
    await onLocked?.()
    problems = await dropLeftOvers(client, onWait, waitMs)
    await client.query(`create schema ${schema}`)
  } catch (error) {
    await client.end()
    throw error
  }
  return {
    schema,
    problems,
    session: () => open(pool),
    liveSession: () => {
      live ??= open(livePool)
      return live
    },
    signal: lostConnection.signal,
    async close() {
      for (const other of sessions.slice(1)) await other.close().catch(() => undefined)
      await client.query(`drop schema if exists ${schema} cascade`).catch(() => undefined) // the next run drops it
      await client.end().catch(() => undefined)
    },
  }
}
