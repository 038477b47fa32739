import { isoTime } from '../../kernel/clock.ts'
import type { Actor, RecordedEvent } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { StreamName } from '../../kernel/streams.ts'
import type { AccountEvent } from '../accounts/events.ts'
import type { LedgerEvent } from '../ledger/events.ts'
import { type Posting, postingsOf, statementPostings } from '../ledger/postings.ts'
import type { StatementLineEvent } from '../ledger/statement-lines.ts'
import type { PeriodCutOff } from '../periods/events.ts'
import { type EntryKind, entryKindOf } from './entry-kinds.ts'

/** A journal entry: what one money event books in every book, with its purpose and its actor. */
export type Entry = {
  /** The event's position in the log. An entry has no other number. */
  readonly position: number
  readonly eventId: string
  /** The event's type, e.g. `WalletDebited`. */
  readonly type: string
  readonly kind: EntryKind
  /** The account of the event's ledger; null for a line of a provider's statement. */
  readonly accountId: AccountId | null
  /** Accounting time of the event; for a line of a provider's statement `dateOfLine`. ISO 8601 UTC. */
  readonly at: string
  /** The time of the recording of the event. ISO 8601 UTC. */
  readonly recordedAt: string
  /** The time in the provider's statement; null for an entry that is not from one. */
  readonly happenedAt: string | null
  readonly orderId: string | null
  readonly customerId: string | null
  /** The deposit that was paid, or whose payment a chargeback takes back. */
  readonly depositId: string | null
  /** The reference of a payment, a refund or a hold, or the operator's reference. */
  readonly reference: string | null
  /** Why a statement's line was corrected; null for other entries. A movement by hand has its reason as its reference. */
  readonly reason: string | null
  /** The file that a person posted, and the approved proposal; null for entries that are not from a file. */
  readonly file: string | null
  readonly fileSha256: string | null
  readonly proposalId: string | null
  readonly actor: Actor
  readonly correlationId: string
  /** The legs of the entry, ordered by book. Each book sums to zero. */
  readonly postings: readonly Posting[]
}

const ledgerPrefix = 'ledger-'
const statementPrefix = 'statement-'
const periodPrefix = 'period-'

/** The account of the event's ledger, or null if the event is not in a ledger. */
export const ledgerOf = (event: RecordedEvent): AccountId | null =>
  event.stream.startsWith(ledgerPrefix) ? (event.stream.slice(ledgerPrefix.length) as AccountId) : null

/**
 * Whether the event is a line of a provider's statement. Such a line moves the service's own money and is in no ledger.
 */
export const isStatementLine = (event: RecordedEvent): event is RecordedEvent<StatementLineEvent> =>
  event.stream.startsWith(statementPrefix)

/** The account id if the event creates a reseller, or null. An account is a reseller from its creation or never. */
export const newResellerOf = (recorded: RecordedEvent): AccountId | null => {
  const event = recorded as RecordedEvent<AccountEvent>
  return event.type === 'AccountCreated' && event.data.reseller ? (event.data.accountId as AccountId) : null
}

/** The later of two ISO 8601 instants. Events use one format, which sorts as text. */
export const laterOf = (one: string | null, other: string): string =>
  one === null || other > one ? other : one

/** The time of the books as of an event. */
export type BookTime = {
  /** Accounting time: the running maximum of `recordedAt` in log order. ISO 8601 UTC. */
  readonly at: string
  /**
   * The earliest time of later entries: the first event of the log, or the end of the latest month that was cut off.
   */
  readonly openFrom: string
}

const timeAfter = (before: BookTime | null, recordedAt: string, cutOffEnd: string | null): BookTime => {
  const at = laterOf(before?.at ?? null, recordedAt)
  if (cutOffEnd !== null) return { at, openFrom: laterOf(before?.openFrom ?? at, cutOffEnd) }
  return at === before?.at ? before : { at, openFrom: before?.openFrom ?? at }
}

/** The time of the books after an event. `before` is null for the first event. */
export const bookTimeAfter = (before: BookTime | null, event: RecordedEvent): BookTime =>
  timeAfter(
    before,
    event.metadata.recordedAt,
    event.type === 'PeriodCutOff' ? (event as RecordedEvent<PeriodCutOff>).data.endedAt : null,
  )

/**
 * The accounting time of a line of a provider's statement, or of its correction: the time in the statement, while its
 * month is not cut off. A time in a month that was cut off, before the log's first event or in the future is replaced by
 * the time of the posting. Position in the log decides: no line after a cut-off is dated before it.
 */
