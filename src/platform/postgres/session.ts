import pg from 'pg'
import { breakWhenSilent } from './silence.ts'

/** A connection of its own: an advisory lock and the writes that it covers live and die with it. */
export type Session = {
  readonly client: pg.Client
  /** Aborted when the connection is gone, with the cause. */
  readonly ended: AbortSignal
  close(): Promise<void>
}

/**
 * From now on Postgres ends the session when this process says nothing over it for so long, milliseconds: a process that
 * stands still, stopped or on a machine that is gone, keeps no lock from those who work. 0 is no bound.
 */
export const boundSilence = async (client: pg.ClientBase, silentMs: number): Promise<void> => {
  await client.query(
    `set idle_session_timeout = ${silentMs}; set idle_in_transaction_session_timeout = ${silentMs}`,
  )
}

/** Statements of a session are short: one that is unanswered for this long will not be answered at all. */
export const sessionAnswerMs = 30_000

/**
 * Connects outside the pool with the pool's settings, so that a session held for hours takes nothing from requests.
 *
 * Rows and checkpoint vanish together in a crash and are folded again, so these commits need not wait for the disk
 * (right here, and only here). Rows are looked up by key only: a plan made while a table was empty
 * must not scan it when it has grown. Up to Postgres 17 a scan that is switched off and still the only way costs ten
 * billion, for which each statement would be compiled: so there is no compiling here.
 * @param answerTimeoutMs the session ends when Postgres says nothing for so long though an answer is awaited, so that its
 * locks go to somebody who works; 0 for statements that take as long as they need
 */
export const openSession = async (
  pool: pg.Pool,
  applicationName: string,
  answerTimeoutMs = sessionAnswerMs,
): Promise<Session> => {
  const client = new pg.Client(pool.options as pg.ClientConfig)
  const ended = new AbortController()
  client.on('error', (error) => ended.abort(error))
  client.on('end', () => ended.abort(new Error('the connection ended')))
  await client.connect()
  breakWhenSilent(client, answerTimeoutMs)
  try {
    await client.query("select set_config('application_name', $1::text, false)", [applicationName])
    await client.query(`set synchronous_commit = off; set statement_timeout = 0;
      set idle_in_transaction_session_timeout = 0; set enable_seqscan = off; set enable_hashjoin = off;
      set enable_mergejoin = off; set jit = off`)
  } catch (error) {
    await client.end()
    throw error
  }
  return { client, ended: ended.signal, close: () => client.end() }
}
