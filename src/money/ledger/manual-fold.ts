import type { Fold } from '../../platform/eventstore/fold.ts'
import type { ManualMovement, ManualMovementEvent } from './manual-events.ts'

/** Where a movement by hand stands; null for a reference that was never used. */
export type ManualState = {
  readonly status: 'recorded' | 'applied' | 'withdrawn'
  readonly movement: ManualMovement
  readonly recordedAtMs: number
} | null

const evolve: Fold<ManualState, ManualMovementEvent>['evolve'] = (state, event) => {
  if (event.type === 'ManualMovementRecorded')
    return { status: 'recorded', movement: event.data, recordedAtMs: event.recordedAtMs }
  if (!state) throw new Error(`${event.type} on a movement that was never recorded`)
  switch (event.type) {
    case 'ManualMovementApplied':
      return { ...state, status: 'applied' }
    case 'ManualMovementWithdrawn':
      return { ...state, status: 'withdrawn' }
    default: {
      const unknown: never = event
      throw new Error(`unknown event of a movement by hand ${JSON.stringify(unknown)}`)
    }
  }
}

/** Never snapshotted: a reference has a handful of events. */
export const manualFold: Fold<ManualState, ManualMovementEvent> = {
  name: 'manual-movement',
  version: 1,
  initial: null,
  evolve,
}
