import assert from 'node:assert/strict'
import type { DomainEvent, RecordedEvent } from '../../src/kernel/event.ts'
import type { StreamName } from '../../src/kernel/streams.ts'
import type { ReadModel, RowKey, Rows, Table } from '../../src/platform/projections/read-model.ts'

type Row = Readonly<Record<string, unknown>>

/** A read model folded in memory, every row in a map. */
export const foldInMemory = (
  model: ReadModel,
  events: readonly RecordedEvent[],
  // biome-ignore lint/suspicious/noExplicitAny: tables of many row types are in one list
  also: readonly Table<any>[] = [],
) => {
  const tables = new Map<string, Map<string, Row>>(
    [...model.tables, ...also].map(({ name }) => [name, new Map()]),
  )
  const rowsOf = ({ name }: Pick<Table, 'name'>): Map<string, Row> => {
    const rows = tables.get(name)
    if (!rows) throw new Error(`${model.name} has no table ${name}`)
    return rows
  }
  const text = (key: RowKey['key']): string => JSON.stringify(key)
  const put = (table: Table, row: Row): void => {
    rowsOf(table).set(text(table.key.map((name) => row[name] as string)), row)
  }
  const rows: Rows = {
    get: <R extends object>(table: Table<R>, key: RowKey['key']) =>
      rowsOf(table).get(text(key)) as R | undefined,
    put: (table, row) => put(table as Table, row as Row),
    add: (table, row) => put(table as Table, row as Row),
    attempt: () => assert.fail('no model here takes events in parts'),
    insert: (table, row) => put(table as Table, row as Row),
    remove: (table, key) => void rowsOf(table).delete(text(key)),
  }
  for (const event of events) model.apply(event, rows)
  return <R extends object>(table: Table<R>): readonly R[] => [...rowsOf(table).values()] as readonly R[]
}

/** Events of an account in the order of a log, one second apart. */
export const logOf = (accountId: string, ...events: readonly DomainEvent[]): readonly RecordedEvent[] =>
  events.map((event, at) => ({
    ...event,
    id: `00000000-0000-7000-8000-${String(at).padStart(12, '0')}`,
    stream: `ledger-${accountId}` as StreamName,
    revision: at,
    position: at + 1,
    metadata: {
      correlationId: 'test',
      causationId: null,
      actor: { kind: 'system', name: 'test' },
      recordedAt: new Date(Date.UTC(2026, 10, 21, 12, 0, at)).toISOString(),
    },
  }))
