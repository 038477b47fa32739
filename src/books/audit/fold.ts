import type { Fold } from '../../platform/eventstore/fold.ts'
import type { BreachEvent, LogSealed, SealEvent } from './events.ts'

/** Where the seals of the log stand. */
export type SealState = {
  /** Null before the first. */
  readonly last: LogSealed['data'] | null
  /** The key that signs: of the last seal or rotation. Null before the first of either. */
  readonly publicKey: string | null
}

const evolve: Fold<SealState, SealEvent>['evolve'] = (state, event) => {
  switch (event.type) {
    case 'LogSealed':
      return { last: event.data, publicKey: event.data.publicKey }
    case 'SealKeyRotated':
      return { ...state, publicKey: event.data.publicKey }
    default: {
      const unknown: never = event
      throw new Error(`unknown seal event ${JSON.stringify(unknown)}`)
    }
  }
}

/** The state of `seal`. */
export const sealFold: Fold<SealState, SealEvent> = {
  name: 'seal',
  version: 1,
  initial: { last: null, publicKey: null },
  evolve,
  snapshot: {
    toText: (state) => JSON.stringify(state),
    fromText: (text) => JSON.parse(text) as SealState,
    entries: () => 1,
  },
}

/** The laws about which it was decided, of one event. */
export type BreachState = readonly string[]

/** The state of `breach-{event id}`. */
export const breachFold: Fold<BreachState, BreachEvent> = {
  name: 'breach',
  version: 1,
  initial: [],
  evolve: (state, { data }) => [...state, data.rule],
}
