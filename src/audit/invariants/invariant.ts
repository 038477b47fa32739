import type { KnownEvent } from '../../domain/events.ts'
import type { DomainEvent, RecordedEvent } from '../../kernel/event.ts'
import { trimEnd } from '../../kernel/formats.ts'
import { canonical } from '../../kernel/json-text.ts'
import {
  column,
  kindOfStream,
  nullable,
  type ReadModel,
  type RowKey,
  type RowOf,
  type Rows,
  readTable,
  type Table,
} from '../../platform/projections/read-model.ts'

type EventType = KnownEvent['type']
/** A recorded event of one of these types. */
export type Recorded<Type extends EventType> = Type extends EventType
  ? RecordedEvent<Extract<KnownEvent, { readonly type: Type }>>
  : never

/** The key of a row for `reads`. */
export const rowKey = (table: Table<never>, ...key: RowKey['key']): RowKey => ({ table: table.name, key })

/**
 * A violation of an event. The checks are folds like the read models, with their own tables that are dropped after the
 * verification, so that a log of any length is checked in bounded memory. They check the data of events, not the states
 * that decisions were based on.
 */
export const violationsTable = readTable({
  name: 'violations',
  columns: {
    position: column.bigint(),
    /** The name of one invariant, e.g. `wallet-below-zero`. An event violates each rule at most once. */
    rule: column.text(),
    problem: column.text(),
    eventId: column.text(),
    eventType: column.text(),
    stream: column.text(),
    /** The account that the event belongs to; null when the event does not name one. */
    accountId: nullable(column.text()),
  },
  key: ['position', 'rule'],
})

export type ViolationRow = RowOf<typeof violationsTable>

const accountIdPattern = /^acc_[0-9a-f]{32}$/

/** The part of a stream's name after the first dash. */
export const subjectOf = ({ stream }: { readonly stream: string }): string =>
  stream.slice(stream.indexOf('-') + 1)

/** The account in the name of a stream or in the event's data; null without one. */
export const accountOf = (event: { readonly stream: string; readonly data: unknown }): string | null => {
  const candidates = [subjectOf(event), (event.data as { accountId?: unknown } | null)?.accountId]
  const foundAccount = candidates.find((value) => typeof value === 'string' && accountIdPattern.test(value))
  return (foundAccount as string | undefined) ?? null
}

/** Reports a violation of the rule. */
export type Report = (rule: string, problem: string) => void

export const recordViolation = (rows: Rows, event: RecordedEvent, rule: string, problem: string): void =>
  rows.put(violationsTable, {
    position: event.position,
    rule,
    problem,
    eventId: event.id,
    eventType: event.type,
    stream: event.stream,
    accountId: accountOf(event),
  })

/** What a check reads, changes and reports. */
export type Context = { readonly rows: Rows; readonly report: Report }

/** Declares rules about events of several subjects: a check for each type of event. */
export const eventRules = <Type extends EventType>({
  name,
  version,
  tables,
  kind,
  reads,
  on,
}: {
  readonly name: string
  /** Increase it with every change of the tables, the checks or the texts. */
  readonly version: number
  // biome-ignore lint/suspicious/noExplicitAny: the list has tables of many row types
  readonly tables: readonly Table<any>[]
  /** Only events in streams of this kind (`ledger-`). */
  readonly kind?: `${string}-`
  /** The rows that the checks read. */
  readonly reads: (event: Recorded<NoInfer<Type>>) => readonly RowKey[]
  readonly on: { readonly [One in Type]: (event: Recorded<One>, context: Context) => void }
}): ReadModel => {
  const types = new Set(Object.keys(on))
  const isTaken = ({ type, stream }: RecordedEvent): boolean =>
    types.has(type) && (kind === undefined || kindOfStream(stream) === kind)
  return {
    name,
    version,
    tables,
    takes: { types },
    reads: (event) => (isTaken(event) ? reads(event as Recorded<Type>) : []),
    apply: (event, rows) => {
      if (!isTaken(event)) return
      const check = on[event.type as Type] as (event: RecordedEvent, context: Context) => void
      check(event, { rows, report: (rule, problem) => recordViolation(rows, event, rule, problem) })
    },
  }
}

/** The next row of the subject, null to remove it, or nothing to leave it. */
// biome-ignore lint/suspicious/noConfusingVoidType: a check without a result
type NextRow<Row> = Row | null | undefined | void

/**
 * Declares an invariant: a table with one row for each subject, and a check for each type of event, which reports
 * violations and returns the next row of the subject. The field `lastPosition` gets the position of the event.
 */
export const invariant = <
  Row extends object,
  Type extends EventType,
  Start extends Row | undefined = undefined,
