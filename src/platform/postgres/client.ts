import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import pg from 'pg'
import { withTimeout } from '../../kernel/every.ts'
import { noteConnectError } from './errors.ts'

type Connected = ((error: Error) => void) | ((error: null, client: pg.Client) => void)

/** A client whose connect errors count as an outage of the database, whatever their code is. */
export class DatabaseClient extends pg.Client {
  override connect(): Promise<pg.Client>
  override connect(callback: Connected): void
  override connect(callback?: Connected): Promise<pg.Client> | undefined {
    if (callback === undefined)
      return super.connect().catch((error) => {
        noteConnectError(error)
        throw error
      })
    super.connect((error: Error | null) => {
      if (error !== null) noteConnectError(error)
      ;(callback as (error: Error | null, client: pg.Client) => void)(error, this)
    })
    return undefined
  }
}

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

/** A statement that Postgres parses once per session under its name. Without a name (empty) it is parsed each time. */
export type Prepared = { readonly name: string; readonly text: string }

/** A buffer is sent in Postgres's binary format, a string in its text format. */
export type Value = Buffer | string | null

/** A statement with its parameters, or a `copy … from stdin` with its data. */
export type Step = { readonly statement: Prepared } & (
  | { readonly values: readonly Value[] }
  | { readonly copied: Buffer }
)

/** The result rows of a step, in Postgres's text format. */
export type Answer = readonly (readonly (string | null)[])[]

/** The part of `pg`'s connection that is used here. `@types/pg` does not declare all of it. */
type Wire = {
  readonly stream: Duplex
  parse(statement: Prepared): void
  bind(options: { readonly statement: string; readonly values: readonly Value[] }): void
  execute(options: null): void
  close(options: { readonly type: 'S'; readonly name: string }): void
  endCopyFrom(): void
  sync(): void
}

/** The header of a CopyData message (Postgres manual, "Message Formats"). */
const copyDataHead = (bytes: number): Buffer => {
  const head = Buffer.allocUnsafe(5)
  head.write('d', 'latin1')
  head.writeInt32BE(bytes + 4, 1)
  return head
}

const send = (wire: Wire, steps: readonly Step[], prepared: ReadonlyMap<string, string>): void => {
  const { stream } = wire
  stream.cork()
  for (const step of steps) {
    const { statement } = step
    if (prepared.get(statement.name) !== statement.text) {
      // Closed first: a failed transaction may have left it prepared. Closing a missing statement is no error.
      wire.close({ type: 'S', name: statement.name })
      wire.parse(statement)
    }
    wire.bind({ statement: statement.name, values: 'values' in step ? step.values : [] })
    wire.execute(null)
    if ('values' in step) continue
    stream.write(copyDataHead(step.copied.length))
    stream.write(step.copied)
    wire.endCopyFrom()
  }
  wire.sync()
  stream.uncork()
}

/** The text of each prepared name of a session. */
const preparedBy = new WeakMap<pg.ClientBase, Map<string, string>>()

/**
 * Runs steps as one transaction in one round trip: without a Sync between them Postgres treats them as one implicit
 * transaction and commits at the Sync (its manual, "Extended Query", "Pipelining"). After an error it skips all later
 * steps, including the data of a `copy`, and rolls back.
 *
 * A `copy` writes many rows with one record of the write-ahead log and extends its table by several pages at once,
 * which no `insert` does: bench/notes/orders-a-second.md, eighth round.
 *
 * Do not use it on a connection that is in a transaction: the steps would not be committed here.
 * @throws the driver's error of the first step that failed
 */
export const runPipeline = (client: pg.ClientBase, steps: readonly Step[]): Promise<readonly Answer[]> =>
  new Promise((resolve, reject) => {
    const prepared = preparedBy.get(client) ?? new Map<string, string>()
    preparedBy.set(client, prepared)
    const answers: (string | null)[][][] = [[]]
    const ignore = (): void => undefined
    const submittable = {
      submit: (connection: unknown) => send(connection as Wire, steps, prepared),
      handleDataRow: ({ fields }: { fields: (string | null)[] }) => answers.at(-1)?.push(fields),
      handleCommandComplete: () => answers.push([]),
      handleReadyForQuery: () => {
        for (const { statement } of steps)
          if (statement.name !== '') prepared.set(statement.name, statement.text)
        resolve(answers.slice(0, -1))
      },
      handleError: reject,
      handleRowDescription: ignore,
      handleCopyInResponse: ignore,
    }
    client.query(submittable)
  })

/** The most names. Further texts are sent unnamed, because each name keeps a plan in every session. */
const maxNames = 300

/**
 * Names statements by their text, so that Postgres parses and plans each once per session: most of the cost of a
 * small read in Postgres.
 */
const createStatementNames = (): ((text: string) => Prepared) => {
  const names = new Map<string, string>()
  return (text) => {
    const known = names.get(text)
    if (known) return { name: known, text }
    if (names.size >= maxNames) return { name: '', text }
    const name = `farebox_${names.size}`
    names.set(text, name)
    return { name, text }
  }
}

const namesBySession = new WeakMap<object, ReturnType<typeof createStatementNames>>()

/** The names of a session. All statements on it must use these: a name stands for one text until the session ends. */
export const statementNamesOf = (client: pg.ClientBase): ReturnType<typeof createStatementNames> => {
  const names = namesBySession.get(client) ?? createStatementNames()
  namesBySession.set(client, names)
  return names
}
