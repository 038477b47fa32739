import type { RawBuilder } from 'kysely'
import { isStatementLine, ledgerOf } from '../../domain/finance/entries.ts'
import type { EntryKind } from '../../domain/finance/entry-kinds.ts'
import { gatewayAccount } from '../../domain/ledger/postings.ts'
import { holdIdOf } from '../../domain/scrapers/calls.ts'
import { maxAttempts } from '../../domain/scrapers/decide-call.ts'
import type { OrderDetails } from '../../domain/shared/order-terms.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { AccountId, NoticeId, OrderId, PlanId, ScrapeId, SubscriptionId } from '../../kernel/ids.ts'
import {
  accountStream,
  catalogStream,
  depositStream,
  noticeStream,
  orderStream,
  planStream,
  type StreamName,
  scrapeStream,
  stockStream,
  subscriptionStream,
  termsStream,
  webhooksStream,
} from '../../kernel/streams.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import { type Db, sql } from '../../platform/postgres/kysely.ts'
import { type CauseByHand, readCauses } from './causes-by-hand.ts'
import { withGateways } from './gateway-names.ts'
import { type ResourcePrefix, resourcePrefix } from './input-forms.ts'
import { entryAt, type JournalEntry, type JournalPosting } from './journal.ts'

/** A term that was in effect when an order was decided, and the event that set it. */
export type OrderTerm = { readonly what: string; readonly event: RecordedEvent }

/** The order that an event carries, or null. */
export const orderIn = (event: RecordedEvent): OrderDetails | null =>
  (event.data as { readonly order?: OrderDetails }).order ?? null

/** The last event of a stream, up to a position, that matches `fits`. */
const lastOf = async (
  log: Pick<EventLog, 'readStream'>,
  stream: StreamName,
  position: number,
  fits: (event: RecordedEvent) => boolean,
): Promise<RecordedEvent | null> => {
  let lastMatch: RecordedEvent | null = null
  for await (const stored of log.readStream(stream)) {
    if (stored.position > position) break
    const event = decode(stored)
    if (fits(event)) lastMatch = event
  }
  return lastMatch
}

/**
 * The terms of an order: the catalogue of its price, the reseller's terms, the key with its cap. Each is shown by the
 * event that set it, so that its actor is visible.
 */
export const termsOf = async (
  log: Pick<EventLog, 'readStream'>,
  order: OrderDetails,
  position: number,
): Promise<readonly OrderTerm[]> => {
  const accountId = order.accountId as AccountId
  const { catalogDigest, keyId, termsRevision } = order
  const ofKey = (event: RecordedEvent) => (event.data as { readonly keyId?: string }).keyId === keyId
  const termEvents: readonly (readonly [what: string, event: RecordedEvent | null])[] = [
    [
      `catalogue ${catalogDigest.slice(0, 12)}`,
      await lastOf(
        log,
        catalogStream,
        position,
        ({ type, data }) =>
          type === 'CatalogImported' && (data as { digest: string }).digest === catalogDigest,
      ),
    ],
    [
      `terms of the reseller, revision ${termsRevision}`,
      termsRevision === undefined
        ? null
        : await lastOf(log, termsStream(accountId), position, ({ revision }) => revision === termsRevision),
    ],
    [`key ${keyId}`, keyId === null ? null : await lastOf(log, accountStream(accountId), position, ofKey)],
  ]
  return termEvents.flatMap(([what, event]) => (event ? [{ what, event }] : []))
}

/** An event of a chain, with its postings. */
export type ExplainedEvent = {
  readonly event: RecordedEvent
  /** The accounting time of an entry of the books, else the time of the recording. ISO 8601 UTC. */
  readonly at: string
  /** Null for an event that moved no money. */
  readonly kind: EntryKind | null
  /** Who proposed and approved an entry; null: one operator was enough, or it moved no money. */
  readonly approval: Pick<CauseByHand, 'proposalId' | 'proposedBy' | 'approvedBy'> | null
  /** Of every book; empty for an event that moved no money. */
  readonly postings: readonly (JournalPosting & { readonly gateway: string | null })[]
}

