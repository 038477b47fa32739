import type { Socket } from 'node:net'
import type pg from 'pg'

/** The part of `pg`'s client that is used here; `@types/pg` knows less of it. */
type Inside = {
  readonly connection: { readonly stream: Socket }
  /** False while an answer is awaited. */
  readonly readyForQuery: boolean
  readonly _ending: boolean
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
export const breakWhenSilent = (client: pg.ClientBase, silentMs: number): void => {
  const { stream } = inside(client).connection
  stream.setTimeout(silentMs)
  stream.on('timeout', () => {
    const { readyForQuery, _ending: ending } = inside(client)
    if (!readyForQuery || ending) stream.destroy(silence(silentMs))
  })
}

/** From now on a statement over this connection may take as long as it needs: a new index, a backup. */
export const waitInSilence = (client: pg.ClientBase): void => {
  inside(client).connection.stream.setTimeout(0)
}
