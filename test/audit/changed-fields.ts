import { createEventReader } from '../../src/audit/checks/event-reader.ts'
import type { ViolationRow } from '../../src/audit/invariants/invariant.ts'
import type { RecordedEvent } from '../../src/kernel/event.ts'
import type { StoredEvent } from '../../src/platform/eventstore/port.ts'
import { memoryInvariants } from './memory-invariants.ts'

type Path = readonly (string | number)[]
type Leaf = { readonly path: Path; readonly value: unknown }

/** `order.items[].priceMicros` */
export const fieldOf = (path: Path): string =>
  path.map((step, at) => (typeof step === 'number' ? '[]' : at === 0 ? step : `.${step}`)).join('')

/** Every value of an event's data that holds no other, and lists as a whole. */
const leavesOf = (value: unknown, path: Path = []): readonly Leaf[] => {
  if (Array.isArray(value))
    return [{ path, value }, ...value.slice(0, 1).flatMap((item, at) => leavesOf(item, [...path, at]))]
  if (typeof value === 'object' && value !== null)
    return Object.entries(value).flatMap(([name, inner]) => leavesOf(inner, [...path, name]))
  return [{ path, value }]
}

const withValue = (data: unknown, [step, ...rest]: Path, value: unknown): unknown => {
  if (step === undefined) return value
  if (Array.isArray(data)) return data.map((item, at) => (at === step ? withValue(item, rest, value) : item))
  const { [step]: inner, ...others } = data as Record<string, unknown>
  const changed = withValue(inner, rest, value)
  return changed === undefined ? others : { ...others, [step]: changed }
}

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/
const id = /^([a-z]+_)/
const dayMs = 86_400_000

/** Values of the same kind as a given one. */
const others = (
  value: unknown,
  same: readonly unknown[],
  ids: ReadonlyMap<string, Set<string>>,
): readonly unknown[] => {
  const here = same.filter((one) => JSON.stringify(one) !== JSON.stringify(value)).slice(0, 3)
  if (Array.isArray(value)) return [value.slice(1), [...value, ...value.slice(-1)], ...here]
  if (typeof value === 'number') return [value + 1, value - 1, ...here]
  if (typeof value === 'boolean') return [!value, ...here]
  if (typeof value !== 'string') return here
  if (time.test(value))
    return [-dayMs, dayMs]
      .map((by) => new Date(Date.parse(value) + by).toISOString())
      .concat(here as string[])
  const prefix = id.exec(value)?.[1]
  const known = prefix === undefined ? [] : [...(ids.get(prefix) ?? [])].filter((one) => one !== value)
  const digit = value.endsWith('0') ? '1' : '0'
  return [...known.slice(0, 2), ...here, `${value.slice(0, -1)}${digit}`, null, undefined]
}

export type Tried = {
  readonly type: string
  /** A field, or null: the event as a whole. */
  readonly field: string | null
  readonly change: 'changed' | 'swapped' | 'removed' | 'doubled' | 'moved'
  /** The invariant that reported the change, and whether it named the changed event; null: none. */
  readonly found: { readonly rule: string; readonly itself: boolean } | null
}

/** `OrderPlaced.order.priceMicros`, or `OrderPlaced (removed)`: the reported result. */
export const nameOf = ({ type, field, change }: Pick<Tried, 'type' | 'field' | 'change'>): string =>
  field === null ? `${type} (${change})` : `${type}.${field}`

/** Positions and revisions of a log written that way: they are renumbered after an added or removed event. */
const counted = (events: readonly StoredEvent[]): readonly StoredEvent[] => {
  const revisions = new Map<string, number>()
  return events.map((event, at) => {
    const revision = revisions.get(event.stream) ?? 0
    revisions.set(event.stream, revision + 1)
    return { ...event, revision, position: at + 1 }
  })
}

/**
 * Tries every change of every field of every kind of event in a log without digests and seals, and returns
 * the findings of the invariants.
 * @param most how many events of a kind are changed
 * @param all whether a field is changed again after a finding
 * @param skipped fields that are not changed, by the names of `nameOf`
 */
