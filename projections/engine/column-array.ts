import {
  booleanArray,
  int4Array,
  int8Array,
  textArray,
  timestamptzArray,
} from '../../src/eventstore/postgres/arrays.ts'
import type { ColumnType, Table } from './read-model.ts'
import type { Row } from './table-sql.ts'

type ToArray = (values: readonly unknown[]) => Buffer

const arrays: Partial<Record<ColumnType, ToArray>> = {
  text: textArray as ToArray,
  bigint: int8Array as ToArray,
  integer: int4Array as ToArray,
  boolean: booleanArray as ToArray,
  timestamptz: timestamptzArray as ToArray,
}

/**
 * One column of rows that only come, as an array in Postgres's binary format.
 * @throws for a type that it cannot send, and for a null where the column takes none
 */
export const columnArray = (table: Table, name: string, rows: readonly Row[]): Buffer => {
  const column = table.columns[name]
  const toArray = column && arrays[column.type]
  if (!toArray || (column.nullable && column.type !== 'text'))
    throw new Error(`${table.name}.${name}: rows that only come have no such column`)
  const values = rows.map((row) => row[name] ?? null)
  if (!column.nullable && values.includes(null)) throw new Error(`${table.name}.${name} is null in a row`)
  return toArray(values)
}
