import ipaddr from 'ipaddr.js'
import type pg from 'pg'
import { writeInt8 } from '../../kernel/digest.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import {
  booleanArray,
  type CopyColumn,
  copyRows,
  type Format,
  int4Array,
  int8Array,
  runPipeline,
  type Step,
  statementNamesOf,
  textArray,
  timestamptzArray,
  type Value,
  writeBoolean,
  writeInt4,
  writeTimestamptz,
} from '../postgres/pipeline.ts'
import type { Session } from '../postgres/postgres-session.ts'
import {
  columnName,
  columnNames,
  fieldNames,
  fieldsSql,
  keyColumns,
  qualified,
  type Row,
} from './definition.ts'
import { foldBatch, type LoadRows, type PoisonEvent, type TableChange } from './fold-batch.ts'
import type { Column, ColumnType, ReadModel, Table, WorkFold } from './read-model.ts'
import { createRowCache } from './row-cache.ts'

type ToArray = (values: readonly unknown[]) => Buffer

const arrays: Partial<Record<ColumnType, ToArray>> = {
  text: textArray as ToArray,
  bigint: int8Array as ToArray,
  integer: int4Array as ToArray,
  boolean: booleanArray as ToArray,
  timestamptz: timestamptzArray as ToArray,
}

const element = (value: unknown): string =>
  value === null ? 'NULL' : `"${String(value).replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`

/** An array of texts in the text format of Postgres (its manual, "Array Value Input"). */
const arrayLiteral = (values: readonly unknown[]): string => `{${values.map(element).join(',')}}`

/** Types that are sent as text and cast by Postgres. */
const literals: Partial<Record<ColumnType, (value: unknown) => string>> = {
  jsonb: (value) => JSON.stringify(value),
  'text[]': (value) => arrayLiteral(value as readonly unknown[]),
  inet: (value) => value as string,
}

/** The type of the elements of `columnArray`. */
export const elementType = (type: ColumnType): ColumnType => (arrays[type] ? type : 'text')

const toArrayOf = (type: ColumnType): ToArray => {
  const literal = literals[type] as (value: unknown) => string
  return (
    arrays[type] ?? ((values) => textArray(values.map((value) => (value === null ? null : literal(value)))))
  )
}

/** The SQLSTATE of Postgres for a value that has no binary form of its type. */
const invalidBinaryRepresentation = '22P03'

/** An error for a row that Postgres would reject, with its SQLSTATE and its table, like an error of Postgres. */
export const invalidRow = (table: Table, name: string, cause: unknown): Error => {
  const reason = cause instanceof Error ? cause.message : cause
  const { type } = table.columns[name] as Column
  const error = new Error(`a row of ${table.name} has a ${columnName(name)} that is no ${type}: ${reason}`, {
    cause,
  })
  return Object.assign(error, { code: invalidBinaryRepresentation, table: table.name })
}

/**
 * One column of rows as an array in the binary format of Postgres. A missing value is null.
 * @throws an error with an SQLSTATE if a value is not of the column's type
 */
export const columnArray = (table: Table, name: string, rows: readonly Row[]): Buffer => {
  const { type } = table.columns[name] as Column
  try {
    return toArrayOf(type)(rows.map((row) => row[name] ?? null))
  } catch (cause) {
    throw invalidRow(table, name, cause)
  }
}

/** The format of `inet_recv` of Postgres: the family (in its own numbering), all bits, no network, the bytes. */
const inetBytes = (address: string): Buffer => {
  const bytes = ipaddr.parse(address).toByteArray()
  const family = bytes.length === 4 ? 2 : 3
  return Buffer.from([family, bytes.length * 8, 0, bytes.length, ...bytes])
}

const jsonbVersion = '\x01'

// biome-ignore lint/suspicious/noExplicitAny: the record has formats of many types
const formats: Readonly<Record<ColumnType, Format<any>>> = {
  text: { kind: 'text', text: (value: string) => value },
  bigint: { kind: 'fixed', bytes: 8, write: writeInt8 },
  integer: { kind: 'fixed', bytes: 4, write: writeInt4 },
  boolean: { kind: 'fixed', bytes: 1, write: writeBoolean },
  timestamptz: { kind: 'fixed', bytes: 8, write: writeTimestamptz },
  inet: { kind: 'bytes', bytes: inetBytes },
  jsonb: { kind: 'text', text: (value) => jsonbVersion + JSON.stringify(value) },
  'text[]': { kind: 'bytes', bytes: textArray },
}

const columnOf = (table: Table, name: string): CopyColumn<Row> => ({
  value: (row) => row[name],
  format: formats[(table.columns[name] as Column).type],
})

