import type pg from 'pg'
import type { Table } from './read-model.ts'
import { columnNames, qualified, type Row } from './table-sql.ts'

/** The first row, by key, in which two fillings of a table differ. */
export type Difference = {
  readonly table: string
  readonly key: Row
  /** The first column that differs; null when one side has no such row. */
  readonly column: string | null
  /** The column's value, or the whole row when `column` is null; null when that side has no such row. */
  readonly live: unknown
  readonly rebuilt: unknown
}

type Found = { readonly live: Row | null; readonly rebuilt: Row | null }

const describe = (table: Table, { live, rebuilt }: Found): Difference => {
  const some = (live ?? rebuilt) as Row
  const key = Object.fromEntries(table.key.map((name) => [name, some[name]]))
  const column =
    live && rebuilt
      ? (columnNames(table).find((name) => JSON.stringify(live[name]) !== JSON.stringify(rebuilt[name])) ??
        null)
      : null
  return {
    table: table.name,
    key,
    column,
    live: live && column ? live[column] : live,
    rebuilt: rebuilt && column ? rebuilt[column] : rebuilt,
  }
}

/**
 * Compares a table of schema `read` with the one of the same name in another schema, byte for byte (`*<>` compares
 * stored images). Call it in one snapshot in which both stand at the same position.
 */
export const compareTables = async (
  client: pg.ClientBase,
  table: Table,
  schema: string,
): Promise<Difference | null> => {
  const on = table.key.map((name) => `live.${name} = rebuilt.${name}`).join(' and ')
  const order = table.key.map((name) => `coalesce(live.${name}, rebuilt.${name})`).join(', ')
  const [first] = table.key
  const { rows } = await client.query<Found>(
    `select to_jsonb(live) as live, to_jsonb(rebuilt) as rebuilt
     from ${qualified('read', table)} live full join ${qualified(schema, table)} rebuilt on ${on}
     where live.${first} is null or rebuilt.${first} is null or live *<> rebuilt
     order by ${order} limit 1`,
  )
  return rows[0] ? describe(table, rows[0]) : null
}

/** A difference as an operator reads it. */
export const differenceText = ({ table, key, column, live, rebuilt }: Difference): string => {
  const row = `${table} ${JSON.stringify(key)}`
  if (column === null)
    return live === null ? `${row}: the row was missing` : `${row}: the row should not have been there`
  return `${row}: ${column} was ${JSON.stringify(live)}, the log says ${JSON.stringify(rebuilt)}`
}
