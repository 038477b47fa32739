import type { Fold } from '../../platform/eventstore/fold.ts'
import type { PeriodClosed, PeriodEvent } from './events.ts'

/** A month that nobody closes yet, one that was cut off (a closing that was interrupted, or goes on), or a closed one. */
export type PeriodState =
  | { readonly status: 'open' }
  | { readonly status: 'cut off' }
  | { readonly status: 'closed'; readonly closed: PeriodClosed['data']; readonly closedAtMs: number }

const evolve: Fold<PeriodState, PeriodEvent>['evolve'] = (state, event) => {
  switch (event.type) {
    case 'PeriodCutOff':
      if (state.status !== 'open') throw new Error(`period ${event.data.period} was cut off twice`)
      return { status: 'cut off' }
    case 'PeriodClosed':
      if (state.status !== 'cut off')
        throw new Error(`period ${event.data.period} was closed while ${state.status}`)
      return { status: 'closed', closed: event.data, closedAtMs: event.recordedAtMs }
    default: {
      const unknown: never = event
      throw new Error(`unknown period event ${JSON.stringify(unknown)}`)
    }
  }
}

/** The state of a `period-{yyyy-mm}` stream. */
export const periodFold: Fold<PeriodState, PeriodEvent> = {
  name: 'period',
  version: 1,
  initial: { status: 'open' },
  evolve,
}
