import type { RecordedEvent } from '../../kernel/event.ts'
import { trimEnd } from '../../kernel/formats.ts'
import { canonical } from '../../kernel/json-text.ts'
import type { Rows, Table } from '../../platform/projections/read-model.ts'

type Fields = Readonly<Record<string, unknown>>

/** Whether two values are equal field by field, and therefore have the same meaning. */
const isEqual = (one: unknown, other: unknown): boolean => {
  if (one === other) return true
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false
  if (Array.isArray(one))
    return (
      Array.isArray(other) &&
      one.length === other.length &&
      one.every((item, index) => isEqual(item, other[index]))
    )
  if (Array.isArray(other)) return false
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
  const text = value === undefined ? 'none' : JSON.stringify(value)
  return text.length > 200 ? `${text.slice(0, 200)}…` : text
}

/** The fields in which two objects differ, in words: `bytes 6, not 5; unit "GB", not none`. */
export const describeDifferences = (stated: object, expected: object): string =>
  [...new Set([...Object.keys(stated), ...Object.keys(expected)])]
    .map((name) => [name, Reflect.get(stated, name), Reflect.get(expected, name)] as const)
    .filter(([, one, other]) => !isSameJson(one, other))
    .map(([name, one, other]) => `${name} ${valueText(one)}, not ${valueText(other)}`)
    .join('; ')

/**
 * A violation of an event. The checks are folds like the read models, with their own tables that are dropped after the
 * verification, so that a log of any length is checked in bounded memory. They check the data of events, not the states
 * that decisions were based on.
 */
export type ViolationRow = {
  position: number
  rule: string
  problem: string
  event_id: string
  event_type: string
  stream: string
  /** The account that the event belongs to; null when the event does not name one. */
  account_id: string | null
}

export const violationsTable: Table<ViolationRow> = {
  name: 'violations',
  columns: {
    position: { type: 'bigint' },
    rule: { type: 'text' },
    problem: { type: 'text' },
    event_id: { type: 'text' },
    event_type: { type: 'text' },
    stream: { type: 'text' },
    account_id: { type: 'text', nullable: true },
  },
  key: ['position', 'rule'],
  indexes: [],
}

const accountIdPattern = /^acc_[0-9a-f]{32}$/

/** The account in the name of a stream or in the event's data; null without one. */
export const accountOf = ({
  stream,
  data,
}: {
  readonly stream: string
  readonly data: unknown
}): string | null => {
  const candidates = [
    stream.slice(stream.indexOf('-') + 1),
    (data as { accountId?: unknown } | null)?.accountId,
  ]
  const foundAccount = candidates.find((text) => typeof text === 'string' && accountIdPattern.test(text))
  return (foundAccount as string | undefined) ?? null
}

/**
 * Records a violation. `rule` names one invariant, e.g. `wallet-below-zero`. An event violates each rule at most once.
 */
export const recordViolation = (rows: Rows, event: RecordedEvent, rule: string, problem: string): void =>
  rows.put(violationsTable, {
    position: event.position,
    rule,
    problem,
    event_id: event.id,
    event_type: event.type,
    stream: event.stream,
    account_id: accountOf(event),
  })

/** Micro-dollars as dollars, exactly: `$12.3456`. */
export const inDollars = (micros: number): string => {
  const sign = micros < 0 ? '-' : ''
  const digits = Math.abs(micros).toString().padStart(7, '0')
  const cents = digits.slice(-6, -4)
  const fraction = trimEnd(digits.slice(-4), '0')
  return `${sign}$${digits.slice(0, -6)}.${cents}${fraction}`
}
