import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type pg from 'pg'
import { from as copyFrom } from 'pg-copy-streams'
import { arrayLiteral } from './column-array.ts'
import type { ColumnType, Table } from './read-model.ts'
import { columnNames, qualified, type Row } from './table-sql.ts'

const special = /[\\\n\r\t]/
const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** A value's text as `copy` takes it (Postgres manual, "COPY", text format). */
const escaped = (text: string): string =>
  special.test(text) ? text.replaceAll(/[\\\n\r\t]/g, (found) => escapes[found] ?? found) : text

const texts: Readonly<Record<ColumnType, (value: unknown) => string>> = {
  text: (value) => escaped(value as string),
  bigint: String,
  integer: String,
  boolean: (value) => (value ? 't' : 'f'),
  timestamptz: (value) => value as string,
  inet: (value) => value as string,
  jsonb: (value) => escaped(JSON.stringify(value)),
  'text[]': (value) => escaped(arrayLiteral(value as readonly unknown[])),
}

/** Rows as the lines of a `copy`. */
const copyLines = (table: Table, rows: readonly Row[]): string => {
  const columns = Object.entries(table.columns).map(([name, { type }]) => ({ name, text: texts[type] }))
  let lines = ''
  for (const row of rows) {
    let separator = ''
    for (const { name, text } of columns) {
      const value = row[name]
      lines += separator + (value === null || value === undefined ? '\\N' : text(value))
      separator = '\t'
    }
    lines += '\n'
  }
  return lines
}

/**
 * Inserts rows by `copy`: a third of what the same rows cost as JSON, for Postgres looks no names up. It is a statement
 * of its own, so it is for tables that nobody reads yet.
 */
export const copyRows = async (
  client: pg.ClientBase,
  schema: string,
  table: Table,
  rows: readonly Row[],
): Promise<void> => {
  const sql = `copy ${qualified(schema, table)} (${columnNames(table).join(', ')}) from stdin`
  await pipeline(Readable.from([Buffer.from(copyLines(table, rows))]), client.query(copyFrom(sql)))
}
