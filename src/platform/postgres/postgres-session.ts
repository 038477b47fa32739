import type { Socket } from 'node:net'
import type pg from 'pg'
import { DatabaseClient } from './client.ts'

/** The part of `pg`'s client that is used here; `@types/pg` knows less of it. */
type Inside = {
  readonly connection: {
    readonly stream: Socket
    on(event: 'errorMessage', listener: (error: Error) => void): void
  }
  /** False while an answer is awaited. */
  readonly readyForQuery: boolean
  readonly _ending: boolean
  /** Of a pool's client: how often it was lent. */
  _poolUseCount?: number
}

const inside = (client: pg.ClientBase): Inside => client as unknown as Inside

/** With the code of a connection that the network gave up, for it is the same outage. */
const silence = (silentMs: number): Error =>
  Object.assign(new Error(`Postgres did not answer within ${silentMs} ms`), { code: 'ETIMEDOUT' })

/**
 * Breaks a connection over which an answer is awaited and nothing was heard for so long, milliseconds: a network that
 * was cut and a server that stands still may say nothing for hours. What waits fails with the code ETIMEDOUT, and the
 * client tells of the error as of any other that breaks it. 0 is no bound.
 *
 * This is the socket's own timer, which each read and write only pushes back. `pg` would arm one for each query
 * (`query_timeout`), and leave a query that it gave up in the way of the next one.
 */
export const destroyWhenSilent = (client: pg.ClientBase, silentMs: number): void => {
  const { stream } = inside(client).connection
  stream.setTimeout(silentMs)
  stream.on('timeout', () => {
    const { readyForQuery, _ending: ending } = inside(client)
    if (!readyForQuery || ending) stream.destroy(silence(silentMs))
  })
}

/** Told of every error that Postgres answers over this connection, also where the caller goes on after it. */
export const onErrorAnswer = (client: pg.ClientBase, told: (error: Error) => void): void =>
  inside(client).connection.on('errorMessage', told)

/** The pool closes this client when it is given back, as one that was lent as often as it may be. */
export const releaseForGood = (client: pg.PoolClient): void => {
  inside(client)._poolUseCount = Number.POSITIVE_INFINITY
}

/** From now on a statement over this connection may take as long as it needs: a new index, a backup. */
export const allowSilence = (client: pg.ClientBase): void => {
  inside(client).connection.stream.setTimeout(0)
}

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
export const setIdleTimeouts = async (client: pg.ClientBase, silentMs: number): Promise<void> => {
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
  const client = new DatabaseClient(pool.options as pg.ClientConfig)
  const ended = new AbortController()
  client.on('error', (error) => ended.abort(error))
  client.on('end', () => ended.abort(new Error('the connection ended')))
  await client.connect()
  destroyWhenSilent(client, answerTimeoutMs)
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
