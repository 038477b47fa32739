import type { Actor, RecordedEvent } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { StreamName } from '../../kernel/streams.ts'
import type { AccountEvent } from '../accounts/events.ts'
import type { LedgerEvent } from '../ledger/events.ts'
import { type Posting, postingsOf, statementPostings } from '../ledger/postings.ts'
import type { StatementLineEvent } from '../ledger/statement-lines.ts'
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
  /** Accounting time: the running maximum of `recordedAt` in log order. ISO 8601 UTC. */
  readonly at: string
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
export const statementEntryOf = (event: RecordedEvent<StatementLineEvent>, at: string): Entry => {
  const file = event.type === 'StatementLineBooked' ? event.data.file : null
  return {
    position: event.position,
    eventId: event.id,
    type: event.type,
    kind: entryKindOf(event),
    accountId: null,
    at,
    happenedAt: event.data.happenedAt,
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

/** Whether events of this stream move money or create resellers. Only the time of all other events counts. */
export const concernsBooks = (stream: StreamName): boolean =>
  stream.startsWith(ledgerPrefix) || stream.startsWith('account-') || stream.startsWith(statementPrefix)

/** Turns a log, event by event from its start, into journal entries. It stores only the resellers and the time. */
export type EntryStream = {
  /**
   * The entry of the next event in log order, or null if it moves no money. Every event must go to `next` or `pass`.
   */
  next(event: RecordedEvent): Entry | null
  /** Replaces `next` for an event of a stream that does not concern the books. Such an event need not be decoded. */
  pass(recordedAt: string): void
  /** The accounting time of the last event; null before the first. */
  readonly at: string | null
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
  let at: string | null = null
  return {
    next: (event) => {
      at = laterOf(at, event.metadata.recordedAt)
      const accountId = ledgerOf(event)
      if (accountId !== null) return entryOf(event, { accountId, reseller: resellers.has(accountId), at })
      if (isStatementLine(event)) return statementEntryOf(event, at)
      const reseller = newResellerOf(event)
      if (reseller !== null) resellers.add(reseller)
      return null
    },
    pass: (recordedAt) => {
      at = laterOf(at, recordedAt)
    },
    get at() {
      return at
    },
  }
}
