import { Socket } from 'node:net'
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
