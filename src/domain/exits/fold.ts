import { Map as ImmutableMap } from 'immutable'
import type { Fold } from '../../kernel/decider.ts'
import type { ExitEvent, ExitState, ExitTerms } from './events.ts'

export type KnownExit = { readonly terms: ExitTerms; readonly state: ExitState }

/** Every exit that was ever imported, by id. */
export type ExitsState = ImmutableMap<string, KnownExit>

const evolve = (state: ExitsState, event: ExitEvent): ExitsState => {
  switch (event.type) {
    case 'ExitsImported':
      return state.withMutations((exits) => {
        for (const terms of event.data.exits) {
          const before = exits.get(terms.exitId)?.state ?? 'live'
          exits.set(terms.exitId, { terms, state: before === 'removed' ? 'live' : before })
        }
      })
    case 'ExitsStateChanged':
      return state.withMutations((exits) => {
        for (const exitId of event.data.exitIds) {
          const known = exits.get(exitId)
          if (known) exits.set(exitId, { ...known, state: event.data.state })
        }
      })
    default:
      return event satisfies never
  }
}

export const exitsFold: Fold<ExitsState, ExitEvent> = {
  name: 'exits',
  version: 1,
  initial: ImmutableMap(),
  evolve,
  snapshot: {
    toText: (state) => JSON.stringify([...state]),
    fromText: (text) => ImmutableMap(JSON.parse(text) as [string, KnownExit][]),
    entries: (state) => state.size * 2,
  },
}
