import { resellerBook } from '../../domain/ledger/books.ts'
import { gatewayAccount } from '../../domain/ledger/postings.ts'
import type { TermsEvent } from '../../domain/resellers/events.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { termsStream } from '../../kernel/streams.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'

/**
 * The readable name of an account of a reseller's gateway: its provider and rail, e.g. `stripe card`; null for any
 * other account. The books name it by the reference of its credentials, which never changes its meaning.
 */
export type GatewayName = (account: string) => string | null

/** Collects gateway names from the events that set gateways. A reference always belongs to the same gateway. */
export const createGatewayNames = () => {
  const names = new Map<string, string>()
  const nameOf: GatewayName = (account) => names.get(account) ?? null
  return {
    see: (recorded: RecordedEvent): void => {
      const event = recorded as RecordedEvent<TermsEvent>
      if (event.type !== 'GatewaySet') return
      const { reference, provider, rail } = event.data
      names.set(gatewayAccount(reference), `${provider} ${rail}`)
    },
    nameOf,
  }
}

type Named = { readonly book: string; readonly account: string }

const ofCredentials = gatewayAccount('crd_')
const ofReseller = resellerBook('' as AccountId)

/** Streams of terms that are read at once. */
const streamBatchSize = 200

/** The gateway names of some accounts, from the terms of their resellers. */
export const readGatewayNames = async (
  log: Pick<EventLog, 'readStreams'>,
  accounts: readonly Named[],
): Promise<GatewayName> => {
  const { see, nameOf } = createGatewayNames()
  const gateways = accounts.filter(({ account }) => account.startsWith(ofCredentials))
  const streams = [...new Set(gateways.map(({ book }) => book))]
    .filter((book) => book.startsWith(ofReseller))
    .map((book) => termsStream(book.slice(ofReseller.length) as AccountId))
  for (let from = 0; from < streams.length; from += streamBatchSize) {
    const batch = streams.slice(from, from + streamBatchSize).map((stream) => ({ stream, from: 0 }))
    for (const events of (await log.readStreams(batch)).values())
      for (const stored of events) see(decode(stored))
  }
  return nameOf
}

/** The same accounts, each with the name of its gateway; null if it is not a reseller's gateway. */
export const withGateways = async <Account extends Named>(
  log: Pick<EventLog, 'readStreams'>,
  accounts: readonly Account[],
): Promise<readonly (Account & { readonly gateway: string | null })[]> => {
  const nameOf = await readGatewayNames(log, accounts)
  return accounts.map((each) => ({ ...each, gateway: nameOf(each.account) }))
}

/** An account for people, with the name of its gateway if it has one. */
export const accountText = (account: string, gateway: string | null | undefined): string =>
  gateway ? `${account} (${gateway})` : account
