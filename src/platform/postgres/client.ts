import { Socket } from 'node:net'
import pg from 'pg'
import { afterRunning } from '../../kernel/every.ts'
import { noAnswerWithin, noteConnectError } from './errors.ts'

type Connected = ((error: Error) => void) | ((error: null, client: pg.Client) => void)

export type ClientConfig = pg.ClientConfig & {
  /** The longest time until the connection is open, milliseconds; default 5,000. */
  readonly connectTimeoutMs?: number
}

/**
 * A client whose connect errors count as an outage of the database, whatever their code is. The time limit of `connect`
 * counts only the time in which this process runs.
 */
export class DatabaseClient extends pg.Client {
  readonly #connectTimeoutMs: number

  constructor({ connectTimeoutMs = 5_000, ...config }: ClientConfig = {}) {
    super({ ...config, connectionTimeoutMillis: 0 })
    this.#connectTimeoutMs = connectTimeoutMs
  }

  override connect(): Promise<pg.Client>
  override connect(callback: Connected): void
  override connect(callback?: Connected): Promise<pg.Client> | undefined {
    if (callback === undefined)
      return new Promise((resolve, reject) =>
        this.connect((error: Error | null) => (error === null ? resolve(this) : reject(error))),
      )
    const { connection } = this as unknown as { connection: { stream: Socket } }
    const limitMs = this.#connectTimeoutMs
    const stop = afterRunning(limitMs, () => connection.stream.destroy(noAnswerWithin(limitMs)))
    this.once('end', stop)
    super.connect((error: Error | null) => {
      stop()
      if (error !== null) noteConnectError(error)
      ;(callback as (error: Error | null, client: pg.Client) => void)(error, this)
    })
    return undefined
  }
}

export type Connection = {
  readonly client: pg.Client
  /** False once it broke or was ended. */
  isOpen: boolean
  /** Closes the socket at once. Queries in flight fail. May be called repeatedly. */
  destroy(): void
}

/**
 * Opens a connection outside the pool. It calls `onLost` once when the connection ends, for any reason. It handles
 * errors of an idle connection, which would otherwise end the process.
 * @throws the error of the driver if the connection cannot be opened
 */
export const connect = async (
  config: ClientConfig,
  onLost: (error: Error | null) => void,
): Promise<Connection> => {
  const socket = new Socket()
  const client = new DatabaseClient({ ...config, stream: () => socket })
  let cause: Error | null = null
  const destroy = (): void => {
    connection.isOpen = false
    socket.destroy()
  }
  const connection: Connection = { client, isOpen: true, destroy }
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
    connection.isOpen = false
    onLost(cause)
  })
  return connection
}
