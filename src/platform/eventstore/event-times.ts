import { type Clock, isoTime, maxAheadMs } from '../../kernel/clock.ts'
import type { EventMetadata } from '../../kernel/event.ts'
import { parseUntrustedObject } from '../../kernel/json-text.ts'
import { revisionBefore } from './append-checks.ts'
import { DecidedInFuture, LogUnavailable } from './errors.ts'
import type { Appended, AppendItem, EventLog, ItemOutcome } from './port.ts'

/**
 * The times of an event that follows one of `lastMs` in its stream: now, or that time where another process's clock was a
 * little ahead. Behind an event of the future the stream goes on at the time of that event, and says when this one was
 * decided (docs/decisions/0087-streams-of-the-future.md).
 */
export const timesAfter = (
  lastMs: number,
  nowMs: number,
): Pick<EventMetadata, 'recordedAt' | 'continuesAt'> => {
  if (lastMs <= nowMs + maxAheadMs) return { recordedAt: isoTime(Math.max(lastMs, nowMs)) }
  return { recordedAt: isoTime(nowMs), continuesAt: isoTime(lastMs) }
}

/** The time that a stream has come to with this event, milliseconds. */
export const streamTimeMs = ({ metadata }: { readonly metadata: EventMetadata }): number =>
  Date.parse(metadata.continuesAt ?? metadata.recordedAt)

/** An event's metadata as they are stored: `recordedAt` never runs back within a stream. */
export const storedMetadata = ({ continuesAt, ...metadata }: EventMetadata): object =>
  continuesAt === undefined
    ? metadata
    : { ...metadata, recordedAt: continuesAt, decidedAt: metadata.recordedAt }

/** The inverse of `storedMetadata`. Whatever else a stored text holds stays as it is. */
export const readMetadata = (
  stored: (EventMetadata & { readonly decidedAt?: string }) | null,
): EventMetadata => {
  if (stored?.decidedAt === undefined) return stored as EventMetadata
  const { decidedAt, ...metadata } = stored
  return { ...metadata, recordedAt: decidedAt, continuesAt: stored.recordedAt }
}

const recordedAtForm = /"recordedAt":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"/

type StoredTexts = { readonly recordedAt?: unknown; readonly decidedAt?: unknown }

/** Of stored metadata, milliseconds. */
export type StoredTimes = {
  /** -1 where there is no such time. */
  readonly recordedMs: number
  /** Null unless the stream continues at a time that is to come: then when the event was decided. */
  readonly decidedMs: number | null
}

export const storedTimes = (metadata: string): StoredTimes => {
  const [, at] = recordedAtForm.exec(metadata) ?? []
  // The form of ours first: nothing is parsed for it.
  if (at !== undefined && !metadata.includes('"decidedAt"'))
    return { recordedMs: Date.parse(at), decidedMs: null }
  const { recordedAt, decidedAt } = parseUntrustedObject<StoredTexts>(metadata) ?? {}
  const [recordedMs, decidedMs] = [recordedAt, decidedAt].map((time) => {
    const ms = Date.parse(String(time))
    return Number.isNaN(ms) ? -1 : ms
  }) as [number, number]
  return { recordedMs, decidedMs: decidedAt === undefined ? null : decidedMs }
}

/** When an event was decided, milliseconds; -1 where its metadata do not say. */
export const decisionMs = (metadata: string): number => {
  const { recordedMs, decidedMs } = storedTimes(metadata)
  return decidedMs ?? recordedMs
}

/** When the latest of these events was decided, milliseconds; -Infinity where no metadata say. */
export const latestDecision = (items: readonly AppendItem[]): number => {
  let latestMs = Number.NEGATIVE_INFINITY
  // Events of one decision carry equal metadata and come one after another.
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

/** Where the events of an item stand; null unless all of them do. */
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
 * The same log, which takes nothing while the clock is wrong, and nothing that was decided later than the clock reads. It
 * holds for whoever appends: the command runner, webhooks, seals, an import. What was decided later and stands, since it was
 * sent before the clocks were set back, gets its first outcome as always.
 */
export const guardAppends = (
  log: EventLog,
  { clock, problem }: { readonly clock: Clock; readonly problem: () => string | null },
): EventLog => {
  const futureOutcome = async (item: AppendItem, decided: number, nowMs: number): Promise<ItemOutcome> => {
    const why = `an event of ${isoTime(decided)} is of the future: it is ${isoTime(nowMs)} now`
    try {
      const appended = await findStanding(log, item)
      if (appended !== null) return { status: 'landed', appended }
      return { status: 'unavailable', cause: new DecidedInFuture(why), landed: [] }
    } catch (error) {
      return { status: 'unavailable', cause: new LogUnavailable(why, { cause: error }), landed: [] }
    }
  }
  /** Null: the log is to be asked. */
  const outcomeOf = (item: AppendItem): Promise<ItemOutcome> | null => {
    const nowMs = clock()
    const decided = latestDecision([item])
    return decided > nowMs + maxAheadMs ? futureOutcome(item, decided, nowMs) : null
  }
  const appendAll: EventLog['appendAll'] = async (items) => {
    const wrong = problem()
    if (wrong !== null) {
      const cause = new LogUnavailable(`nothing is appended: ${wrong}`)
      return items.map(() => ({ status: 'unavailable', cause, landed: [] }))
    }
    const outcomes = items.map(outcomeOf)
    if (outcomes.every((outcome) => outcome === null)) return log.appendAll(items)
    const taken = items.filter((_, at) => outcomes[at] === null)
    const written = taken.length === 0 ? [] : [...(await log.appendAll(taken))]
    return Promise.all(outcomes.map((outcome) => outcome ?? written.shift()!))
  }
  return {
    ...log,
    append: async (stream, expected, events) => {
      const wrong = problem()
      if (wrong !== null) throw new LogUnavailable(`nothing is appended: ${wrong}`)
      const outcome = await outcomeOf({ appends: [{ stream, expected, events }] })
      if (outcome === null) return log.append(stream, expected, events)
      if (outcome.status === 'landed') return outcome.appended[0]!
      throw outcome.status === 'unavailable' ? outcome.cause : new LogUnavailable(outcome.status)
    },
    appendAll,
  }
}
