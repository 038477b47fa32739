import type { LogSealed, SealEvent, SealKeyRotated } from '../../domain/seals/events.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { sealStream } from '../../kernel/streams.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { SealsFile } from './seals-file.ts'

/** A seal with the id of its event. */
export type Seal = LogSealed['data'] & { readonly eventId: string }

const readSealEvents = async (
  log: EventLog,
  from: number,
): Promise<(SealEvent & { readonly eventId: string })[]> => {
  const events: (SealEvent & { readonly eventId: string })[] = []
  for await (const { id, type, data } of log.readStream(sealStream, from))
    events.push({ type, data: JSON.parse(data), eventId: id } as SealEvent & { eventId: string })
  return events
}

/**
 * Up to `limit` seals before a revision of their stream, newest first; null: from the newest on. `next` is the start of
 * the next page, null at the end. Key rotations count towards the limit and are omitted.
 */
export const sealsBefore = async (
  log: EventLog,
  { before, limit }: { readonly before: number | null; readonly limit: number },
): Promise<{ readonly seals: readonly Seal[]; readonly next: number | null }> => {
  const last = await log.lastOf(sealStream)
  const end = Math.min(before ?? Number.MAX_SAFE_INTEGER, last === null ? 0 : last.revision + 1)
  if (end <= 0) return { seals: [], next: null }
  const start = Math.max(0, end - limit)
  const events = (await readSealEvents(log, start)).slice(0, end - start)
  const seals = events.flatMap((event) =>
    event.type === 'LogSealed' ? [{ ...event.data, eventId: event.eventId }] : [],
  )
  return { seals: seals.toReversed(), next: start === 0 ? null : start }
}

/**
 * Seals, newest first. `total` includes key rotations; they count towards the limit and are omitted. Nothing is
 * verified here.
 */
export const listSeals = async (
  log: EventLog,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ readonly seals: readonly Seal[]; readonly total: number }> => {
  const last = await log.lastOf(sealStream)
  const total = last === null ? 0 : last.revision + 1
  const { seals } = await sealsBefore(log, { before: Math.max(0, total - offset), limit })
  return { seals, total }
}

/** The events of an export: all key rotations and the last seals, in order. */
const sealsToExport = async (log: EventLog, lastSeals: number): Promise<readonly SealEvent[]> => {
  const rotations: SealKeyRotated[] = []
  let recentEvents: SealEvent[] = []
  for await (const { type, data } of log.readStream(sealStream)) {
    const event = { type, data: JSON.parse(data) } as SealEvent
    recentEvents.push(event)
    if (recentEvents.length > 2 * lastSeals) {
      const old = recentEvents.slice(0, -lastSeals)
      rotations.push(...old.filter((one): one is SealKeyRotated => one.type === 'SealKeyRotated'))
      recentEvents = recentEvents.slice(-lastSeals)
    }
  }
  return [...rotations, ...recentEvents]
}

/** The export file with the last seals and all key rotations; null when nothing is sealed. */
export const sealsFileOf = async (
  { log, clock }: { readonly log: EventLog; readonly clock: Clock },
  last: number,
): Promise<SealsFile | null> => {
  const seals = await sealsToExport(log, last)
  const [first] = await log.readAll(0, 1)
  if (first === undefined || !seals.some(({ type }) => type === 'LogSealed')) return null
  return {
    format: 'farebox-seals',
    version: 1,
    logId: await log.logId(),
    firstEventId: first.id,
    exportedAt: isoTime(clock()),
    seals,
  }
}