const columnsOf = new WeakMap<Table, readonly CopyColumn<Row>[]>()

const columnsIn = (table: Table): readonly CopyColumn<Row>[] => {
  const known = columnsOf.get(table)
  if (known) return known
  const columns = fieldNames(table).map((name) => columnOf(table, name))
  columnsOf.set(table, columns)
  return columns
}

/**
 * Rows of a table in the format of a binary `copy` of its columns. A missing value is null.
 * @throws an error with an SQLSTATE if a value is not of its column's type
 */
export const tableRows = (table: Table, rows: readonly Row[]): Buffer => {
  try {
    return copyRows(columnsIn(table), rows)
  } catch (cause) {
    for (const name of fieldNames(table))
      try {
        copyRows([columnOf(table, name)], rows)
      } catch (error) {
        throw invalidRow(table, name, error)
      }
    throw cause
  }
}

/** The step of a checkpoint. Rows are written only if log, owner and start position match the checkpoint. */
export type CheckpointStep = {
  readonly group: string
  readonly logId: string
  readonly epoch: number
  readonly from: number
  readonly to: number
  /** The id of the event at `to`. */
  readonly lastEvent: string
}

type Statement = { readonly text: string; readonly values: readonly Value[] }

/** Raises `movedOn` if the checkpoint is not at the start of the step. Then nothing after it is written. */
const checkpointSql =
  'select engine.move_checkpoint($1::text, $2::text, $3::bigint, $4::bigint, $5::bigint, $6::uuid)'

/** SQLSTATE of engine.move_checkpoint (projections/migrations.ts). */
const movedOn = 'FB001'

const copySql = (schema: string, table: Table): string =>
  `copy ${qualified(schema, table)} (${columnNames(table).join(', ')}) from stdin (format binary)`

/**
 * Rows as one binary array per column: no lookup by name, and only values without a binary form are parsed. The
 * arrays are unnested side by side in the select list, because in `from` Postgres would materialize their rows first.
 */
const upsertSql = (schema: string, table: Table): string => {
  const names = columnNames(table)
  const key = keyColumns(table)
  const values = Object.values(table.columns).map(({ type }, index) => {
    const value = `unnest($${index + 1}::${elementType(type)}[])`
    return elementType(type) === type ? value : `${value}::${type}`
  })
  const rest = names.filter((name) => !key.includes(name))
  const update = rest.map((name) => `${name} = excluded.${name}`).join(', ')
  return `insert into ${qualified(schema, table)} (${names.join(', ')}) select ${values.join(', ')}
    on conflict (${key.join(', ')}) do ${rest.length > 0 ? `update set ${update}` : 'nothing'}`
}

/** The keys of a parameter of `keyObjects` as rows. */
const keysSql = (table: Table): string => {
  const columns = table.key.map((field) => `${columnName(field)} ${table.columns[field]?.type}`)
  return `select ${keyColumns(table).join(', ')} from json_to_recordset($1::json) as k (${columns.join(', ')})`
}

const deleteSql = (schema: string, table: Table): string =>
  `delete from ${qualified(schema, table)} where (${keyColumns(table).join(', ')}) in
    (${keysSql(table)})`

const keyObjects = (table: Table, keys: readonly (readonly (string | number)[])[]): string => {
  const names = keyColumns(table)
  return JSON.stringify(keys.map((key) => Object.fromEntries(names.map((name, index) => [name, key[index]]))))
}

const checkpointStatement = ({ group, logId, epoch, from, to, lastEvent }: CheckpointStep): Statement => ({
  text: checkpointSql,
  values: [group, logId, String(epoch), String(from), String(to), lastEvent],
})

/** The statements that replace and remove rows of a table. */
const changeStatements = (schema: string, { table, put, removed }: TableChange): Statement[] => {
  const statements: Statement[] = []
  if (put.length > 0)
    statements.push({
      text: upsertSql(schema, table),
      values: fieldNames(table).map((name) => columnArray(table, name, put)),
    })
  if (removed.length > 0)
    statements.push({
      text: deleteSql(schema, table),
      values: [keyObjects(table, removed)],
    })
  return statements
}

const selectSql = (schema: string, table: Table): string => {
  const key = keyColumns(table)
  const condition = key.length === 1 ? `${key[0]} = any` : `(${key.join(', ')}) in`
  return `select ${fieldsSql(table)} from ${qualified(schema, table)} where ${condition} (
    ${keysSql(table)})`
}

export type BatchWriter = {
  readonly load: LoadRows
  /**
   * Writes in one transaction. False if the checkpoint was not at the start of the step: nothing was written.
   * @throws the error of Postgres, with the name of its `table`
   */
  write(tables: readonly TableChange[], checkpoint: CheckpointStep | null): Promise<boolean>
}

