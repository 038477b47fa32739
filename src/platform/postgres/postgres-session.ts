import type { Socket } from 'node:net'
import type pg from 'pg'
import { afterRunning } from '../../kernel/every.ts'
import { type ClientConfig, DatabaseClient } from './client.ts'
import { noAnswerWithin } from './errors.ts'

/** The part of `pg`'s client that is used here. `@types/pg` does not declare all of it. */
type ClientInternals = {
  readonly connection: {
    readonly stream: Socket
    on(event: 'errorMessage', listener: (error: Error) => void): void
  }
  /** False while an answer is awaited. */
  readonly readyForQuery: boolean
  readonly _ending: boolean
  /** For a client of a pool: how often it was checked out. */
  _poolUseCount?: number
}

const internalsOf = (client: pg.ClientBase): ClientInternals => client as unknown as ClientInternals

/**
 * Closes a connection if an answer is awaited and nothing arrives for `silentMs` milliseconds: an interrupted network
 * or a suspended server may be silent for hours. Pending queries fail with the code ETIMEDOUT, and the client reports
 * the error like any other connection error. 0: no limit.
 *
 * This is the socket's own timer, which each read and write only resets. It is over early for a process that could not
 * run meanwhile, so the answer may then take a fifth more. `pg` would start a timer for each query (`query_timeout`), and
 * an abandoned query would block the next one.
 */
export const destroyWhenSilent = (client: pg.ClientBase, silentMs: number): void => {
  const { stream } = internalsOf(client).connection
  const isAwaited = (): boolean => !internalsOf(client).readyForQuery || internalsOf(client)._ending
  stream.setTimeout(silentMs)
  stream.on('timeout', () => {
    if (!isAwaited()) return
    const { bytesRead } = stream
    const stop = afterRunning(silentMs / 5, () => {
      if (isAwaited() && stream.bytesRead === bytesRead) stream.destroy(noAnswerWithin(silentMs))
    })
    stream.once('close', stop)
  })
}

/** Calls the listener for every error that Postgres answers here, even if the caller continues after it. */
export const onErrorAnswer = (client: pg.ClientBase, onError: (error: Error) => void): void =>
  internalsOf(client).connection.on('errorMessage', onError)

/** Makes the pool close this client on release, as if it had reached its maximum number of uses. */
export const releaseForGood = (client: pg.PoolClient): void => {
  internalsOf(client)._poolUseCount = Number.POSITIVE_INFINITY
}

/** Removes the time limit of answers on this connection, for long statements: a new index, a backup. */
export const allowSilence = (client: pg.ClientBase): void => {
  internalsOf(client).connection.stream.setTimeout(0)
}

/** A connection of its own. An advisory lock and the writes that it protects end with it. */
export type Session = {
  readonly client: pg.Client
  /** Aborted with the cause when the connection is lost. */
  readonly ended: AbortSignal
  close(): Promise<void>
}

/**
 * From now on Postgres ends the session if this process sends nothing over it for `silentMs` milliseconds. So a
 * suspended process, or a machine that is gone, does not block a lock. 0: no limit.
 */
export const setIdleTimeouts = async (client: pg.ClientBase, silentMs: number): Promise<void> => {
  await client.query(
    `set idle_session_timeout = ${silentMs}; set idle_in_transaction_session_timeout = ${silentMs}`,
  )
}

/** Statements of a session are short: without an answer after this time there will be none. Milliseconds. */
export const sessionAnswerMs = 30_000

/**
 * Connects outside the pool with the pool's settings, so that a session of hours takes no connection from requests.
 *
 * A crash loses rows and checkpoint together, and they are folded again. So the commits of these sessions, and only
 * these, need not wait for the disk. Rows are looked up by key only: a plan from the time when a table was empty must
 * not scan the table after it has grown. Up to Postgres 17 a disabled scan that is the only possible plan costs ten
 * billion, so that each statement would be JIT-compiled. Therefore JIT is off.
 * @param answerTimeoutMs the session ends if Postgres is silent for this long while an answer is awaited,
 * milliseconds, so that another process can get its locks; 0 for statements of any duration
 */
export const openSession = async (
  pool: pg.Pool,
  applicationName: string,
  answerTimeoutMs = sessionAnswerMs,
): Promise<Session> => {
  const client = new DatabaseClient(pool.options as ClientConfig)
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
