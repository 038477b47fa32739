import { Map as ImmutableMap } from 'immutable'
import { type Decided, decided, type Fold } from '../../kernel/decider.ts'
import { defineEvent, type EventOf } from '../../kernel/event.ts'
import { anyId, group, hex, id, list } from '../../kernel/event-fields.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { whitelistStream } from '../../kernel/streams.ts'

/**
 * `whitelist-{account}`: the addresses and networks that use the plans of an account without credentials. An address is
 * personal data, so it is in the vault. One stream has the entries of all plans of the account, because an entry can be
 * moved from one plan to another.
 */
const stream = 'whitelist-{account}'

const entryId = anyId('the entry of the whitelist')
const planId = id('pln', 'the plan that its address or network uses')

export const networkAllowed = defineEvent('NetworkAllowed', {
  stream,
  means:
    'An address or a network may use the plan without credentials. The vault has the address and its targeting.',
  fields: {
    entryId,
    planId,
    commitment: hex(
      32,
      'SHA-256 over the plan, the network and the targeting of the entry as they stand in the vault, salted (docs/decisions/0074)',
    ),
  },
})

export const networkRemoved = defineEvent('NetworkRemoved', {
  stream,
  means: 'An entry was removed, or has another plan or targeting now: its former row allows nothing more.',
  fields: { entryId, commitment: hex(32, 'that of the event which allowed it') },
})

export const networksAdopted = defineEvent('NetworksAdopted', {
  stream,
  means: 'An upgrade commits to the entries that an older release had put into the vault: it happens once.',
  fields: {
    entries: list(
      group(
        {
          entryId,
          planId,
          commitment: hex(
            32,
            'SHA-256 over plan, network and targeting as they were in the vault when the service was upgraded, salted',
          ),
        },
        'an entry',
      ),
      'entries of the account',
    ),
  },
})

export const whitelistEventDefinitions = [networkAllowed, networkRemoved, networksAdopted] as const
export type WhitelistEvent = EventOf<(typeof whitelistEventDefinitions)[number]>

/** The commitments of all usable entries, each with the id of its entry. */
export type WhitelistState = ImmutableMap<string, string>

const whitelistFold: Fold<WhitelistState, WhitelistEvent> = {
  name: 'whitelist',
  version: 1,
  initial: ImmutableMap(),
  evolve: (state, event) => {
    switch (event.type) {
      case 'NetworkAllowed':
        return state.set(event.data.commitment, event.data.entryId)
      case 'NetworkRemoved':
        return state.delete(event.data.commitment)
      case 'NetworksAdopted':
        return event.data.entries.reduce(
          (entries, { commitment, entryId: entry }) => entries.set(commitment, entry),
          state,
        )
      default: {
        const unknown: never = event
        throw new Error(`unknown whitelist event ${JSON.stringify(unknown)}`)
      }
    }
  },
}

export const whitelistRef = (accountId: AccountId) => ({
  stream: whitelistStream(accountId),
  fold: whitelistFold,
})

export type CommittedEntry = ReturnType<typeof networkAllowed.data.parse>

/**
 * The commitments of an entry. There is one, or more while the entry is changed or after its row was changed with SQL.
 */
export const commitmentsOf = (state: WhitelistState, entry: string): readonly string[] => [
  ...state.filter((each) => each === entry).keys(),
]

/**
 * Allows entries. `known` is the commitment of the row that already has the same content, or null if there is none. An
 * entry that the log already allows needs no event. `results` has for each entry whether it was known, and its former
 * commitments.
 */
export const decideAllowance = (
  state: WhitelistState,
  requests: readonly { readonly entry: CommittedEntry; readonly known: string | null }[],
): Decided<
  WhitelistEvent,
  { readonly results: readonly { readonly isKnown: boolean; readonly former: readonly string[] }[] }
> => {
  const results = requests.map(({ entry, known }) => ({
    isKnown: known !== null && state.has(known),
    former: commitmentsOf(state, entry.entryId),
  }))
  const newEntries = requests.filter((_, at) => !results[at]!.isKnown)
  return {
    ...decided(...newEntries.map(({ entry }) => ({ type: 'NetworkAllowed', data: entry }) as const)),
    results,
  }
}

/** Removes commitments. Commitments that were removed before are ignored. */
export const decideNetworkRemoval = (
  state: WhitelistState,
  commitments: readonly string[],
): Decided<WhitelistEvent> =>
  decided(
    ...commitments.flatMap((commitment) => {
      const entry = state.get(commitment)
      return entry === undefined
        ? []
        : [{ type: 'NetworkRemoved', data: { entryId: entry, commitment } } as const]
    }),
  )

/** Adopts entries that an upgrade found in the vault. Entries that are already allowed do not change. */
export const decideNetworkAdoption = (
  state: WhitelistState,
  vaultEntries: readonly CommittedEntry[],
): Decided<WhitelistEvent> => {
  const entries = vaultEntries.filter(({ commitment }) => !state.has(commitment))
  return entries.length === 0 ? decided() : decided({ type: 'NetworksAdopted', data: { entries } })
}