export const dateOfLine = ({ at, openFrom }: BookTime, happenedAt: string): string =>
  happenedAt >= openFrom && happenedAt <= at ? happenedAt : at

/** The fields of money events that name their purpose. An event has some of them. */
type Purpose = {
  readonly order?: { readonly orderId: string; readonly customerId: string | null }
  readonly orderId?: string | null
  readonly customerId?: string | null
  readonly depositId?: string | null
  readonly reference?: string | null
  readonly holdId?: string
  readonly refundId?: string
}

/**
 * The entry of a money event. Every ledger event is booked by `postingsOf`, so a new event type needs no change here.
 * @throws what `postingsOf` throws
 */
export const entryOf = (
  event: RecordedEvent,
  ledger: { readonly accountId: AccountId; readonly reseller: boolean; readonly at: string },
): Entry => {
  const purpose = event.data as Purpose
  return {
    position: event.position,
    eventId: event.id,
    type: event.type,
    kind: entryKindOf(event as RecordedEvent<LedgerEvent>),
    accountId: ledger.accountId,
    at: ledger.at,
    recordedAt: event.metadata.recordedAt,
    happenedAt: null,
    orderId: purpose.order?.orderId ?? purpose.orderId ?? null,
    customerId: purpose.order?.customerId ?? purpose.customerId ?? null,
    depositId: purpose.depositId ?? null,
    reference: purpose.reference ?? purpose.holdId ?? purpose.refundId ?? null,
    reason: null,
    file: null,
    fileSha256: null,
    proposalId: null,
    actor: event.metadata.actor,
    correlationId: event.metadata.correlationId,
    postings: postingsOf(event as RecordedEvent<LedgerEvent>, ledger),
  }
}

/** The entry of a line of a statement. @throws what `statementPostings` throws */
export const statementEntryOf = (event: RecordedEvent<StatementLineEvent>, time: BookTime): Entry => {
  const happenedAt = isoTime(Date.parse(event.data.happenedAt))
  const file = event.type === 'StatementLineBooked' ? event.data.file : null
  return {
    position: event.position,
    eventId: event.id,
    type: event.type,
    kind: entryKindOf(event),
    accountId: null,
    at: dateOfLine(time, happenedAt),
    recordedAt: event.metadata.recordedAt,
    happenedAt,
    orderId: null,
    customerId: null,
    depositId: null,
    reference: event.data.reference,
    reason: event.type === 'StatementLineCorrected' ? event.data.reason : null,
    file: file?.name ?? null,
    fileSha256: file?.sha256 ?? null,
    proposalId: event.data.proposalId,
    actor: event.metadata.actor,
    correlationId: event.metadata.correlationId,
    postings: statementPostings(event),
  }
}

/** Whether events of this stream book lines of statements, or decide how those are dated. */
export const concernsDates = (stream: StreamName): boolean =>
  stream.startsWith(statementPrefix) || stream.startsWith(periodPrefix)

/** Whether events of this stream change entries: of all other events only the time counts. */
export const concernsBooks = (stream: StreamName): boolean =>
  stream.startsWith(ledgerPrefix) || stream.startsWith('account-') || concernsDates(stream)

/** Turns a log, event by event from its start, into journal entries. It stores only the resellers and the time. */
export type EntryStream = {
  /**
   * The entry of the next event in log order, or null if it moves no money. Every event must go to `next` or `pass`.
   */
  next(event: RecordedEvent): Entry | null
  /** Replaces `next` for an event of a stream that does not concern the books. Such an event need not be decoded. */
  pass(recordedAt: string): void
  /** As of the last event; null before the first. */
  readonly time: BookTime | null
}

/**
 * The pure fold behind the journal, replays and exports.
 * @example
 * ```ts
 * const entries = createEntryStream()
 * for await (const event of events) {
 *   const entry = entries.next(event)
 *   if (entry) write(entry)
 * }
 * ```
 */
export const createEntryStream = (): EntryStream => {
  const resellers = new Set<AccountId>()
  let time: BookTime | null = null
  return {
    next: (event) => {
      time = bookTimeAfter(time, event)
      const accountId = ledgerOf(event)
      if (accountId !== null)
        return entryOf(event, { accountId, reseller: resellers.has(accountId), at: time.at })
      if (isStatementLine(event)) return statementEntryOf(event, time)
      const reseller = newResellerOf(event)
      if (reseller !== null) resellers.add(reseller)
      return null
    },
    pass: (recordedAt) => {
      time = timeAfter(time, recordedAt, null)
    },
    get time() {
      return time
    },
  }
}
