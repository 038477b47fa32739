import { createHash } from 'node:crypto'
import { isIP } from 'node:net'
import { isStorableJson } from '../../kernel/json-text.ts'
import type { Column, ColumnType, ReadModel, ReadModelGroup, Table } from './read-model.ts'

/** What filled a model's tables. Stored with the checkpoint, so that changed code is detected. */
export type Definition = {
  readonly version: number
  /** Digest of the version, the tables and the content. It detects a table that was changed without a new version. */
  readonly digest: string
}

export type Definitions = Readonly<Record<string, Definition>>

/** Increase it when the engine creates its tables in another way. Then all tables are rebuilt. */
const layout = 1

const tableShape = ({ name, columns, key, indexes = [], rewritten }: Table): unknown => [
  name,
  Object.entries(columns).map(([field, column]) => [columnName(field), column]),
  key.map(columnName),
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
  /** Models whose tables were filled by an older version, were filled under another definition, or never filled. */
  readonly outdated: readonly ReadModel[]
  /**
   * Names of the models that a newer program filled, including models that this program does not have. They would
   * miss events if this program advanced the group's checkpoint.
   */
  readonly newer: readonly string[]
}

/**
 * Compares the stored definitions with the models of this program. To remove a model from a group, write a migration
 * that drops its tables and its name in `engine.checkpoints.definitions`. Otherwise the model counts as newer.
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

/** Names are used in SQL without quotes, so they must need none. */
const checkedName = (name: string): string => {
  if (!/^[a-z][a-z0-9_]*$/.test(name)) throw new Error(`${name} cannot be a table or column name`)
  return name
}

/** `order_id`: the column of the field `orderId`. */
export const columnName = (field: string): string =>
  checkedName(field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`))

/** The names of the fields of a table's rows. */
export const fieldNames = (table: Table): readonly string[] => Object.keys(table.columns)

export const columnNames = (table: Table): readonly string[] => fieldNames(table).map(columnName)

/** The columns of a table under the names of the fields: `order_id as "orderId"`. */
export const fieldsSql = (table: Table, alias = ''): string =>
  fieldNames(table)
    .map((field) => `${alias === '' ? '' : `${alias}.`}${columnName(field)} as "${field}"`)
    .join(', ')

export const keyColumns = (table: Table): readonly string[] => table.key.map(columnName)

export const qualified = (schema: string, table: Table): string =>
  `${checkedName(schema)}.${checkedName(table.name)}`

/** Byte order. The order of a language is slower, and its indexes break when the system changes its rules. */
const definedType = (type: string): string => (type === 'text' ? 'text collate "C"' : type)

/** `unlogged`: for tables that are not needed after a crash. */
export const createTableSql = (schema: string, table: Table, kind: 'unlogged' | '' = ''): string => {
  const columns = Object.entries(table.columns).map(
    ([field, { type, nullable }]) =>
      `${columnName(field)} ${definedType(type)}${nullable ? '' : ' not null'}`,
  )
  const storageClause = table.rewritten ? ' with (fillfactor = 50)' : ''
  return `create ${kind} table ${qualified(schema, table)} (${columns.join(', ')}, primary key (${keyColumns(table).join(', ')}))${storageClause}`
}

export const createIndexSql = (schema: string, table: Table): readonly string[] =>
  (table.indexes ?? []).map((index) => {
    if (index.startsWith('using ')) return `create index on ${qualified(schema, table)} ${index}`
    const [columns = '', condition] = index.split(' where ')
    const partial = condition === undefined ? '' : ` where ${condition}`
    return `create index on ${qualified(schema, table)} (${columns})${partial}`
  })

/** A key as one text, unique within its table: Postgres stores no NUL, so no column of a key contains one. */
export const keyText = (key: readonly unknown[]): string => {
  const [single] = key
  // The same string object: its hash is already computed when the row is read again.
  return key.length === 1 && typeof single === 'string' ? single : key.join('\0')
}

export const keyOf = (table: Table, row: Row): readonly (string | number)[] =>
  table.key.map((name) => row[name] as string | number)

const isText = (value: unknown): boolean => typeof value === 'string' && !value.includes('\0')
/** A value that JSON can express and `jsonb` can store. */
const isJson = (value: unknown): boolean => {
  const json: string | undefined = JSON.stringify(value)
  return json !== undefined && isStorableJson(json)
}
const isTime = (value: unknown): boolean => typeof value === 'string' && !Number.isNaN(Date.parse(value))
const isInteger = (max: number) => (value: unknown) =>
  Number.isInteger(value) && Math.abs(value as number) <= max
const int4Most = 2_147_483_647
const networkForm = /^([0-9a-fA-F:.]+)(?:\/(\d{1,3}))?$/
const isNetwork = (value: unknown): boolean => {
  const [, address = '', bits = '0'] = networkForm.exec(String(value)) ?? []
  const family = isIP(address)
  return family !== 0 && Number(bits) <= (family === 4 ? 32 : 128)
}

const fits: Readonly<Record<ColumnType, (value: unknown) => boolean>> = {
  text: isText,
  bigint: isInteger(Number.MAX_SAFE_INTEGER),
  integer: isInteger(int4Most),
  boolean: (value) => typeof value === 'boolean',
  timestamptz: isTime,
  jsonb: isJson,
  'text[]': (value) => Array.isArray(value) && value.every(isText),
  inet: isNetwork,
}

type Field = { readonly name: string; readonly type: ColumnType; readonly nullable: boolean }

const fieldsOf = new WeakMap<Table, readonly Field[]>()
const fieldsIn = (table: Table): readonly Field[] => {
  let fields = fieldsOf.get(table)
  if (!fields) {
    fields = Object.entries<Column>(table.columns).map(([name, { type, nullable = false }]) => ({
      name,
      type,
      nullable,
    }))
    fieldsOf.set(table, fields)
  }
  return fields
}

/** Why Postgres would reject a row of a table; null if it would accept it. */
export const rowProblem = (table: Table, row: Row): string | null => {
  for (const { name, type, nullable } of fieldsIn(table)) {
    const value = row[name] ?? null
    if (value === null ? !nullable : !fits[type](value))
      return `a row of ${table.name} would have a ${columnName(name)} that is ${value === null ? 'missing' : `no ${type}`}`
  }
  return null
}

/** Why no row of a table can have this key; null if a row can have it. */
export const keyProblem = (table: Table, key: readonly unknown[]): string | null => {
  for (let at = 0; at < table.key.length; at += 1) {
    const name = table.key[at] as string
    const { type } = table.columns[name] as Column
    if (!fits[type](key[at]))
      return `no row of ${table.name} can have a ${columnName(name)} that is no ${type}`
  }
  return null
}
