import { type Clock, isoTime, maxAheadMs } from '../../kernel/clock.ts'
import type { EventMetadata } from '../../kernel/event.ts'
import { parseUntrustedObject } from '../../kernel/json-text.ts'
import { LogUnavailable } from './errors.ts'
import type { AppendItem, EventLog, ItemOutcome } from './port.ts'

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

type StoredTimes = { readonly recordedAt?: unknown; readonly decidedAt?: unknown }

/** When an event was decided, milliseconds; NaN where its metadata do not tell. */
export const decisionMs = (metadata: string): number => {
  const { recordedAt, decidedAt = recordedAt } = parseUntrustedObject<StoredTimes>(metadata) ?? {}
  return Date.parse(String(decidedAt))
}

/** When the latest of these events was decided, milliseconds; -Infinity where no metadata tell. */
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
        if (atMs > latestMs) latestMs = atMs
      }
  return latestMs
}

/**
 * The same log, which takes nothing while the clock is wrong, and nothing that was decided later than the clock reads. It
 * holds for whoever appends: the command runner, webhooks, seals, an import.
 */
export const guardAppends = (
  log: EventLog,
  { clock, problem }: { readonly clock: Clock; readonly problem: () => string | null },
): EventLog => {
  const refusalOf = (items: readonly AppendItem[]): LogUnavailable | null => {
    const wrong = problem()
    if (wrong !== null) return new LogUnavailable(`nothing is appended: ${wrong}`)
    const latestMs = latestDecision(items)
    const nowMs = clock()
    return latestMs > nowMs + maxAheadMs
      ? new LogUnavailable(`an event of ${isoTime(latestMs)} is of the future: it is ${isoTime(nowMs)} now`)
      : null
  }
  return {
    ...log,
    append: async (stream, expected, events) => {
      const refusal = refusalOf([{ appends: [{ stream, expected, events }] }])
      if (refusal !== null) throw refusal
      return log.append(stream, expected, events)
    },
    appendAll: async (items) => {
      const outcomes = items.map((item): ItemOutcome | null => {
        const cause = refusalOf([item])
        return cause && { status: 'unavailable', cause, landed: [] }
      })
      if (outcomes.every((outcome) => outcome === null)) return log.appendAll(items)
      const taken = items.filter((_, at) => outcomes[at] === null)
      const written = taken.length === 0 ? [] : [...(await log.appendAll(taken))]
      return outcomes.map((outcome) => outcome ?? written.shift()!)
    },
  }
}