/**
 * Loads and writes the rows of one schema over one session. A load during the write of a batch sees the whole batch,
 * even if it takes several statements.
 */
export const createBatchWriter = (client: pg.Client, schema: string): BatchWriter => {
  const statementName = statementNamesOf(client)
  let underWay: Promise<unknown> = Promise.resolve()

  /** The checkpoint, then for each table the new rows, the replaced rows and the removed rows, each with its table. */
  const stepsOf = (
    tables: readonly TableChange[],
    checkpoint: CheckpointStep | null,
  ): readonly { readonly step: Step; readonly table: string | null }[] => {
    const run = ({ text, values }: Statement): Step => ({ statement: statementName(text), values })
    const ofTables = tables.flatMap((change) => {
      const { table, inserted } = change
      const copies: Step[] =
        inserted.length === 0
          ? []
          : [{ statement: statementName(copySql(schema, table)), copied: tableRows(table, inserted) }]
      const changes = changeStatements(schema, change).map(run)
      return [...copies, ...changes].map((step) => ({ step, table: table.name }))
    })
    return checkpoint ? [{ step: run(checkpointStatement(checkpoint)), table: null }, ...ofTables] : ofTables
  }

  const writeBatch = async (
    tables: readonly TableChange[],
    checkpoint: CheckpointStep | null,
  ): Promise<boolean> => {
    const steps = stepsOf(tables, checkpoint)
    try {
      await runPipeline(
        client,
        steps.map(({ step }) => step),
      )
      return true
    } catch (error) {
      const { code, step = -1 } = error as { code?: unknown; step?: number }
      if (code === movedOn) return false
      throw Object.assign(error as Error, { table: steps[step]?.table })
    }
  }

  return {
    load: async (table, keys) => {
      await underWay
      const parameter = keyObjects(table, keys)
      const { rows } = await client.query<Row>({
        ...statementName(selectSql(schema, table)),
        values: [parameter],
      })
      return rows
    },
    write: (tables, checkpoint) => {
      const written = writeBatch(tables, checkpoint)
      underWay = written.catch(() => undefined) // the caller of `write` gets the error
      return written
    },
  }
}

/**
 * Fills work tables from a batch, in the transaction that moves the checkpoint. Returns the number of written rows,
 * or null if the checkpoint was not at the start of the step: nothing was written.
 */
export const writeWork = async (
  client: pg.Client,
  work: WorkFold,
  events: readonly RecordedEvent[],
  checkpoint: CheckpointStep,
): Promise<number | null> => {
  const { text, values } = checkpointStatement(checkpoint)
  const move = () => client.query({ name: 'move-checkpoint', text, values: [...values] })
  try {
    if (events.length === 0) {
      await move()
      return 0
    }
    await client.query('begin')
    await move()
    const rows = await work.take(client, events)
    await client.query('commit')
    return rows
  } catch (error) {
    await client.query('rollback').catch(() => undefined)
    if ((error as { code?: unknown }).code === movedOn) return null
    throw error
  }
}

/** Folds events into the tables of a schema that were empty before the first event. */
export type Folding = {
  /**
   * Folds the next events in log order. It resolves while their rows are being written: the next call folds during
   * the write.
   * @returns the changes of the events
   * @throws PoisonEvent if a model cannot apply an event; nothing of this batch is written. Not with `onPoison`.
   */
  take(events: readonly RecordedEvent[]): Promise<readonly TableChange[]>
  /** Resolves when all rows are written. */
  written(): Promise<void>
}

export type FoldingOptions = {
  readonly session: Session
  readonly schema: string
  readonly models: readonly ReadModel[]
  /** Rows in memory; default 100,000. While all rows fit, none is selected. */
  readonly maxRows?: number
  /** Called with events that a model cannot apply. The model then skips them. */
  readonly onPoison?: (poison: PoisonEvent) => void
}

export const createFolding = (options: FoldingOptions): Folding => {
  const { session, schema, models, maxRows = 100_000, onPoison } = options
  const writer = createBatchWriter(session.client, schema)
  const cache = createRowCache({ maxRows, complete: true })
  let written: Promise<unknown> = Promise.resolve()
  return {
    async take(events) {
      // Loads wait for the write in progress, because both use the same session.
      const changes = await foldBatch({
        models,
        events,
        cache,
        load: writer.load,
        soleWriter: true,
        ...(onPoison && { onPoison }),
      })
      await written
      written = writer.write(changes.tables, null)
      written.catch(() => undefined) // the next caller that awaits the write gets the error
      changes.commit()
      return changes.tables
    },
    async written() {
      await written
    },
  }
}
