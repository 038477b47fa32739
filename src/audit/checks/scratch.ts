import type pg from 'pg'
import { openSession, type Session } from '../../platform/postgres/postgres-session.ts'

/** A schema for what a verification derives, which is gone with it. */
export type Scratch = {
  readonly schema: string
  /** A connection of its own; its commits do not wait for the disk. */
  session(): Promise<Session>
  /** Aborted when one of its connections is gone. */
  readonly signal: AbortSignal
  close(): Promise<void>
}

/** Left by a verification that was killed: older than any that can still run. */
const leftOver = `
  select nspname as schema from pg_namespace n
   where nspname like 'verify\\_%' and not exists (
     select from pg_locks l where l.locktype = 'advisory' and l.objsubid = 1
       and (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('farebox ' || nspname, 0))`

/** The schema of a run, and the name of the lock that its process holds. */
export const scratchSchema = (runId: string): string => `verify_${runId.replace(/[^a-z0-9]/g, '').slice(-24)}`

/**
 * Makes the schema `verify_…`, held by an advisory lock of the first session, and removes those of verifications that were
 * killed.
 */
export const openScratch = async (pool: pg.Pool, runId: string): Promise<Scratch> => {
  const schema = scratchSchema(runId)
  const sessions: Session[] = []
  const session = async (): Promise<Session> => {
    const opened = await openSession(pool, 'farebox verify', 0)
    sessions.push(opened)
    opened.ended.addEventListener('abort', () => broken.abort(opened.ended.reason), { once: true })
    return opened
  }
  const broken = new AbortController()
  const { client } = await session()
  try {
    await client.query("select pg_advisory_lock(hashtextextended('farebox ' || $1::text, 0))", [schema])
    const { rows } = await client.query<{ schema: string }>(leftOver)
    for (const old of rows) await client.query(`drop schema if exists ${old.schema} cascade`)
    await client.query(`create schema ${schema}`)
  } catch (error) {
    await client.end()
    throw error
  }
  return {
    schema,
    session,
    signal: broken.signal,
    async close() {
      for (const other of sessions.slice(1)) await other.close().catch(() => undefined)
      await client.query(`drop schema if exists ${schema} cascade`).catch(() => undefined) // the next one removes it
      await client.end().catch(() => undefined)
    },
  }
}
