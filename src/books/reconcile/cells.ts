import { type Decimal, parseDecimalText } from '../../money/payments/decimal.ts'
import type { CsvRecord } from './csv-records.ts'
import { FileProblem, shown } from './problem.ts'

/** Headings are told apart by their letters and digits alone: `Payment ID`, `payment_id` and `PaymentId` are one. */
export const headingKey = (heading: string): string => heading.toLowerCase().replace(/[^a-z0-9]/g, '')

/** The cells of a record by the names of their columns. A name that the heading has not reads as empty. */
export type Cells = {
  readonly line: number
  /** Without spaces around it; may be empty. */
  text(column: string): string
  /** 1 to 200 printable characters. @throws FileProblem */
  id(column: string): string
  /** As `id`; null for an empty cell. @throws FileProblem */
  idOrNull(column: string): string | null
  /** A decimal number with a point. @throws FileProblem */
  decimal(column: string): Decimal
  /** Dollars, or another currency, as micro-units; exact, unless `round` says how. @throws FileProblem */
  micros(column: string, round?: (value: Decimal) => bigint | null): bigint
  /** The first of these columns that the file has, as ISO 8601 UTC. @throws FileProblem */
  time(...columns: readonly string[]): string
  /** Letters and digits, in lower case. @throws FileProblem */
  currency(column: string): string
  problem(column: string, accepted: string): FileProblem
}

const amountForm = 'an amount is digits with a point, such as 12.50 or -3'
const timeForm =
  'a time is written 2026-11-21, 2026-11-21 02:30:00 (UTC) or with an offset, such as 2026-11-21T02:30:00+02:00'

const timeText = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d(?:\.\d{1,9})?)? ?(Z|UTC|[+-]\d\d:?\d\d)?)?$/

/** ISO 8601 UTC; null for what is no time of a year from 1970 on. */
export const parseTime = (text: string): string | null => {
  const match = timeText.exec(text)
  if (!match) return null
  const [, day, minute = '00:00', second = ':00', zone = 'Z'] = match
  const offset = zone === 'UTC' ? 'Z' : zone.replace(/^([+-]\d\d)(\d\d)$/, '$1:$2')
  const ms = Date.parse(`${day}T${minute}${second.slice(0, 7)}${offset}`)
  // A day that its month has not, such as February 30, is no day.
  const isDay = !Number.isNaN(ms) && new Date(`${day}T00:00:00Z`).toISOString().startsWith(day as string)
  return isDay && ms >= 0 ? new Date(ms).toISOString() : null
}

/** Whole micro-units; null where the number has finer parts. */
export const exactMicros = ({ digits, scale }: Decimal): bigint | null => {
  const up = digits * 1_000_000n
  const down = 10n ** BigInt(scale)
  return up % down === 0n ? up / down : null
}

/** The number as digits with a point, nothing rounded. */
export const plainDecimal = ({ digits, scale }: Decimal): string => {
  const size = String(digits < 0n ? -digits : digits).padStart(scale + 1, '0')
  const whole = size.slice(0, size.length - scale)
  const text = scale === 0 ? whole : `${whole}.${size.slice(size.length - scale)}`
  return digits < 0n ? `-${text}` : text
}

/** The largest amount that is read, either sign: a hundred times what a wallet may hold. */
const mostMicros = 900_000_000_000_000_000n

/** @param columns where each column stands, by `headingKey` */
export const cellsOf = (columns: ReadonlyMap<string, number>, { line, cells }: CsvRecord): Cells => {
  const text = (column: string): string => (cells[columns.get(headingKey(column)) ?? -1] ?? '').trim()
  const problem = (column: string, accepted: string): FileProblem =>
    new FileProblem(
      line,
      `${text(column) === '' ? 'it is empty' : `${shown(text(column))} is not it`}; ${accepted}`,
      column,
    )
  const idOrNull = (column: string): string | null => {
    const value = text(column)
    if (value === '') return null
    if (!/^[^\p{C}]{1,200}$/u.test(value)) throw problem(column, 'an id is 1 to 200 printable characters')
    return value
  }
  const decimal = (column: string): Decimal => {
    const value = parseDecimalText(text(column))
    if (value === null) throw problem(column, amountForm)
    return value
  }
  return {
    line,
    text,
    idOrNull,
    decimal,
    problem,
    id: (column) => {
      const value = idOrNull(column)
      if (value === null) throw problem(column, 'an id is 1 to 200 printable characters')
      return value
    },
    micros: (column, round = exactMicros) => {
      const micros = round(decimal(column))
      if (micros === null) throw problem(column, `${amountForm}, with six decimals at most`)
      if (micros > mostMicros || micros < -mostMicros)
        throw problem(column, 'an amount is less than 900,000,000,000')
      return micros
    },
    time: (...named) => {
      const column = named.find((name) => columns.has(headingKey(name))) ?? (named[0] as string)
      const at = parseTime(text(column))
      if (at === null) throw problem(column, timeForm)
      return at
    },
    currency: (column) => {
      const value = text(column).toLowerCase()
      if (!/^[a-z0-9]{2,20}$/.test(value))
        throw problem(column, 'a currency is 2 to 20 letters and digits, e.g. usd')
      return value
    },
  }
}
