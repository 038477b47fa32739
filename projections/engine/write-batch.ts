import type pg from 'pg'
import type { RecordedEvent } from '../../src/platform/eventstore/event.ts'
import { inOneTrip, type Step, type Value } from '../../src/platform/postgres/in-one-trip.ts'
import { statementNamesOf } from '../../src/platform/postgres/statement-names.ts'
import { columnArray, elementType } from './column-array.ts'
import type { LoadRows, TableChange } from './fold-batch.ts'
import type { Column, Table, WorkFold } from './read-model.ts'
import { tableRows } from './table-rows.ts'
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

type Statement = { readonly text: string; readonly values: readonly Value[] }

/** Raises `movedOn` when the checkpoint is not where the step starts: then nothing after it is written. */
const checkpointSql =
  'select engine.move_checkpoint($1::text, $2::text, $3::bigint, $4::bigint, $5::bigint, $6::uuid)'

/** SQLSTATE of engine.move_checkpoint (projections/migrations.ts). */
const movedOn = 'FB001'

const copySql = (schema: string, table: Table): string =>
  `copy ${qualified(schema, table)} (${columnNames(table).join(', ')}) from stdin (format binary)`

/**
 * Rows as one binary array a column: nothing is looked up by name, and only what has no binary form is parsed. The
 * arrays are unnested side by side in the list of columns: in `from` their rows would be written down first.
 */
const upsertSql = (schema: string, table: Table): string => {
  const names = columnNames(table)
  const values = names.map((name, index) => {
    const { type } = table.columns[name] as Column
    const value = `unnest($${index + 1}::${elementType(type)}[])`
    return elementType(type) === type ? value : `${value}::${type}`
  })
  const rest = names.filter((name) => !table.key.includes(name))
  const update = rest.map((name) => `${name} = excluded.${name}`).join(', ')
  return `insert into ${qualified(schema, table)} (${names.join(', ')}) select ${values.join(', ')}
    on conflict (${table.key.join(', ')}) do ${rest.length > 0 ? `update set ${update}` : 'nothing'}`
}

const deleteSql = (schema: string, table: Table): string => {
  const names = table.key.join(', ')
  return `delete from ${qualified(schema, table)} where (${names}) in
    (select ${names} from json_to_recordset($1::json) as k (${columnList(table, table.key)}))`
}

const keyObject = (table: Table, key: readonly (string | number)[]): Row =>
  Object.fromEntries(table.key.map((name, index) => [name, key[index]]))

const checkpointStatement = ({ group, logId, epoch, from, to, lastEvent }: CheckpointStep): Statement => ({
  text: checkpointSql,
  values: [group, logId, String(epoch), String(from), String(to), lastEvent],
})

/** What replaces and what removes rows of a table. */
const changeStatements = (schema: string, { table, put, removed }: TableChange): Statement[] => {
  const statements: Statement[] = []
  if (put.length > 0)
    statements.push({
      text: upsertSql(schema, table),
      values: columnNames(table).map((name) => columnArray(table, name, put)),
    })
  if (removed.length > 0)
    statements.push({
      text: deleteSql(schema, table),
      values: [JSON.stringify(removed.map((key) => keyObject(table, key)))],
    })
  return statements
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

export type BatchWriter = {
  readonly load: LoadRows
  /** In one transaction. Resolves false when the checkpoint was not where the step starts: then nothing was written. */
  write(tables: readonly TableChange[], checkpoint: CheckpointStep | null): Promise<boolean>
}

/**
 * Loads and writes the rows of one schema over one session. A load that is asked for while a batch is written sees that
 * batch whole, however many statements it takes.
 */
export const createBatchWriter = (client: pg.Client, schema: string): BatchWriter => {
  const named = statementNamesOf(client)
  let underWay: Promise<unknown> = Promise.resolve()

  /** In one transaction: the checkpoint, then of each table the rows that are new, those replaced and those removed. */
  const stepsOf = (tables: readonly TableChange[], checkpoint: CheckpointStep | null): Step[] => {
    const run = ({ text, values }: Statement): Step => ({ statement: named(text), values })
    const steps = checkpoint ? [run(checkpointStatement(checkpoint))] : []
    for (const change of tables) {
      const { table, inserted } = change
      if (inserted.length > 0)
        steps.push({ statement: named(copySql(schema, table)), copied: tableRows(table, inserted) })
      steps.push(...changeStatements(schema, change).map(run))
    }
    return steps
  }

  const writeBatch = async (
    tables: readonly TableChange[],
    checkpoint: CheckpointStep | null,
  ): Promise<boolean> => {
    try {
      await inOneTrip(client, stepsOf(tables, checkpoint))
      return true
    } catch (error) {
      if ((error as { code?: unknown }).code === movedOn) return false
      throw error
    }
  }

  return {
    load: async (table, keys) => {
      await underWay
      const parameter = JSON.stringify(keys.map((key) => keyObject(table, key)))
      const { rows } = await client.query<Row>({ ...named(selectSql(schema, table)), values: [parameter] })
      return rows
    },
    write: (tables, checkpoint) => {
      const written = writeBatch(tables, checkpoint)
      underWay = written.catch(() => undefined) // the caller of `write` is told
      return written
    },
  }
}

/**
 * Fills work tables from a batch, in the transaction that moves the checkpoint. Gives how many rows were written, or null
 * when the checkpoint was not where the step starts: then nothing was.
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
