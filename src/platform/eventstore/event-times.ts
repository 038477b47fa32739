import { type Clock, isoTime, maxAheadMs } from '../../kernel/clock.ts'
import type { EventMetadata } from '../../kernel/event.ts'
import { parseUntrustedObject } from '../../kernel/json-text.ts'
import { revisionBefore } from './append-checks.ts'
import { DecidedInFuture, LogUnavailable } from './errors.ts'
import type { Appended, AppendItem, EventLog, ItemOutcome } from './port.ts'

/**
 * The times of an event that follows an event of `lastMs` (milliseconds) in its stream: now, or `lastMs` if the clock
 * of another process was slightly ahead. After an event of the future, the stream continues at the time of that event,
 * and the new event also stores the time of its decision (docs/decisions/0087-streams-of-the-future.md).
 */
export const timesAfter = (
  lastMs: number,
  nowMs: number,
): Pick<EventMetadata, 'recordedAt' | 'continuesAt'> => {
  if (lastMs <= nowMs + maxAheadMs) return { recordedAt: isoTime(Math.max(lastMs, nowMs)) }
  return { recordedAt: isoTime(nowMs), continuesAt: isoTime(lastMs) }
}

/** The time of a stream after this event, milliseconds. Never before the time of an earlier event of the stream. */
export const streamTimeMs = ({ metadata }: { readonly metadata: EventMetadata }): number =>
  Date.parse(metadata.continuesAt ?? metadata.recordedAt)

/** Converts metadata to their stored form. The stored `recordedAt` never decreases within a stream. */
export const storedMetadata = ({ continuesAt, ...metadata }: EventMetadata): object =>
  continuesAt === undefined
    ? metadata
    : { ...metadata, recordedAt: continuesAt, decidedAt: metadata.recordedAt }

/** The inverse of `storedMetadata`. Unknown fields of a stored text are unchanged. */
export const readMetadata = (
  stored: (EventMetadata & { readonly decidedAt?: string }) | null,
): EventMetadata => {
  if (stored?.decidedAt === undefined) return stored as EventMetadata
  const { decidedAt, ...metadata } = stored
  return { ...metadata, recordedAt: decidedAt, continuesAt: stored.recordedAt }
}

const recordedAtForm = /"recordedAt":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"/

type StoredTexts = { readonly recordedAt?: unknown; readonly decidedAt?: unknown }

/** The times in stored metadata, milliseconds. */
export type StoredTimes = {
  /** -1 if the metadata have no valid time. */
  readonly recordedMs: number
  /** The time of the decision, if the event follows an event of the future in its stream; else null. */
  readonly decidedMs: number | null
}

export const storedTimes = (metadata: string): StoredTimes => {
  const [, at] = recordedAtForm.exec(metadata) ?? []
  // Fast path: metadata in the usual form need no JSON parsing.
  if (at !== undefined && !metadata.includes('"decidedAt"'))
    return { recordedMs: Date.parse(at), decidedMs: null }
  const { recordedAt, decidedAt } = parseUntrustedObject<StoredTexts>(metadata) ?? {}
  const [recordedMs, decidedMs] = [recordedAt, decidedAt].map((time) => {
    const ms = Date.parse(String(time))
    return Number.isNaN(ms) ? -1 : ms
  }) as [number, number]
  return { recordedMs, decidedMs: decidedAt === undefined ? null : decidedMs }
}

/** The time of an event's decision, milliseconds; -1 if its metadata have no valid time. */
export const decisionMs = (metadata: string): number => {
  const { recordedMs, decidedMs } = storedTimes(metadata)
  return decidedMs ?? recordedMs
}

/** The time of the latest decision of these items, milliseconds; -Infinity if no metadata have a valid time. */
export const latestDecision = (items: readonly AppendItem[]): number => {
  let latestMs = Number.NEGATIVE_INFINITY
  // The events of one decision have equal metadata and follow one another.
  let read = ''
  for (const { appends } of items)
    for (const { events } of appends)
      for (const { metadata } of events) {
        if (metadata === read) continue
        read = metadata
        const atMs = decisionMs(metadata)
        if (atMs >= 0 && atMs > latestMs) latestMs = atMs
      }
  return latestMs
}

/** Finds the events of an item in the log. Returns null unless the log has all of them. */
const findStanding = async (
  log: Pick<EventLog, 'readStream'>,
  { appends }: AppendItem,
): Promise<readonly Appended[] | null> => {
  const appended: Appended[] = []
  for (const { stream, expected, events } of appends) {
    let at = 0
    for await (const { id, revision, position } of log.readStream(stream, revisionBefore(expected) + 1)) {
      if (id !== events[at]?.id) return null
      at += 1
      if (at < events.length) continue
      appended.push({ revision, position })
      break
    }
    if (at < events.length) return null
  }
  return appended
}

/**
 * The same log with checked appends. It refuses every append while the clock is wrong, and every append whose decision
 * is later than the clock. This covers every writer: the command runner, webhooks, seals and the import. An append that
 * the log already has, because it was sent before the clocks were set back, gets its first outcome again.
 */
export const guardAppends = (
  log: EventLog,
  { clock, problem }: { readonly clock: Clock; readonly problem: () => string | null },
): EventLog => {
  const futureOutcome = async (item: AppendItem, decided: number, nowMs: number): Promise<ItemOutcome> => {
    const message = `an event of ${isoTime(decided)} is of the future: it is ${isoTime(nowMs)} now`
    try {
      const appended = await findStanding(log, item)
      if (appended !== null) return { status: 'landed', appended }
      return { status: 'unavailable', cause: new DecidedInFuture(message), landed: [] }
    } catch (error) {
      return { status: 'unavailable', cause: new LogUnavailable(message, { cause: error }), landed: [] }
    }
  }
  /** The outcome of an item with an event of the future. Null: append the item to the log. */
  const outcomeOf = (item: AppendItem): Promise<ItemOutcome> | null => {
    const nowMs = clock()
    const decided = latestDecision([item])
    return decided > nowMs + maxAheadMs ? futureOutcome(item, decided, nowMs) : null
  }
  const appendAll: EventLog['appendAll'] = async (items) => {
    const clockProblem = problem()
    if (clockProblem !== null) {
      const cause = new LogUnavailable(`nothing is appended: ${clockProblem}`)
      return items.map(() => ({ status: 'unavailable', cause, landed: [] }))
    }
    const outcomes = items.map(outcomeOf)
    if (outcomes.every((outcome) => outcome === null)) return log.appendAll(items)
    const accepted = items.filter((_, at) => outcomes[at] === null)
    const written = accepted.length === 0 ? [] : [...(await log.appendAll(accepted))]
    return Promise.all(outcomes.map((outcome) => outcome ?? written.shift()!))
  }
  return {
    ...log,
    append: async (stream, expected, events) => {
      const clockProblem = problem()
      if (clockProblem !== null) throw new LogUnavailable(`nothing is appended: ${clockProblem}`)
      const outcome = await outcomeOf({ appends: [{ stream, expected, events }] })
      if (outcome === null) return log.append(stream, expected, events)
      if (outcome.status === 'landed') return outcome.appended[0]!
      throw outcome.status === 'unavailable' ? outcome.cause : new LogUnavailable(outcome.status)
    },
    appendAll,
  }
}
