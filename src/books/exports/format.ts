import type { Entry } from '../finance/entries.ts'
import type { GatewayName } from '../finance/gateway-names.ts'

export const formats = ['hledger', 'beancount', 'csv', 'jsonl'] as const
export type Format = (typeof formats)[number]
export type JournalFormat = Exclude<Format, 'jsonl'>

/** What an export says of itself at its head. */
export type ExportHead = {
  readonly logId: string
  /** The book that it is limited to, or null for every book. */
  readonly book: string | null
  /** Knows a gateway from the event on that set it. */
  readonly gatewayOf: GatewayName
}

/** How a program for accounts writes a journal: text for its head, for each entry, and for its end. */
export type JournalWriter = {
  head(): string
  /** Empty where no posting is of the book that was asked for. */
  entry(entry: Entry): string
  end(): string
}

/** One leg: the book and account of a posting, and micro-dollars: above zero a debit, below a credit. */
export type Leg = { readonly book: string; readonly account: string; readonly amountMicros: number }

/** The legs of an entry by book, in their order: each book's part sums to zero and is a transaction of its own. */
export const legsByBook = (entry: Entry, only: string | null): ReadonlyMap<string, readonly Leg[]> => {
  const books = new Map<string, Leg[]>()
  for (const { book, account, debitMicros, creditMicros } of entry.postings) {
    if (only !== null && book !== only) continue
    const legs = books.get(book)
    const leg = { book, account, amountMicros: debitMicros - creditMicros }
    if (legs === undefined) books.set(book, [leg])
    else legs.push(leg)
  }
  return books
}

/** `2026-11-21` of an instant in UTC. */
export const dayOf = (iso: string): string => iso.slice(0, 10)

/** What an entry is told by, besides its accounts; those that it has. */
export const factsOf = (entry: Entry): readonly (readonly [name: string, value: string])[] => {
  const facts: readonly (readonly [string, string | null])[] = [
    ['event', entry.eventId],
    ['time', entry.at],
    ['owner', entry.accountId],
    ['order', entry.orderId],
    ['customer', entry.customerId],
    ['deposit', entry.depositId],
    ['reference', entry.reference],
  ]
  return facts.filter((fact): fact is readonly [string, string] => fact[1] !== null)
}