export const tryChanges = (
  given: readonly StoredEvent[],
  {
    most,
    all,
    skipped,
  }: { readonly most: number; readonly all: boolean; readonly skipped: ReadonlySet<string> },
): readonly Tried[] => {
  const log = counted(given)
  const reader = createEventReader()
  const readOne = (stored: StoredEvent): RecordedEvent | null => {
    const [read] = reader.read([stored], stored.position)
    return read?.event && read.problem === null ? read.event : null
  }
  const events = log.map((stored) => {
    const event = readOne(stored)
    if (event === null) throw new Error(`event ${stored.position} (${stored.type}) cannot be read`)
    return event
  })
  const ids = new Map<string, Set<string>>()
  const values = new Map<string, unknown[]>()
  for (const { type, data } of events)
    for (const { path, value } of leavesOf(data)) {
      const prefix = typeof value === 'string' ? id.exec(value)?.[1] : undefined
      if (prefix !== undefined) ids.set(prefix, (ids.get(prefix) ?? new Set()).add(value as string))
      const key = `${type}.${fieldOf(path)}`
      values.set(key, [...(values.get(key) ?? []), value])
    }

  const state = memoryInvariants()
  const tried: Tried[] = []
  const seen = new Map<string, number>()
  const detected = new Set<string>()
  const goOn = (rest: readonly RecordedEvent[]): ViolationRow | null => {
    const mark = state.mark()
    try {
      for (const event of rest) {
        const [broken] = state.take(event)
        if (broken !== undefined) return broken
      }
      return null
    } finally {
      state.back(mark)
    }
  }
  for (const [at, event] of events.entries()) {
    const { type } = event
    const times = seen.get(type) ?? 0
    seen.set(type, times + 1)
    if (times < most) {
      const said = (
        field: string | null,
        change: Tried['change'],
        rest: () => readonly RecordedEvent[],
        changedId: string = event.id,
      ): void => {
        const name = nameOf({ type, field, change })
        if (skipped.has(name) || (!all && detected.has(name))) return
        const broken = goOn(rest())
        const found = broken && { rule: broken.rule, itself: broken.eventId === changedId }
        const one = { type, field, change, found }
        if (found !== null) detected.add(nameOf(one))
        tried.push(one)
      }
      const after = events.slice(at + 1)
      const later = after.find((one) => one.type === type)
      const valid = (of: RecordedEvent, path: Path, value: unknown): RecordedEvent | null => {
        const data = withValue(of.data, path, value)
        return readOne({ ...log[of.position - 1]!, data: JSON.stringify(data) })
      }
      for (const { path, value } of leavesOf(event.data)) {
        const field = fieldOf(path)
        for (const other of others(value, values.get(`${type}.${field}`) ?? [], ids)) {
          const changed = valid(event, path, other)
          if (changed !== null) said(field, 'changed', () => [changed, ...after])
        }
        const theirs = later && leavesOf(later.data).find((leaf) => fieldOf(leaf.path) === field)
        if (!later || !theirs || JSON.stringify(theirs.value) === JSON.stringify(value)) continue
        const [mine, yours] = [valid(event, path, theirs.value), valid(later, theirs.path, value)]
        if (mine && yours)
          said(field, 'swapped', () => [mine, ...after.map((one) => (one === later ? yours : one))])
      }
      const recount = (list: readonly (RecordedEvent | StoredEvent)[]): readonly RecordedEvent[] =>
        counted(list as readonly StoredEvent[]).slice(at) as unknown as readonly RecordedEvent[]
      const before = events.slice(0, at)
      const twin = { ...event, id: '00000000-0000-7000-8000-000000000001' }
      said(null, 'removed', () => recount([...before, ...after]))
      said(null, 'doubled', () => recount([...before, event, twin, ...after]), twin.id)
      said(null, 'moved', () => recount([...before, ...after, event]))
      const kind = event.stream.split('-')[0]
      const elsewhere = events.find((one) => one.stream !== event.stream && one.stream.split('-')[0] === kind)
      if (elsewhere)
        said(null, 'moved', () => recount([...before, { ...event, stream: elsewhere.stream }, ...after]))
    }
    const [broken] = state.take(event)
    if (broken !== undefined)
      throw new Error(`event ${event.position} breaks ${broken.rule}: ${broken.problem}`)
  }
  return tried
}
