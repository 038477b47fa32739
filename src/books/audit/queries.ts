import type { EventLog } from '../../platform/eventstore/port.ts'
import { sealStream } from '../../terms/streams.ts'
import type { LogSealed, SealEvent, SealKeyRotated } from './events.ts'

/** A seal of the log, with its event. */
export type Seal = LogSealed['data'] & { readonly eventId: string }

const recent = async (log: EventLog, from: number): Promise<(SealEvent & { readonly eventId: string })[]> => {
  const events: (SealEvent & { readonly eventId: string })[] = []
  for await (const { id, type, data } of log.readStream(sealStream, from))
    events.push({ type, data: JSON.parse(data), eventId: id } as SealEvent & { eventId: string })
  return events
}

/**
 * Seals, newest first; `total` counts changes of the key too, which take a place of the page and are left out of it.
 * Nothing is verified here.
 */
export const listSeals = async (
  log: EventLog,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ readonly seals: readonly Seal[]; readonly total: number }> => {
  const last = await log.lastOf(sealStream)
  const total = last === null ? 0 : last.revision + 1
  const end = total - offset
  if (end <= 0) return { seals: [], total }
  const events = (await recent(log, Math.max(0, end - limit))).slice(0, Math.min(limit, end))
  const seals = events.flatMap((event) =>
    event.type === 'LogSealed' ? [{ ...event.data, eventId: event.eventId }] : [],
  )
  return { seals: seals.toReversed(), total }
}

/** All changes of the key and the last seals, in their order: what is exported. */
export const sealsToKeep = async (log: EventLog, lastSeals: number): Promise<readonly SealEvent[]> => {
  const rotations: SealKeyRotated[] = []
  let kept: SealEvent[] = []
  for await (const { type, data } of log.readStream(sealStream)) {
    const event = { type, data: JSON.parse(data) } as SealEvent
    kept.push(event)
    if (kept.length > 2 * lastSeals) {
      const old = kept.slice(0, -lastSeals)
      rotations.push(...old.filter((one): one is SealKeyRotated => one.type === 'SealKeyRotated'))
      kept = kept.slice(-lastSeals)
    }
  }
  return [...rotations, ...kept]
}
