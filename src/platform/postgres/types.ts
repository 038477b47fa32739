import pg from 'pg'

const int8 = 20
const int8Array = 1016
const timestamptz = 1184
const timestamptzArray = 1185

const safeNumber = (text: string): number => {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError(`bigint ${text} is not a safe integer`)
  return value
}

// What Postgres prints under `timezone=UTC` and `datestyle=ISO`: 2026-11-21 02:30:00.123456+00
const utcText = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\+00$/

const isoText = (text: string): string => {
  const parts = utcText.exec(text)
  if (!parts) throw new RangeError(`timestamptz ${text} is not a time in UTC between the years 0001 and 9999`)
  return `${parts[1]}T${parts[2]}.${(parts[3] ?? '').slice(0, 3).padEnd(3, '0')}Z`
}

const arrayOf =
  <Value>(parse: (text: string) => Value) =>
  (text: string): (Value | null)[] =>
    text === '{}'
      ? []
      : text
          .slice(1, -1)
          .split(',')
          .map((item) => (item === 'NULL' ? null : parse(item.replaceAll('"', ''))))

/**
 * How column values are read: int8 as a number that is asserted to be safe, timestamptz as ISO 8601 UTC text with
 * milliseconds (finer digits are cut), arrays of both alike; everything else as `pg` does, so numeric stays text.
 */
export const registerTypes = (): pg.CustomTypesConfig => {
  const types = new pg.TypeOverrides()
  types.setTypeParser(int8, safeNumber)
  types.setTypeParser(int8Array, arrayOf(safeNumber))
  types.setTypeParser(timestamptz, isoText)
  types.setTypeParser(timestamptzArray, arrayOf(isoText))
  return types
}