export type Explanation = {
  /** In log order. */
  readonly chain: readonly ExplainedEvent[]
  /** The terms of the order in the chain; empty without an order. */
  readonly terms: readonly OrderTerm[]
  /** The number of events beyond the limit. */
  readonly leftOut: number
}

type Log = Pick<EventLog, 'readAll' | 'readBefore' | 'readStream' | 'readStreams' | 'eventAt'>
type Context = { readonly db: Db; readonly log: Log }

/** Events before and after an event that are searched for the same request and its cause: they are close together. */
const reach = 500

const eventAt = async (log: Log, position: number): Promise<RecordedEvent | null> => {
  const stored = await log.eventAt(position)
  return stored && decode(stored)
}

/** The event, the other events of its request, and its cause, as far as they are near. */
const eventAndNeighbours = async (log: Log, event: RecordedEvent): Promise<readonly RecordedEvent[]> => {
  const [before, after] = await Promise.all([
    log.readBefore(event.position, reach),
    log.readAll(event.position, reach),
  ])
  const neighbours = [...before, ...after].map((stored) => decode(stored))
  return [event, ...neighbours].filter(
    ({ id, metadata }) =>
      metadata.correlationId === event.metadata.correlationId || id === event.metadata.causationId,
  )
}

const eventsAt = async (log: Log, positions: readonly number[]): Promise<readonly RecordedEvent[]> => {
  const events: RecordedEvent[] = []
  for (const position of positions) {
    const event = await eventAt(log, position)
    if (event) events.push(event)
  }
  return events
}

/** Each event once, in log order. */
const uniqueInOrder = (events: readonly RecordedEvent[]): readonly RecordedEvent[] =>
  [...new Map(events.map((event) => [event.position, event])).values()].sort(
    (a, b) => a.position - b.position,
  )

const approvalOf = (cause: CauseByHand | undefined): ExplainedEvent['approval'] =>
  cause === undefined || cause.approvedBy === null
    ? null
    : { proposalId: cause.proposalId, proposedBy: cause.proposedBy, approvedBy: cause.approvedBy }

/** `limit` events from the index `from` on, with their postings. */
const explainEvents = async (
  { db, log }: Context,
  events: readonly RecordedEvent[],
  { from, limit }: { readonly from: number; readonly limit: number },
): Promise<Explanation> => {
  const selectedEvents = events.slice(from, from + limit)
  const entries = new Map<number, JournalEntry>()
  for (const event of selectedEvents) {
    const entry =
      ledgerOf(event) !== null || isStatementLine(event) ? await entryAt(db, event.position) : null
    if (entry) entries.set(event.position, entry)
  }
  const causes = await readCauses(log, [...entries.values()])
  const chain: ExplainedEvent[] = []
  for (const event of selectedEvents) {
    const entry = entries.get(event.position)
    chain.push({
      event,
      at: entry?.at ?? event.metadata.recordedAt,
      kind: entry?.kind ?? null,
      approval: approvalOf(causes.get(event.position)),
      postings: await withGateways(log, entry?.postings ?? []),
    })
  }
  const orderedEvent = events.find((event) => orderIn(event) !== null)
  const order = orderedEvent && orderIn(orderedEvent)
  return {
    chain,
    terms: orderedEvent && order ? await termsOf(log, order, orderedEvent.position) : [],
    leftOut: events.length - selectedEvents.length,
  }
}

/** The rentals in an event of an order. Stock events about their return name only the rental ids. */
const rentalsIn = ({ data }: RecordedEvent): readonly string[] =>
  (data as { readonly proxyIds?: readonly string[] }).proxyIds ?? []

const names =
  (ids: readonly string[]) =>
  ({ data }: RecordedEvent): boolean => {
    const text = JSON.stringify(data)
    return ids.some((id) => text.includes(id))
  }

/** Streams that are read at once if any of many may have the event. */
const streamBatchSize = 200

