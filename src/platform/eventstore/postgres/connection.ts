import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { DatabaseClient } from '../../postgres/client.ts'
import { withTimeout } from '../errors.ts'

export type Connection = {
  readonly client: pg.Client
  /** False once it broke or was ended. */
  isOpen(): boolean
  /** Closes the socket at once. Queries in flight fail. May be called repeatedly. */
  destroy(): void
}

/**
 * Opens a connection outside the pool. It calls `onLost` once when the connection ends, for any reason. It handles
 * errors of an idle connection, which would otherwise end the process.
 * @throws the error of the driver if the connection cannot be opened
 */
export const connect = async (
  config: pg.ClientConfig,
  onLost: (error: Error | null) => void,
): Promise<Connection> => {
  const socket = new Socket()
  const client = new DatabaseClient({ connectionTimeoutMillis: 5_000, ...config, stream: () => socket })
  let open = true
  let cause: Error | null = null
  const destroy = (): void => {
    open = false
    socket.destroy()
  }
  client.on('error', (error) => {
    cause ??= error
    destroy()
  })
  try {
    await client.connect()
  } catch (error) {
    destroy()
    throw error
  }
  client.once('end', () => {
    open = false
    onLost(cause)
  })
  return { client, isOpen: () => open, destroy }
}

const noAnswer = () => new Error('Postgres does not answer')

/** Settles as the answer does, or rejects after `timeoutMs` milliseconds. */
export const withAnswerTimeout = <Value>(answer: Promise<Value>, timeoutMs: number): Promise<Value> =>
  withTimeout(answer, timeoutMs, noAnswer)

/** Back-off while Postgres cannot be reached, doubling. */
const firstRetryMs = 50
const lastRetryMs = 2_000

/** Without an answer in this time, a connection counts as broken: TCP may need minutes to detect it. */
const answerTimeoutMs = 5_000

/**
 * Listens to a NOTIFY channel on a connection of its own until `signal` is aborted. A lost connection is opened again.
 * @param options.poll the query and its interval that also detect a connection that broke silently
 */
export const listen = async (options: {
  readonly channel: string
  readonly connection: pg.ClientConfig
  readonly signal: AbortSignal
  readonly onNotification: (payload: string) => void
  readonly poll?: {
    readonly everyMs: number
    readonly query: pg.QueryConfig
    readonly onRow: (row: pg.QueryResultRow) => void
  }
  readonly onTrouble: (description: string, error: Error) => void
}): Promise<void> => {
  const { channel, connection, signal, onNotification, poll, onTrouble } = options
  const pause = (ms: number, until: AbortSignal): Promise<void> =>
    sleep(ms, undefined, { signal: until, ref: false }).catch(() => undefined)
  let retryMs = firstRetryMs
  while (!signal.aborted) {
    const ending = new AbortController()
    const until = AbortSignal.any([signal, ending.signal])
    try {
      const { client, destroy } = await connect(connection, (error) => {
        ending.abort()
        if (error !== null && !signal.aborted) onTrouble('the listening connection broke', error)
      })
      try {
        client.on('notification', ({ payload = '' }) => onNotification(payload))
        await withAnswerTimeout(client.query(`listen ${channel}`), answerTimeoutMs)
        retryMs = firstRetryMs
        while (!until.aborted) {
          if (poll) {
            const { rows } = await withAnswerTimeout(client.query(poll.query), answerTimeoutMs)
            poll.onRow(rows[0])
          }
          await pause(poll?.everyMs ?? 2 ** 31 - 1, until)
        }
      } finally {
        destroy()
      }
    } catch (error) {
      if (!signal.aborted) onTrouble(`listening to ${channel} failed`, error as Error)
    }
    await pause(retryMs, signal)
    retryMs = Math.min(2 * retryMs, lastRetryMs)
  }
}
