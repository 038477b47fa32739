import type pg from 'pg'
import { decode } from '../eventstore/codec.ts'
import type { RecordedEvent } from '../eventstore/event.ts'
import type { EventLog } from '../eventstore/port.ts'
import { orderStream } from '../eventstore/streams.ts'
import type { OrderId } from '../ids.ts'
import { orderIn, type Term, termsOf } from './explain-terms.ts'
import { entriesOfOrder, entryAt, type JournalPosting } from './journal-entries.ts'

/** One event of a chain, with what it booked. */
export type Link = {
  readonly event: RecordedEvent
  /** In every book; empty for an event that moved no money. */
  readonly postings: readonly JournalPosting[]
}

export type Explanation = {
  /** In log order. */
  readonly chain: readonly Link[]
  /** On which terms the order in it was decided; empty without one. */
  readonly terms: readonly Term[]
}

type Log = Pick<EventLog, 'readAll' | 'readBefore' | 'readStream' | 'eventAt'>

/** Events on either side among which the rest of a request, and its cause, are looked for: they lie close together. */
const reach = 500

const eventAt = async (log: Log, position: number): Promise<RecordedEvent | null> => {
  const stored = await log.eventAt(position)
  return stored && decode(stored)
}

/** The events of the same request, and the event that it answered where that is near. */
const around = async (log: Log, event: RecordedEvent): Promise<readonly RecordedEvent[]> => {
  const [before, after] = await Promise.all([
    log.readBefore(event.position, reach),
    log.readAll(event.position, reach),
  ])
  const near = [...before, ...after].map((stored) => decode(stored))
  return [event, ...near].filter(
    ({ id, metadata }) =>
      metadata.correlationId === event.metadata.correlationId || id === event.metadata.causationId,
  )
}

const linked = async (pool: pg.Pool, log: Log, events: readonly RecordedEvent[]): Promise<Explanation> => {
  const sorted = [...new Map(events.map((event) => [event.position, event])).values()].sort(
    (a, b) => a.position - b.position,
  )
  const chain: Link[] = []
  for (const event of sorted) {
    const entry = event.stream.startsWith('ledger-') ? await entryAt(pool, event.position) : null
    chain.push({ event, postings: entry?.postings ?? [] })
  }
  const decided = sorted.find((event) => orderIn(event) !== null)
  const order = decided && orderIn(decided)
  return { chain, terms: decided && order ? await termsOf(log, order, decided.position) : [] }
}

/** The rentals that an event of an order names: stock takes them back by their own ids. */
const rentalsIn = ({ data }: RecordedEvent): readonly string[] =>
  (data as { readonly proxyIds?: readonly string[] }).proxyIds ?? []

/** Everything that happened to an order, or null for one that no event names. */
export const explainOrder = async (
  { pool, log }: { readonly pool: pg.Pool; readonly log: Log },
  orderId: string,
  head: number,
): Promise<Explanation | null> => {
  const events: RecordedEvent[] = []
  for await (const stored of log.readStream(orderStream(orderId as OrderId))) events.push(decode(stored))
  for (const { position } of await entriesOfOrder(pool, orderId, head)) {
    const event = await eventAt(log, position)
    if (event) events.push(event)
  }
  // Stock or plan stand between payment and outcome, under the same request.
  const requests = new Map(events.map((event) => [event.metadata.correlationId, event]))
  const ids = [orderId, ...events.flatMap(rentalsIn)]
  const names = ({ data, metadata }: RecordedEvent): boolean => {
    if (!requests.has(metadata.correlationId)) return false
    const text = JSON.stringify(data)
    return ids.some((id) => text.includes(id))
  }
  for (const event of requests.values()) events.push(...(await around(log, event)).filter(names))
  const known = events.filter(({ position }) => position <= head)
  return known.length === 0 ? null : linked(pool, log, known)
}

/** An event, the rest of its request and its cause; null where the log has no event at the position. */
export const explainEntry = async (
  { pool, log }: { readonly pool: pg.Pool; readonly log: Log },
  position: number,
): Promise<Explanation | null> => {
  const event = await eventAt(log, position)
  return event && linked(pool, log, await around(log, event))
}

/** The events at some positions: those behind the lines of an account. */
export const explainPositions = async (
  { pool, log }: { readonly pool: pg.Pool; readonly log: Log },
  positions: readonly number[],
): Promise<Explanation> => {
  const events = await Promise.all(positions.map((position) => eventAt(log, position)))
  const { chain } = await linked(
    pool,
    log,
    events.filter((event) => event !== null),
  )
  return { chain, terms: [] }
}