/** The events of several streams that match `fits`. */
const sharedEvents = async (
  log: Log,
  streams: readonly StreamName[],
  fits: (event: RecordedEvent) => boolean,
): Promise<readonly RecordedEvent[]> => {
  const found: RecordedEvent[] = []
  const collect = (stored: StoredEvent): void => {
    const event = decode(stored)
    if (fits(event)) found.push(event)
  }
  // A single stream may be long, such as that of a product's addresses. Where there are many streams, each is short.
  if (streams.length === 1)
    for await (const stored of log.readStream(streams[0] as StreamName)) collect(stored)
  else
    for (let from = 0; from < streams.length; from += streamBatchSize) {
      const batch = streams.slice(from, from + streamBatchSize).map((stream) => ({ stream, from: 0 }))
      for (const events of (await log.readStreams(batch)).values()) events.forEach(collect)
    }
  return found
}

/** The log's head, and the largest number of events: the last ones are shown. */
export type ExplanationRange = { readonly head: number; readonly limit: number }

/**
 * The last events of a resource with an id (`resourceKind`), or null if no event names it.
 * @throws CliRefusal as `findTrail`
 */
export const explainResource = async (
  { db, log }: Context,
  id: string,
  { head, limit }: ExplanationRange,
): Promise<Explanation | null> => {
  const { own, shared, positions } = await findTrail(db, id)
  const events: RecordedEvent[] = [...(await sharedEvents(log, shared, names([id])))]
  for (const stream of own) for await (const stored of log.readStream(stream)) events.push(decode(stored))
  events.push(...(await eventsAt(log, positions)))
  const ownEvents = uniqueInOrder(events.filter(({ position }) => position <= head))
  if (ownEvents.length === 0) return null
  const latestEvents = ownEvents.slice(-limit)
  // Events of stock or plan are between payment and outcome, in the same request.
  const requests = new Map(latestEvents.map((event) => [event.metadata.correlationId, event]))
  const isNamed = names([id, ...(own.length > 0 ? ownEvents.flatMap(rentalsIn) : [])])
  const related: RecordedEvent[] = []
  for (const event of requests.values())
    related.push(
      ...(await eventAndNeighbours(log, event)).filter(
        (other) => requests.has(other.metadata.correlationId) && other.position <= head && isNamed(other),
      ),
    )
  const allEvents = uniqueInOrder([...ownEvents, ...related])
  return explainEvents({ db, log }, allEvents, { from: Math.max(0, allEvents.length - limit), limit })
}

/**
 * An event, the rest of its request and its cause; null if the log has no event at the position. Of a long request only
 * the events nearest to it.
 */
export const explainEntry = async (
  { db, log }: Context,
  position: number,
  limit: number,
): Promise<Explanation | null> => {
  const event = await eventAt(log, position)
  if (!event) return null
  const allEvents = uniqueInOrder(await eventAndNeighbours(log, event))
  const at = allEvents.findIndex((other) => other.position === position)
  const from = Math.max(0, Math.min(at - Math.floor(limit / 2), allEvents.length - limit))
  return explainEvents({ db, log }, allEvents, { from, limit })
}

/** The events at some positions, such as those behind the lines of an account. */
export const explainPositions = async (
  { db, log }: Context,
  positions: readonly number[],
): Promise<Explanation> => {
  const events = uniqueInOrder(await eventsAt(log, positions))
  const { chain, leftOut } = await explainEvents({ db, log }, events, { from: 0, limit: events.length })
  return { chain, terms: [], leftOut }
}

/** The places in the log with events about a resource. */
export type Trail = {
  /** Streams in which every event is about it. */
  readonly own: readonly StreamName[]
  /** Streams in which only events that name it are about it. */
  readonly shared: readonly StreamName[]
  /** Positions of journal entries about it. */
  readonly positions: readonly number[]
}

type Find = (db: Db, id: string) => Promise<Partial<Trail>>

