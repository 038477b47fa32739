import { isIP } from 'node:net'
import { columnName, type Row } from './definition.ts'
import type { Column, ColumnType, Table } from './read-model.ts'

const isText = (value: unknown): boolean => typeof value === 'string' && !value.includes('\0')
/** A value that JSON can express and `jsonb` can store. */
const isStorableJson = (value: unknown): boolean => {
  if (typeof value === 'string') return isText(value)
  if (typeof value !== 'object' || value === null) return value !== undefined
  return Object.entries(value).every(
    ([name, inner]) => isText(name) && (inner === undefined || isStorableJson(inner)),
  )
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
  jsonb: isStorableJson,
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
