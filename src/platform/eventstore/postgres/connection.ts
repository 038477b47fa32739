import { Socket } from 'node:net'
import type pg from 'pg'
import { DatabaseClient } from '../../postgres/client.ts'
import { withTimeout } from '../errors.ts'

export type Connection = {
  readonly client: pg.Client
  /** False once it broke or was ended. */
  isOpen(): boolean
  /** Breaks it at once, whatever the other side does: queries in flight fail. Harmless when repeated. */
  destroy(): void
}

/**
 * One connection outside the pool. `onLost` is called once when it ends, however it ends; without its own listener an
 * error of an idle connection would end the process.
 * @throws the driver's error when it cannot be opened
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

/** Waits for an answer of Postgres for at most `timeoutMs`, then rejects. */
export const withAnswerTimeout = <Value>(answer: Promise<Value>, timeoutMs: number): Promise<Value> =>
  withTimeout(answer, timeoutMs, noAnswer)
