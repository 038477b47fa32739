import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import type pg from 'pg'
import { groups as allGroups } from '../../projections/groups.ts'
import { createCodec } from '../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../src/platform/eventstore/port.ts'
import { readCheckpoint } from '../../src/platform/projections/checkpoint.ts'
import { fieldsSql } from '../../src/platform/projections/definition.ts'
import type { ReadModelGroup, RowKey, Rows, Table } from '../../src/platform/projections/read-model.ts'
import { until } from './until.ts'

type Row = Readonly<Record<string, unknown>>

export type FoldDifference = {
  readonly table: string
  readonly key: string
  /** The row of the read table, and that of the fold of the log; null where there is no such row. */
  readonly live: Row | null
  readonly folded: Row | null
}

export type FoldComparison = {
  readonly events: number
  readonly rows: number
  readonly differences: readonly FoldDifference[]
}

/** The plainest thing that read models can be folded into: every row in a map, no batches, no cache. */
const createMemoryRows = () => {
  const tables = new Map<string, Map<string, Row>>()
  const rowsOf = (table: string): Map<string, Row> => {
    const known = tables.get(table) ?? new Map<string, Row>()
    tables.set(table, known)
    return known
  }
  const text = (key: RowKey['key']): string => JSON.stringify(key)
  const keyOf = (table: Table, row: Row): string => text(table.key.map((name) => row[name] as string))
  const rows: Rows = {
    get: <R extends object>(table: Table<R>, key: RowKey['key']) =>
      rowsOf(table.name).get(text(key)) as R | undefined,
    insert: (table, row) => {
      const key = keyOf(table as Table, row as Row)
      if (rowsOf(table.name).has(key)) throw new Error(`row ${key} of ${table.name} is inserted twice`)
      rowsOf(table.name).set(key, row as Row)
    },
    put: (table, row) => void rowsOf(table.name).set(keyOf(table as Table, row as Row), row as Row),
    remove: (table, key) => void rowsOf(table.name).delete(text(key)),
    attempt: () => assert.fail('no model here takes events in parts'),
    add: (table, row) => {
      const key = keyOf(table as Table, row as Row)
      if (rowsOf(table.name).has(key)) throw new Error(`a row of ${table.name} was added twice: ${key}`)
      rowsOf(table.name).set(key, row as Row)
    },
  }
  return { rows, rowsOf, keyOf }
}

const pageSize = 2000

const foldTo = async (log: EventLog, group: ReadModelGroup, position: number) => {
  const memory = createMemoryRows()
  const { decode } = createCodec()
  let after = 0
  let events = 0
  while (after < position) {
    const page = (await log.readAll(after, pageSize)).filter((event) => event.position <= position)
    for (const stored of page) {
      const event = decode(stored)
      for (const model of group.models) model.apply(event, memory.rows)
    }
    events += page.length
    after = page.at(-1)?.position ?? position
  }
  return { memory, events }
}

/** The tables and their checkpoint, in one snapshot. */
const readTables = async (pool: pg.Pool, group: ReadModelGroup) => {
  const client = await pool.connect()
  try {
    await client.query('begin isolation level repeatable read read only')
    const position = (await readCheckpoint(client, group.name))?.position ?? 0
    const tables: { readonly table: Table; readonly rows: readonly Row[] }[] = []
    for (const table of group.models.flatMap((model) => model.tables)) {
      const { rows } = await client.query<Row>(`select ${fieldsSql(table)} from read.${table.name}`)
      tables.push({ table, rows })
    }
    await client.query('commit')
    return { position, tables }
  } finally {
    client.release()
  }
}

/** Absent and null are the same in a table. */
const asStored = (table: Table, row: Row | undefined): Row | null =>
  row === undefined
    ? null
    : Object.fromEntries(Object.keys(table.columns).map((name) => [name, row[name] ?? null]))

/**
 * Folds the whole log in memory and compares the read tables with it, row by row. It waits until the
 * projections have passed the present head of the log; more may be appended meanwhile.
 * @throws when the projections do not pass that head within `timeoutMs` (default 30,000)
 */
export const compareWithLog = async (
  pool: pg.Pool,
  log: EventLog,
  { groups = allGroups, timeoutMs = 30_000 }: { groups?: readonly ReadModelGroup[]; timeoutMs?: number } = {},
): Promise<FoldComparison> => {
  const head = await log.head()
  const differences: FoldDifference[] = []
  let events = 0
  let compared = 0
  for (const group of groups) {
    await until(async () => ((await readCheckpoint(pool, group.name))?.position ?? 0) >= head, {
      timeoutMs,
      what: `group ${group.name} passing ${head}`,
    })
    const { position, tables } = await readTables(pool, group)
    const { memory, events: folded } = await foldTo(log, group, position)
    events += folded
    for (const { table, rows } of tables) {
      const expected = memory.rowsOf(table.name)
      for (const live of rows) {
        const key = memory.keyOf(table, live)
        const row = asStored(table, expected.get(key))
        expected.delete(key)
        if (!isDeepStrictEqual({ ...live }, row))
          differences.push({ table: table.name, key, live, folded: row })
      }
      for (const [key, row] of expected)
        differences.push({ table: table.name, key, live: null, folded: asStored(table, row) })
      compared += rows.length
    }
  }
  return { events, rows: compared, differences }
}