const entriesBy = async (db: Db, condition: RawBuilder<boolean>): Promise<readonly number[]> => {
  const entries = db.selectFrom('read.journal_entries as e').select('position').where(condition)
  return (await entries.orderBy('position').execute()).map(({ position }) => position)
}

const ofProxy: Find = async (db, id) => {
  const proxies = db.selectFrom('read.proxies').select(['productId', 'country']).where('proxyId', '=', id)
  return { shared: (await proxies.execute()).map((row) => stockStream(row.productId, row.country)) }
}

const ofKey: Find = async (db, id) => {
  const keys = db.selectFrom('read.keys').select('accountId').where('keyId', '=', id)
  return { shared: (await keys.execute()).map((row) => accountStream(row.accountId as AccountId)) }
}

/** A removed endpoint has no row. Its account follows from its deliveries; without any, all accounts are searched. */
const ofEndpoint: Find = async (db, id) => {
  const { rows: found } = await sql<{ accountId: string }>`
    select account_id from read.webhook_endpoints where endpoint_id = ${id}
     union select account_id from work.webhook_deliveries where endpoint_id = ${id}`.execute(db)
  const rows = found.length > 0 ? found : await db.selectFrom('read.accounts').select('accountId').execute()
  return { shared: rows.map((row) => webhooksStream(row.accountId as AccountId)) }
}

/** The events that set and removed a gateway, and the entries of its account in the books. */
const ofGateway: Find = async (db, id) => {
  const resellers = await db.selectFrom('read.journal_resellers').selectAll().orderBy('accountId').execute()
  const positions = await entriesBy(
    db,
    sql`exists (select from read.journal_postings p join read.journal_accounts a on a.number = p.account_number
                 where p.position = e.position and a.account = ${gatewayAccount(id)})`,
  )
  return { shared: resellers.map((row) => termsStream(row.accountId as AccountId)), positions }
}

const ofDeposit: Find = async (db, id) => ({
  own: [depositStream(id)],
  positions: await entriesBy(db, sql`deposit_id = ${id}`),
})

const ofOrder: Find = async (db, id) => ({
  own: [orderStream(id as OrderId)],
  positions: await entriesBy(db, sql`order_id = ${id}`),
})

/** The events of a refund are in the stream of its order. Its entries have the refund's id as their reference. */
const ofRefund: Find = async (db, id) => {
  const orders = db.selectFrom('read.journal_entries').select('orderId').distinct()
  const rows = await orders.where('reference', '=', id).where('orderId', 'is not', null).execute()
  return {
    shared: rows.map((row) => orderStream(row.orderId as OrderId)),
    positions: await entriesBy(db, sql`reference = ${id}`),
  }
}

/** The holds of a scrape have ids of their own, one per attempt, which derive from its id. */
const ofScrape: Find = async (db, id) => {
  const holds = Array.from({ length: maxAttempts }, (_, n) => holdIdOf(id as ScrapeId, n + 1))
  return {
    own: [scrapeStream(id as ScrapeId)],
    positions: await entriesBy(db, sql`reference = any (${holds}::text[])`),
  }
}

const findByPrefix: Readonly<Record<ResourcePrefix, Find>> = {
  ord: ofOrder,
  dep: ofDeposit,
  sub: async (_db, id) => ({ own: [subscriptionStream(id as SubscriptionId)] }),
  pln: async (_db, id) => ({ own: [planStream(id as PlanId)] }),
  prx: ofProxy,
  ref: ofRefund,
  scr: ofScrape,
  crd: ofGateway,
  whs: ofEndpoint,
  key: ofKey,
  ntc: async (_db, id) => ({ own: [noticeStream(id as NoticeId)] }),
}

/**
 * Finds the events about a resource by its id; empty streams and no positions if nothing names it.
 * @throws CliRefusal overloaded: the read tables with its stream do not exist yet
 */
export const findTrail = async (db: Db, id: string): Promise<Trail> => {
  const prefix = resourcePrefix(id)
  return { own: [], shared: [], positions: [], ...(prefix && (await findByPrefix[prefix](db, id))) }
}
