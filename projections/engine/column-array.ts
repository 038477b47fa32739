import {
  booleanArray,
  int4Array,
  int8Array,
  textArray,
  timestamptzArray,
} from '../../src/platform/eventstore/postgres/arrays.ts'
import type { Column, ColumnType, Table } from './read-model.ts'
import type { Row } from './table-sql.ts'

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

/** An array of texts as Postgres reads it from a text (its manual, "Array Value Input"). */
const arrayLiteral = (values: readonly unknown[]): string => `{${values.map(element).join(',')}}`

/** Types that travel as a text, which Postgres casts. */
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

/** SQLSTATE of a value that has no binary form of its type: what Postgres would say of it. */
const invalidBinaryRepresentation = '22P03'

/** An error of a row that Postgres would refuse with its SQLSTATE. */
export const invalidRow = (table: Table, name: string, cause: unknown): Error => {
  const why = cause instanceof Error ? cause.message : cause
  const { type } = table.columns[name] as Column
  const error = new Error(`a row of ${table.name} has a ${name} that is no ${type}: ${why}`, { cause })
  return Object.assign(error, { code: invalidBinaryRepresentation })
}

/**
 * One column of rows as an array in Postgres's binary format; what is missing is null.
 * @throws an error with an SQLSTATE when a value is not of the column's type
 */
export const columnArray = (table: Table, name: string, rows: readonly Row[]): Buffer => {
  const { type } = table.columns[name] as Column
  try {
    return toArrayOf(type)(rows.map((row) => row[name] ?? null))
  } catch (cause) {
    throw invalidRow(table, name, cause)
  }
}
