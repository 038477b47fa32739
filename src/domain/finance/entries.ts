import type { Actor, RecordedEvent } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { StreamName } from '../../kernel/streams.ts'
import type { AccountEvent } from '../accounts/events.ts'
import type { LedgerEvent } from '../ledger/events.ts'
import { type Posting, postingsOf, statementPostings } from '../ledger/postings.ts'
import type { StatementLineBooked } from '../ledger/statement-lines.ts'

/** A journal entry: what one money event books, in every book, with what it was for and who caused it. */
export type Entry = {
  /** The event's place in the log: an entry has no other number. */
  readonly position: number
  readonly eventId: string
  /** The event's type, e.g. `WalletDebited`. */
  readonly type: string
  /** The account in whose ledger the event stands; null for a line of a provider's statement. */
  readonly accountId: AccountId | null
  /** Accounting time: the running maximum of `recordedAt` in log order. ISO 8601 UTC. */
  readonly at: string
  readonly orderId: string | null
  readonly customerId: string | null
  /** The deposit that was paid, or that a chargeback takes back. */
  readonly depositId: string | null
  /** Of a payment, a refund, a hold, or what an operator wrote. */
  readonly reference: string | null
  readonly actor: Actor
  readonly correlationId: string
  /** The legs of the entry in the order of its books; each book sums to zero. */
  readonly postings: readonly Posting[]
}

const ledgerPrefix = 'ledger-'
const statementPrefix = 'statement-'

/** The account in whose ledger the event stands, or null for an event that moves no money. */
export const ledgerOf = (event: RecordedEvent): AccountId | null =>
  event.stream.startsWith(ledgerPrefix) ? (event.stream.slice(ledgerPrefix.length) as AccountId) : null

/** Whether the event is a line of a provider's statement, which moves money of the service and of no ledger. */
export const isStatementLine = (event: RecordedEvent): event is RecordedEvent<StatementLineBooked> =>
  event.stream.startsWith(statementPrefix)

/** The reseller that an event makes, or null: an account is one from its creation on, or never. */
export const newResellerOf = (recorded: RecordedEvent): AccountId | null => {
  const event = recorded as RecordedEvent<AccountEvent>
  return event.type === 'AccountCreated' && event.data.reseller ? (event.data.accountId as AccountId) : null
}

/** The later of two ISO 8601 instants in the one form that events carry, which sorts as text. */
export const laterOf = (one: string | null, other: string): string =>
  one === null || other > one ? other : one

/** What money events may say of their purpose, whichever of them say it. */
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
 * The entry of a money event. Every event of a ledger books through `postingsOf`, so a new kind of it needs no change.
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
    accountId: ledger.accountId,
    at: ledger.at,
    orderId: purpose.order?.orderId ?? purpose.orderId ?? null,
    customerId: purpose.order?.customerId ?? purpose.customerId ?? null,
    depositId: purpose.depositId ?? null,
    reference: purpose.reference ?? purpose.holdId ?? purpose.refundId ?? null,
    actor: event.metadata.actor,
    correlationId: event.metadata.correlationId,
    postings: postingsOf(event as RecordedEvent<LedgerEvent>, ledger),
  }
}

/** The entry of a line of a statement. @throws what `statementPostings` throws */
export const statementEntryOf = (event: RecordedEvent<StatementLineBooked>, at: string): Entry => ({
  position: event.position,
  eventId: event.id,
  type: event.type,
  accountId: null,
  at,
  orderId: null,
  customerId: null,
  depositId: null,
  reference: event.data.reference,
  actor: event.metadata.actor,
  correlationId: event.metadata.correlationId,
  postings: statementPostings(event),
})

/** Whether events of this stream move money or say who is a reseller. Of all others only the time counts. */
export const concernsBooks = (stream: StreamName): boolean =>
  stream.startsWith(ledgerPrefix) || stream.startsWith('account-') || stream.startsWith(statementPrefix)

/** Turns a log, event by event from its start, into journal entries. It remembers the resellers and the time, no more. */
export type EntryStream = {
  /** The entry of the next event in log order, or null when it moves no money. Every event must be shown to it. */
  next(event: RecordedEvent): Entry | null
  /** In place of `next` for an event of a stream that does not concern the books: it need not be decoded. */
  pass(recordedAt: string): void
  /** The accounting time as of the last event; null before the first. */
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
