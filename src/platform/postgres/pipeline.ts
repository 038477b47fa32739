import type { Duplex } from 'node:stream'
import type pg from 'pg'
import { writeInt8, writeUuid } from '../../kernel/digest.ts'
import { withTimeout } from '../../kernel/every.ts'

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
 * @throws the driver's error of the first step that failed, with its index as `step`
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
      handleError: (error: Error) => reject(Object.assign(error, { step: answers.length - 1 })),
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

const noAnswer = () => new Error('Postgres does not answer')

/** Settles as the answer does, or rejects after `timeoutMs` milliseconds. */
export const withAnswerTimeout = <Value>(answer: Promise<Value>, timeoutMs: number): Promise<Value> =>
  withTimeout(answer, timeoutMs, noAnswer)

const oids = { boolean: 16, int8: 20, int4: 23, text: 25, timestamptz: 1184, uuid: 2950 } as const

const headerBytes = 20

/** The header of a one-dimensional array in Postgres's binary format (array_send in its source). */
const withHeader = (elementType: number, length: number, bytes: number, nulls = false): Buffer => {
  const buffer = Buffer.allocUnsafe(headerBytes + bytes)
  buffer.writeInt32BE(1, 0)
  buffer.writeInt32BE(nulls ? 1 : 0, 4)
  buffer.writeInt32BE(elementType, 8)
  buffer.writeInt32BE(length, 12)
  buffer.writeInt32BE(1, 16)
  return buffer
}

/** Texts with characters outside ASCII: each is measured and written separately. */
const wideTextArray = (values: readonly (string | null)[]): Buffer => {
  let bytes = 0
  const sizes = values.map((value) => {
    const size = value === null ? -1 : Buffer.byteLength(value)
    bytes += 4 + Math.max(size, 0)
    return size
  })
  const buffer = withHeader(oids.text, values.length, bytes, sizes.includes(-1))
  let offset = headerBytes
  for (const [index, value] of values.entries()) {
    const size = sizes[index]!
    buffer.writeInt32BE(size, offset)
    offset += 4
    if (value === null) continue
    buffer.write(value, offset, size, 'utf8')
    offset += size
  }
  return buffer
}

/** A placeholder for the size of a text, which is written later. */
const sizeGap = '\0\0\0\0'

/**
 * Arrays as binary parameters: no text is quoted or parsed, which is most of the cost of a large batch
 * (docs/decisions/0002). `pg` sends a Buffer unchanged in binary format. If all texts are ASCII, they
 * are written as one string: 107 ns for a text of 55 characters instead of 493, 386 ns for one of 600 instead of 748.
 */
export const textArray = (values: readonly (string | null)[]): Buffer => {
  const joined = values.join(sizeGap)
  if (values.length === 0 || Buffer.byteLength(joined) !== joined.length) return wideTextArray(values)
  const buffer = withHeader(oids.text, values.length, sizeGap.length + joined.length, values.includes(null))
  buffer.write(joined, headerBytes + sizeGap.length, 'latin1')
  let offset = headerBytes
  for (const value of values) {
    const size = value === null ? -1 : value.length
    buffer.writeInt32BE(size, offset)
    offset += sizeGap.length + Math.max(size, 0)
  }
  return buffer
}

export const uuidArray = (values: readonly string[]): Buffer => {
  const buffer = withHeader(oids.uuid, values.length, 20 * values.length)
  let offset = headerBytes
  for (const value of values) {
    buffer.writeInt32BE(16, offset)
    writeUuid(buffer, value, offset + 4)
    offset += 20
  }
  return buffer
}

/** An array of elements of one size. `write` writes an element at an offset. */
const fixedArray = <Value>(
  elementType: number,
  size: number,
  values: readonly (Value | null)[],
  write: (buffer: Buffer, value: Value, offset: number) => void,
): Buffer => {
  let nulls = 0
  for (const value of values) if (value === null) nulls++
  const bytes = (4 + size) * values.length - size * nulls
  const buffer = withHeader(elementType, values.length, bytes, nulls > 0)
  let offset = headerBytes
  for (const value of values) {
    buffer.writeInt32BE(value === null ? -1 : size, offset)
    offset += 4
    if (value === null) continue
    write(buffer, value, offset)
    offset += size
  }
  return buffer
}

export const writeInt4 = (buffer: Buffer, value: number, offset: number): void => {
  buffer.writeInt32BE(value, offset)
}

export const int4Array = (values: readonly (number | null)[]): Buffer =>
  fixedArray(oids.int4, 4, values, writeInt4)

/** The values must be safe integers. */
export const int8Array = (values: readonly (number | null)[]): Buffer =>
  fixedArray(oids.int8, 8, values, writeInt8)

