import { resellerBook } from '../../domain/ledger/books.ts'
import { gatewayAccount } from '../../domain/ledger/postings.ts'
import type { TermsEvent } from '../../domain/resellers/events.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { termsStream } from '../../kernel/streams.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'

/**
 * What an account of a reseller's own gateway is called by people: its provider and rail, e.g. `stripe card`; null for
 * any other account. The books name it by the reference of its credentials, which never changes its meaning.
 */
export type GatewayName = (account: string) => string | null

/** Learns the gateways from the events that set them. A reference stands for one gateway for ever. */
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
const streamsAtOnce = 200

/** The names of the gateways among some accounts, from the terms of the resellers whose they are. */
export const readGatewayNames = async (
  log: Pick<EventLog, 'readStreams'>,
  accounts: readonly Named[],
): Promise<GatewayName> => {
  const { see, nameOf } = createGatewayNames()
  const gateways = accounts.filter(({ account }) => account.startsWith(ofCredentials))
  const streams = [...new Set(gateways.map(({ book }) => book))]
    .filter((book) => book.startsWith(ofReseller))
    .map((book) => termsStream(book.slice(ofReseller.length) as AccountId))
  for (let from = 0; from < streams.length; from += streamsAtOnce) {
    const tails = streams.slice(from, from + streamsAtOnce).map((stream) => ({ stream, from: 0 }))
    for (const events of (await log.readStreams(tails)).values())
      for (const stored of events) see(decode(stored))
  }
  return nameOf
}

/** The same accounts, each with the name of its gateway, null where it is none of a reseller. */
export const withGateways = async <Account extends Named>(
  log: Pick<EventLog, 'readStreams'>,
  accounts: readonly Account[],
): Promise<readonly (Account & { readonly gateway: string | null })[]> => {
  const nameOf = await readGatewayNames(log, accounts)
  return accounts.map((each) => ({ ...each, gateway: nameOf(each.account) }))
}

/** An account for people, with its gateway's name where it has one. */
export const accountText = (account: string, gateway: string | null | undefined): string =>
  gateway ? `${account} (${gateway})` : account
