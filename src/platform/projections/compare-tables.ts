import type pg from 'pg'
import { columnNames, keyColumns, qualified, type Row } from './definition.ts'
import type { Table } from './read-model.ts'

/** The first row, by key, that differs between two versions of a table. */
export type Difference = {
  readonly table: string
  readonly key: Row
  /** The first column that differs; null if one side has no such row. */
  readonly column: string | null
  /** The column's value, or the whole row if `column` is null; null if that side has no such row. */
  readonly live: unknown
  readonly rebuilt: unknown
}

/** One version of a table, and the session that reads it. */
type Version = { readonly client: pg.ClientBase; readonly schema: string }

/** `line`: the values of all columns as Postgres prints them. */
type PrintedRow = { readonly line: string; readonly row: Row }

/** Rows of a table that are compared by one digest. */
const blockRows = 5_000

const keysOf = (table: Table): string => keyColumns(table).join(', ')

const lineOf = (table: Table): string => `row(${columnNames(table).join(', ')})::text`

const readDigests = async ({ client, schema }: Version, table: Table, size: number) => {
  const { rows } = await client.query<{ digest: string }>(
    `select encode(sha256(convert_to(string_agg(line, E'\\n' order by place), 'UTF8')), 'hex') as digest
       from (select ${lineOf(table)} as line, row_number() over (order by ${keysOf(table)}) as place
               from ${qualified(schema, table)}) as lines
      group by (place - 1) / ${size} order by (place - 1) / ${size}`,
  )
  return rows.map(({ digest }) => digest)
}

const readBlock = async ({ client, schema }: Version, table: Table, block: number, size: number) => {
  const { rows } = await client.query<PrintedRow>(
    `select ${lineOf(table)} as line, to_jsonb(given) as row from ${qualified(schema, table)} as given
      order by ${keysOf(table)} offset ${block * size} limit ${size}`,
  )
  return rows
}

/** Whether a row comes before another by key. */
const isBefore = async (
  { client, schema }: Version,
  table: Table,
  one: Row,
  other: Row,
): Promise<boolean> => {
  const keysIn = (given: string): string =>
    `(${keyColumns(table)
      .map((name) => `${given}.${name}`)
      .join(', ')})`
  const rowIn = (value: string): string =>
    `jsonb_populate_record(null::${qualified(schema, table)}, ${value}::jsonb)`
  const { rowCount } = await client.query(
    `select from ${rowIn('$1')} as one, ${rowIn('$2')} as other where ${keysIn('one')} < ${keysIn('other')}`,
    [JSON.stringify(one), JSON.stringify(other)],
  )
  return rowCount === 1
}

/**
 * Compares two versions of a table, each read by its own session: so the session that reads rebuilt rows runs no code
 * that the owner of the live table wrote. Digests of blocks of rows find the first block that differs. Both versions
 * must be at the same position, and no other session may change them meanwhile.
 * @param size rows of a block
 */
export const compareTables = async (
  table: Table,
  live: Version,
  rebuilt: Version,
  size = blockRows,
): Promise<Difference | null> => {
  // Times are printed alike, whatever the settings of the roles. Whole tables are sorted.
  for (const { client } of [live, rebuilt])
    await client.query(
      `set timezone = 'UTC'; set datestyle = 'ISO'; set work_mem = '64MB'; set enable_seqscan = on`,
    )
  const [liveDigests, rebuiltDigests] = await Promise.all([
    readDigests(live, table, size),
    readDigests(rebuilt, table, size),
  ])
  const blocks = Math.max(liveDigests.length, rebuiltDigests.length)
  let block = 0
  while (block < blocks && liveDigests[block] === rebuiltDigests[block]) block += 1
  if (block === blocks) return null
  const liveRows = await readBlock(live, table, block, size)
  const rebuiltRows = await readBlock(rebuilt, table, block, size)
  const rows = Math.max(liveRows.length, rebuiltRows.length)
  let index = 0
  while (index < rows && liveRows[index]?.line === rebuiltRows[index]?.line) index += 1
  if (index === rows) throw new Error(`${table.name} changed while it was compared`)
  const [one, other] = [liveRows[index]?.row ?? null, rebuiltRows[index]?.row ?? null]
  const keyOf = (row: Row): Row => Object.fromEntries(keyColumns(table).map((name) => [name, row[name]]))
  const differs = (name: string): boolean => JSON.stringify(one?.[name]) !== JSON.stringify(other?.[name])
  if (one !== null && other !== null && !keyColumns(table).some(differs)) {
    const column = columnNames(table).find(differs) ?? null
    const partOf = (row: Row): unknown => (column === null ? row : row[column])
    return { table: table.name, key: keyOf(one), column, live: partOf(one), rebuilt: partOf(other) }
  }
  // The rows before are equal, so the first of these two has no counterpart.
  const isMissing = one === null || (other !== null && (await isBefore(rebuilt, table, other, one)))
  const row = (isMissing ? other : one) as Row
  return {
    table: table.name,
    key: keyOf(row),
    column: null,
    live: isMissing ? null : row,
    rebuilt: isMissing ? row : null,
  }
}

/** A difference as a message for the operator. */
export const differenceText = ({ table, key, column, live, rebuilt }: Difference): string => {
  const row = `${table} ${JSON.stringify(key)}`
  if (column === null)
    return live === null ? `${row}: the row was missing` : `${row}: the row should not have been there`
  return `${row}: ${column} was ${JSON.stringify(live)}, the log says ${JSON.stringify(rebuilt)}`
}