const postgresEpochMs = Date.UTC(2000, 0, 1)

/** Writes an ISO 8601 time with a precision of at most milliseconds. @throws RangeError if it is not a time */
export const writeTimestamptz = (buffer: Buffer, value: string, offset: number): void => {
  const ms = Date.parse(value) - postgresEpochMs
  if (Number.isNaN(ms)) throw new RangeError(`${value} is no instant`)
  const micros = ms * 1000
  if (Number.isSafeInteger(micros)) writeInt8(buffer, micros, offset)
  else buffer.writeBigInt64BE(BigInt(ms) * 1000n, offset)
}

export const timestamptzArray = (values: readonly (string | null)[]): Buffer =>
  fixedArray(oids.timestamptz, 8, values, writeTimestamptz)

export const writeBoolean = (buffer: Buffer, value: boolean, offset: number): void => {
  buffer.writeUInt8(value ? 1 : 0, offset)
}

export const booleanArray = (values: readonly (boolean | null)[]): Buffer =>
  fixedArray(oids.boolean, 1, values, writeBoolean)

// COPY in binary format (Postgres manual, "COPY", "Binary Format"): a header, then for each row the number of its
// fields and each field after its size (-1: null), then a trailer.
const head = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1')
const end = Buffer.from([0xff, 0xff])
const countBytes = 2
const sizeBytes = 4

/** The binary format of the values of one column. */
export type Format<Value> =
  /** The text in UTF-8. */
  | { readonly kind: 'text'; text(value: Value): string }
  | {
      readonly kind: 'fixed'
      readonly bytes: number
      write(buffer: Buffer, value: Value, offset: number): void
    }
  | { readonly kind: 'bytes'; bytes(value: Value): Buffer }

export type CopyColumn<Row> = {
  /** Null and undefined are written as null. */
  value(row: Row): unknown
  // biome-ignore lint/suspicious/noExplicitAny: the list has columns of many types
  readonly format: Format<any>
}

/** A placeholder for bytes that are written later. */
const gap = (bytes: number): string => '\0'.repeat(bytes)

/** Texts and bytes in the order of their fields. Each is created once. */
type Parts = (string | Buffer)[]

/** Joins all texts before they are written. For rows of short texts, separate writes took four times as long. */
const joined = <Row>(columns: readonly CopyColumn<Row>[], rows: readonly Row[], parts: Parts): string => {
  const count = gap(countBytes)
  const gaps = columns.map(({ format }) => (format.kind === 'fixed' ? gap(sizeBytes + format.bytes) : ''))
  let all = ''
  for (const row of rows) {
    all += count
    for (let index = 0; index < columns.length; index++) {
      const { value, format } = columns[index]!
      const cellValue = value(row)
      if (cellValue === null || cellValue === undefined) all += sizeGap
      else if (format.kind === 'fixed') all += gaps[index]
      else if (format.kind === 'text') {
        const text = format.text(cellValue)
        parts.push(text)
        all += sizeGap + text
      } else {
        const bytes = format.bytes(cellValue)
        parts.push(bytes)
        all += sizeGap + gap(bytes.length)
      }
    }
  }
  return all
}

/**
 * Rows in the format of `copy … from stdin (format binary)`, with the columns in the given order.
 * @throws the error of a column's format for a value that is not of its type
 */
export const copyRows = <Row>(columns: readonly CopyColumn<Row>[], rows: readonly Row[]): Buffer => {
  const parts: Parts = []
  const all = joined(columns, rows, parts)
  const bytes = Buffer.byteLength(all)
  const ascii = bytes === all.length
  const buffer = Buffer.allocUnsafe(head.length + bytes + end.length)
  head.copy(buffer)
  buffer.write(all, head.length, ascii ? 'latin1' : 'utf8')
  end.copy(buffer, head.length + bytes)
  let offset = head.length
  let part = 0
  const writePart = (written: string | Buffer, at: number): number => {
    if (typeof written !== 'string') return written.copy(buffer, at)
    return ascii ? written.length : Buffer.byteLength(written)
  }
  for (const row of rows) {
    buffer.writeInt16BE(columns.length, offset)
    offset += countBytes
    for (const { value, format } of columns) {
      const cellValue = value(row)
      const at = offset + sizeBytes
      let size = -1
      if (cellValue !== null && cellValue !== undefined)
        if (format.kind === 'fixed') {
          size = format.bytes
          format.write(buffer, cellValue, at)
        } else size = writePart(parts[part++]!, at)
      buffer.writeInt32BE(size, offset)
      offset = at + Math.max(size, 0)
    }
  }
  return buffer
}
