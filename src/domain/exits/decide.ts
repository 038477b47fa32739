import type { ExitEvent, ExitState, ExitTerms } from './events.ts'
import type { ExitsState } from './fold.ts'

/** The most exits in one event: about 100 KiB, far below the 1 MiB of an append. */
export const maxExitsPerEvent = 200

export type ImportAnswer = {
  readonly added: readonly string[]
  readonly changed: readonly string[]
  readonly unchanged: readonly string[]
}

export type StateAnswer =
  | { readonly status: 'changed'; readonly changed: readonly string[] }
  | { readonly status: 'refused'; readonly unknown: readonly string[] }

export type ExitDecision<Answer> = { readonly events: readonly ExitEvent[]; readonly answer: Answer }

/** Adds new exits and replaces changed ones. Unchanged exits give no event. */
export const decideImport = (state: ExitsState, exits: readonly ExitTerms[]): ExitDecision<ImportAnswer> => {
  const isNew = ({ exitId }: ExitTerms): boolean => (state.get(exitId)?.state ?? 'removed') === 'removed'
  const isSame = (terms: ExitTerms): boolean =>
    JSON.stringify(state.get(terms.exitId)?.terms) === JSON.stringify(terms)
  const changedExits = exits.filter((terms) => isNew(terms) || !isSame(terms))
  const idsOf = (list: readonly ExitTerms[]): readonly string[] => list.map(({ exitId }) => exitId)
  return {
    events: changedExits.length === 0 ? [] : [{ type: 'ExitsImported', data: { exits: changedExits } }],
    answer: {
      added: idsOf(exits.filter(isNew)),
      changed: idsOf(changedExits.filter((terms) => !isNew(terms))),
      unchanged: idsOf(exits.filter((terms) => !isNew(terms) && isSame(terms))),
    },
  }
}

/** Changes the state of exits. All are refused if one is unknown. An unchanged state gives no event. */
export const decideState = (
  state: ExitsState,
  exitIds: readonly string[],
  newState: ExitState,
): ExitDecision<StateAnswer> => {
  const unknown = exitIds.filter((exitId) => (state.get(exitId)?.state ?? 'removed') === 'removed')
  if (unknown.length > 0) return { events: [], answer: { status: 'refused', unknown } }
  const changed = [...new Set(exitIds)].filter((exitId) => state.get(exitId)?.state !== newState)
  return {
    events:
      changed.length === 0
        ? []
        : [{ type: 'ExitsStateChanged', data: { exitIds: changed, state: newState } }],
    answer: { status: 'changed', changed },
  }
}
