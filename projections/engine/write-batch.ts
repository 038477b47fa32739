import type pg from 'pg'
import { createStatementNames } from '../../src/postgres/statement-names.ts'
import { columnArray, elementType } from './column-array.ts'
import { copyRows } from './copy-rows.ts'
import type { LoadRows, TableChange } from './fold-batch.ts'
import type { Column, Table } from './read-model.ts'
import { columnList, columnNames, qualified, type Row } from './table-sql.ts'

/** The step of a checkpoint that must hold for the rows to land: same log, same owner, same position as folded from. */
export type CheckpointStep = {
  readonly group: string
  readonly logId: string
  readonly epoch: number
  readonly from: number
  readonly to: number
  /** The id of the event at `to`. */
  readonly lastEvent: string
}

type Statement = { readonly text: string; readonly values: readonly unknown[] }

/**
 * Rows as one binary array a column: nothing is looked up by name, and only what has no binary form is parsed. The
 * arrays are unnested side by side in the list of columns: in `from` their rows would be written down first.
 */
const insertSql = (schema: string, table: Table, firstParameter: number, guard: string): string => {
  const names = columnNames(table)
  const values = names.map((name, index) => {
    const { type } = table.columns[name] as Column
    const value = `unnest($${firstParameter + index}::${elementType(type)}[])`
    return elementType(type) === type ? value : `${value}::${type}`
  })
  return `insert into ${qualified(schema, table)} (${names.join(', ')})
    select ${values.join(', ')} where ${guard}`
}

const upsertSql = (schema: string, table: Table, firstParameter: number, guard: string): string => {
  const rest = columnNames(table).filter((name) => !table.key.includes(name))
  const update = rest.map((name) => `${name} = excluded.${name}`).join(', ')
  return `${insertSql(schema, table, firstParameter, guard)}
    on conflict (${table.key.join(', ')}) do ${rest.length > 0 ? `update set ${update}` : 'nothing'}`
}

const deleteSql = (schema: string, table: Table, parameter: number, guard: string): string => {
  const names = table.key.join(', ')
  return `delete from ${qualified(schema, table)} where (${names}) in
    (select ${names} from json_to_recordset($${parameter}::json) as k (${columnList(table, table.key)})) and ${guard}`
}

const keyObject = (table: Table, key: readonly (string | number)[]): Row =>
  Object.fromEntries(table.key.map((name, index) => [name, key[index]]))

/**
 * One statement, and so one transaction, for a whole batch: an insert, an upsert and a delete a table, and the
 * checkpoint. A checkpoint that does not move as expected leaves every table alone.
 */
const writeStatement = (
  schema: string,
  tables: readonly TableChange[],
  step: CheckpointStep | null,
): Statement => {
  const values: unknown[] = step
    ? [step.to, step.group, step.logId, step.epoch, step.from, step.lastEvent]
    : []
  const parts: string[] = []
  const guard = step ? 'exists (select from moved)' : 'true'
  if (step)
    parts.push(`moved as (update engine.checkpoints set position = $1::bigint, last_event = $6::uuid
      where name = $2::text and log_id = $3::text and epoch = $4::bigint and position = $5::bigint returning 1)`)
  for (const { table, added, inserted, put, removed } of tables) {
    const rowsTo = (kind: string, sql: typeof insertSql, rows: readonly Row[]): void => {
      if (rows.length === 0) return
      parts.push(`${table.name}_${kind} as (${sql(schema, table, values.length + 1, guard)})`)
      for (const name of columnNames(table)) values.push(columnArray(table, name, rows))
    }
    rowsTo('added', insertSql, added)
    rowsTo('new', insertSql, inserted)
    rowsTo('put', upsertSql, put)
    if (removed.length > 0) {
      values.push(JSON.stringify(removed.map((key) => keyObject(table, key))))
      parts.push(`${table.name}_removed as (${deleteSql(schema, table, values.length, guard)})`)
    }
  }
  const result = step ? 'select 1 from moved' : 'select 1'
  return { text: parts.length > 0 ? `with ${parts.join(',\n')}\n${result}` : result, values }
}

const selectSql = (schema: string, table: Table): string => {
  const names = columnNames(table).join(', ')
  const [only] = table.key
  if (table.key.length === 1)
    return `select ${names} from ${qualified(schema, table)} where ${only} = any (
      select ${only} from json_to_recordset($1::json) as k (${columnList(table, table.key)}))`
  return `select ${names} from ${qualified(schema, table)} where (${table.key.join(', ')}) in (
    select ${table.key.join(', ')} from json_to_recordset($1::json) as k (${columnList(table, table.key)}))`
}

/** Where no checkpoint guards the batch, new rows go ahead of it by `copy`. Gives what is left to write. */
const copyInserted = async (
  client: pg.ClientBase,
  schema: string,
  tables: readonly TableChange[],
): Promise<readonly TableChange[]> => {
  for (const { table, inserted } of tables)
    if (inserted.length > 0) await copyRows(client, schema, table, inserted)
  return tables.map((change) => ({ ...change, inserted: [] }))
}

export type BatchWriter = {
  readonly load: LoadRows
  /** Resolves false when the checkpoint was not where the step starts: then nothing was written. */
  write(tables: readonly TableChange[], step: CheckpointStep | null): Promise<boolean>
}

/**
 * Loads and writes the rows of one schema over one session. A load that is asked for while a batch is written sees that
 * batch whole, however many statements it takes.
 */
export const createBatchWriter = (client: pg.Client, schema: string): BatchWriter => {
  const named = createStatementNames()
  let underWay: Promise<unknown> = Promise.resolve()
  const writeBatch = async (given: readonly TableChange[], step: CheckpointStep | null): Promise<boolean> => {
    const tables = step === null ? await copyInserted(client, schema, given) : given
    const { text, values } = writeStatement(schema, tables, step)
    const { rowCount } = await client.query({ ...named(text), values: [...values] })
    return rowCount === 1
  }
  return {
    load: async (table, keys) => {
      await underWay
      const parameter = JSON.stringify(keys.map((key) => keyObject(table, key)))
      const { rows } = await client.query<Row>({ ...named(selectSql(schema, table)), values: [parameter] })
      return rows
    },
    write: (given, step) => {
      const written = writeBatch(given, step)
      underWay = written.catch(() => undefined) // whoever wrote it is told
      return written
    },
  }
}