>({
  table,
  tables = [],
  key,
  initial,
  reads = () => [],
  on,
  ...rest
}: {
  readonly name: string
  readonly version: number
  readonly table: Table<Row>
  /** Further tables, which the checks access through `rows`. */
  // biome-ignore lint/suspicious/noExplicitAny: the list has tables of many row types
  readonly tables?: readonly Table<any>[]
  readonly kind?: `${string}-`
  /** The key of the subject's row; null when the event has no subject, and is not checked. */
  readonly key: (event: Recorded<NoInfer<Type>>) => RowKey['key'] | string | null
  /** The row of a subject before its first event; omitted: none. */
  readonly initial?: (key: string) => Start
  /** Further rows that the checks read. */
  readonly reads?: (event: Recorded<NoInfer<Type>>) => readonly RowKey[]
  readonly on: {
    readonly [One in Type]: (event: Recorded<One>, row: Row | Start, context: Context) => NextRow<Row>
  }
}): ReadModel => {
  const hasPosition = 'lastPosition' in table.columns
  const keyOf = (event: Recorded<Type>): RowKey['key'] | null => {
    const found = key(event)
    return typeof found === 'string' ? [found] : found
  }
  type Check = (event: RecordedEvent, row: Row | Start, context: Context) => NextRow<Row>
  const withRow =
    (check: Check) =>
    (event: Recorded<Type>, context: Context): void => {
      const { rows } = context
      const subject = keyOf(event)
      if (subject === null) return
      const row = rows.get(table, subject) ?? (initial?.(String(subject[0])) as Start)
      const next = check(event, row, context)
      if (next === null) rows.remove(table, subject)
      else if (next !== undefined)
        rows.put(table, hasPosition ? { ...next, lastPosition: event.position } : next)
    }
  const checks = Object.entries(on).map(([type, check]) => [type, withRow(check as Check)])
  return eventRules<Type>({
    ...rest,
    tables: [table, ...tables],
    reads: (event) => {
      const subject = keyOf(event)
      return subject === null ? [] : [{ table: table.name, key: subject }, ...reads(event)]
    },
    on: Object.fromEntries(checks),
  })
}

/** The order that an event is about. */
export const orderIdOf = ({
  data,
}: {
  readonly data: { readonly orderId: string } | { readonly order: { readonly orderId: string } }
}): string => ('orderId' in data ? data.orderId : data.order.orderId)

type Fields = Readonly<Record<string, unknown>>

/** Whether two values are equal field by field, and therefore have the same meaning. */
const isEqual = (one: unknown, other: unknown): boolean => {
  if (one === other) return true
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false
  if (Array.isArray(one) || Array.isArray(other))
    return (
      Array.isArray(one) &&
      Array.isArray(other) &&
      one.length === other.length &&
      one.every((item, index) => isEqual(item, other[index]))
    )
  const names = Object.keys(one)
  return (
    names.length === Object.keys(other).length &&
    names.every(
      (name) => Object.hasOwn(other, name) && isEqual((one as Fields)[name], (other as Fields)[name]),
    )
  )
}

/**
 * Whether two JSON values have the same meaning, regardless of the order of their fields. A field that is undefined
 * counts as absent.
 */
export const isSameJson = (one: unknown, other: unknown): boolean =>
  isEqual(one, other) || JSON.stringify(canonical(one)) === JSON.stringify(canonical(other))

const valueText = (value: unknown): string => {
  const shown = value === undefined ? 'none' : JSON.stringify(value)
  return shown.length > 200 ? `${shown.slice(0, 200)}…` : shown
}

/** The fields in which two objects differ, in words: `bytes 6, not 5; unit "GB", not none`. */
export const describeDifferences = (stated: object, expected: object): string =>
  [...new Set([...Object.keys(stated), ...Object.keys(expected)])]
    .map((name) => [name, Reflect.get(stated, name), Reflect.get(expected, name)] as const)
    .filter(([, one, other]) => !isSameJson(one, other))
    .map(([name, one, other]) => `${name} ${valueText(one)}, not ${valueText(other)}`)
    .join('; ')

/**
 * Whether `decide` gives this event: `another` when it gives another type of event or none, else the differing fields
 * in words. Null when nothing differs.
 */
export const differenceFromDecision = (
  event: DomainEvent<string, object>,
  decided: DomainEvent<string, object> | null,
): 'another' | { readonly fields: string } | null => {
  if (decided?.type !== event.type) return 'another'
  return isSameJson(decided.data, event.data)
    ? null
    : { fields: describeDifferences(event.data, decided.data) }
}

/**
 * The time between reading a price, a key or terms and recording an event that uses them: a process reads them and
 * writes a moment later. Milliseconds.
 */
export const staleMs = 10 * 60 * 1000

/** The time of recording, in milliseconds. */
export const recordedMs = ({ metadata }: RecordedEvent): number => Date.parse(metadata.recordedAt)

/** Micro-dollars as dollars, exactly: `$12.3456`. */
export const inDollars = (micros: number): string => {
  const sign = micros < 0 ? '-' : ''
  const digits = Math.abs(micros).toString().padStart(7, '0')
  const cents = digits.slice(-6, -4)
  const fraction = trimEnd(digits.slice(-4), '0')
  return `${sign}$${digits.slice(0, -6)}.${cents}${fraction}`
}
