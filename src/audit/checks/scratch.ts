import type pg from 'pg'
import { openSession, type Session } from '../../platform/postgres/postgres-session.ts'

/** A schema for the tables of one verification. Closing drops it. */
export type Scratch = {
  readonly schema: string
  /** Opens a separate connection. Its commits do not wait for the disk. */
  session(): Promise<Session>
  /** Aborted when one of the connections is lost. */
  readonly signal: AbortSignal
  close(): Promise<void>
}

/** Schemas of killed verifications: no session has their lock. */
const leftOverSql = `
  select nspname as schema from pg_namespace n
   where nspname like 'verify\\_%' and not exists (
     select from pg_locks l where l.locktype = 'advisory' and l.objsubid = 1
       and (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('farebox ' || nspname, 0))`

type Holder = { readonly pid: number; readonly name: string; readonly role: string }

const holdersSql = `
  select distinct a.pid, a.application_name as name, a.usename::text as role
    from pg_locks l join pg_class c on c.oid = l.relation join pg_namespace n on n.oid = c.relnamespace
    join pg_stat_activity a on a.pid = l.pid
   where n.nspname = $1::text and l.granted and a.pid <> pg_backend_pid() order by a.pid`

const sessionName = 'farebox verify'

/**
 * Drops the schema of a killed verification. Statements of that verification that still run are terminated. For other
 * sessions that use the schema, `onWait` is called and the drop is retried.
 */
const dropLeftOver = async (
  client: pg.Client,
  schema: string,
  onWait: (text: string) => void,
): Promise<void> => {
  await client.query("set lock_timeout = '1s'")
  for (;;) {
    try {
      await client.query(`drop schema if exists ${schema} cascade`)
      await client.query('set lock_timeout = 0')
      return
    } catch (error) {
      if ((error as { code?: string }).code !== '55P03') throw error
    }
    const { rows } = await client.query<Holder>(holdersSql, [schema])
    for (const { pid, name } of rows)
      if (name === sessionName) await client.query('select pg_terminate_backend($1::int)', [pid])
    const names = rows.map(({ pid, name, role }) => `process ${pid} of Postgres (${name || role})`)
    onWait(`waiting for ${names.join(', ')}: it uses ${schema}, which a killed verification left behind`)
  }
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
 * @param onWait called once a second with the sessions that it waits for
 */
export const openScratch = async (
  pool: pg.Pool,
  runId: string,
  onWait: (text: string) => void = () => undefined,
): Promise<Scratch> => {
  const schema = scratchSchema(runId)
  const sessions: Session[] = []
  const session = async (): Promise<Session> => {
    const newSession = await openSession(pool, sessionName, 0)
    sessions.push(newSession)
    // Ends running statements soon after this process is killed, not hours later.
    await newSession.client.query("set client_connection_check_interval = '1s'")
    newSession.ended.addEventListener('abort', () => lostConnection.abort(newSession.ended.reason), {
      once: true,
    })
    return newSession
  }
  const lostConnection = new AbortController()
  const { client } = await session()
  try {
    await client.query("select pg_advisory_lock(hashtextextended('farebox ' || $1::text, 0))", [schema])
    const { rows } = await client.query<{ schema: string }>(leftOverSql)
    for (const leftOverSchema of rows) await dropLeftOver(client, leftOverSchema.schema, onWait)
    await client.query(`create schema ${schema}`)
  } catch (error) {
    await client.end()
    throw error
  }
  return {
    schema,
    session,
    signal: lostConnection.signal,
    async close() {
      for (const other of sessions.slice(1)) await other.close().catch(() => undefined)
      await client.query(`drop schema if exists ${schema} cascade`).catch(() => undefined) // the next run drops it
      await client.end().catch(() => undefined)
    },
  }
}
