import ipaddr from 'ipaddr.js'
import { writeInt8 } from '../../src/kernel/binary.ts'
import {
  textArray,
  writeBoolean,
  writeInt4,
  writeTimestamptz,
} from '../../src/platform/eventstore/postgres/arrays.ts'
import { type CopyColumn, copyRows, type Format } from '../../src/platform/postgres/copy-rows.ts'
import { invalidRow } from './column-array.ts'
import type { Column, ColumnType, Table } from './read-model.ts'
import { columnNames, type Row } from './table-sql.ts'

/** As `inet_recv` of Postgres reads it: the family (of its own numbering), all bits, no network, the bytes. */
const inetBytes = (address: string): Buffer => {
  const bytes = ipaddr.parse(address).toByteArray()
  const family = bytes.length === 4 ? 2 : 3
  return Buffer.from([family, bytes.length * 8, 0, bytes.length, ...bytes])
}

const jsonbVersion = '\x01'

// biome-ignore lint/suspicious/noExplicitAny: formats of many types stand in one list
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
  const columns = columnNames(table).map((name) => columnOf(table, name))
  columnsOf.set(table, columns)
  return columns
}

/**
 * Rows of a table as a binary `copy` of its columns takes them; what is missing is null.
 * @throws an error with an SQLSTATE when a value is not of its column's type
 */
export const tableRows = (table: Table, rows: readonly Row[]): Buffer => {
  try {
    return copyRows(columnsIn(table), rows)
  } catch (cause) {
    for (const name of columnNames(table))
      try {
        copyRows([columnOf(table, name)], rows)
      } catch (error) {
        throw invalidRow(table, name, error)
      }
    throw cause
  }
}
