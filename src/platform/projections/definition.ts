import { createHash } from 'node:crypto'
import type { ReadModel, ReadModelGroup, Table } from './read-model.ts'

/** What filled a model's tables: kept beside the checkpoint, so that changed code is noticed. */
export type Definition = {
  readonly version: number
  /** Digest of version, tables and content: finds a table that was changed without a new version. */
  readonly digest: string
}

export type Definitions = Readonly<Record<string, Definition>>

/** Raise it when the engine makes its tables in another way: all of them are then made anew. */
const layout = 1

const tableShape = ({ name, columns, key, indexes, rewritten }: Table): unknown => [
  name,
  Object.entries(columns),
  key,
  indexes,
  ...(rewritten ? ['rewritten'] : []),
]

export const definitionOf = (model: ReadModel): Definition => ({
  version: model.version,
  digest: createHash('sha256')
    .update(
      JSON.stringify([
        layout,
        model.version,
        model.tables.map(tableShape),
        ...(model.content ? [model.content] : []),
      ]),
    )
    .digest('hex')
    .slice(0, 16),
})

export const definitionsOf = (models: readonly ReadModel[]): Definitions =>
  Object.fromEntries(models.map((model) => [model.name, definitionOf(model)]))

export type ModelStatus = {
  /** Their tables were filled by an older version, or under another definition, or never. */
  readonly outdated: readonly ReadModel[]
  /**
   * Names of the models that a newer program filled, those that this program does not know included. Moving the group's
   * checkpoint without folding them would leave them behind for ever.
   */
  readonly newer: readonly string[]
}

/**
 * How the tables that stand relate to the models of this program. A model that is taken out of a group leaves by a
 * migration, which drops its tables and its name in `engine.checkpoints.definitions`: else it counts as newer.
 */
export const compareDefinitions = (group: ReadModelGroup, stored: Definitions): ModelStatus => {
  const { models, work } = group
  const known = new Map([...models, ...(work ? [work] : [])].map(({ name, version }) => [name, version]))
  const newer = Object.entries(stored)
    .filter(([name, { version }]) => version > (known.get(name) ?? 0))
    .map(([name]) => name)
  const outdated = models.filter(
    (model) => !newer.includes(model.name) && stored[model.name]?.digest !== definitionOf(model).digest,
  )
  return { outdated, newer }
}

export type Row = Record<string, unknown>

/** Names go into SQL texts as they are, so they must need no quotes. */
const checkedName = (name: string): string => {
  if (!/^[a-z][a-z0-9_]*$/.test(name)) throw new Error(`${name} cannot be a table or column name`)
  return name
}

export const columnNames = (table: Table): readonly string[] => Object.keys(table.columns).map(checkedName)

/** `order_id text, amount_cents bigint`: as `json_to_recordset` and `create table` want them. */
export const columnList = (table: Table, names = columnNames(table)): string =>
  names.map((name) => `${name} ${table.columns[name]?.type}`).join(', ')

export const qualified = (schema: string, table: Table): string =>
  `${checkedName(schema)}.${checkedName(table.name)}`

/** Byte order: an index in a language's order breaks when the system's rules of that language change, and is slower. */
const definedType = (type: string | undefined): string => (type === 'text' ? 'text collate "C"' : `${type}`)

/** `unlogged`: for tables that nobody needs after a crash. */
export const createTableSql = (schema: string, table: Table, kind: 'unlogged' | '' = ''): string => {
  const columns = columnNames(table).map(
    (name) =>
      `${name} ${definedType(table.columns[name]?.type)}${table.columns[name]?.nullable ? '' : ' not null'}`,
  )
  const room = table.rewritten ? ' with (fillfactor = 50)' : ''
  return `create ${kind} table ${qualified(schema, table)} (${columns.join(', ')}, primary key (${table.key.join(', ')}))${room}`
}

export const createIndexSql = (schema: string, table: Table): readonly string[] =>
  table.indexes.map((index) => {
    if (index.startsWith('using ')) return `create index on ${qualified(schema, table)} ${index}`
    const [columns = '', condition] = index.split(' where ')
    const partial = condition === undefined ? '' : ` where ${condition}`
    return `create index on ${qualified(schema, table)} (${columns})${partial}`
  })

/** One text for a key within its table: no column of a key holds a NUL, for Postgres stores none. */
export const keyText = (key: readonly unknown[]): string => {
  const [only] = key
  // The text itself, so that its hash is known when the next one asks for the same row.
  return key.length === 1 && typeof only === 'string' ? only : key.join('\0')
}

export const keyOf = (table: Table, row: Row): readonly (string | number)[] =>
  table.key.map((name) => row[name] as string | number)
