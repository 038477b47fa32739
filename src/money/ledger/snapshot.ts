import { Map as ImmutableMap } from 'immutable'
import type { Fold } from '../../platform/eventstore/fold.ts'
import { objectText } from '../../platform/eventstore/json-text.ts'
import {
  type Remembered,
  type RememberedJson,
  rememberedCount,
  rememberedFromJson,
  rememberedText,
} from '../../platform/eventstore/remembered.ts'
import type { LedgerEvent } from './events.ts'
import type { Movements } from './movements.ts'
import type { Purse } from './purse.ts'
import { type SpendJson, spendFromJson, spendToJson } from './spend.ts'
import type { LedgerState, OpenHold } from './state.ts'

type Snapshot = Purse & {
  readonly heldMicros: number
  readonly holds: readonly (readonly [string, OpenHold])[]
  readonly movements: Movements extends Remembered<infer Value> ? RememberedJson<Value> : never
  readonly spend: SpendJson
  readonly customers: readonly (readonly [string, Purse])[]
}

const toText = (state: LedgerState): string =>
  objectText(
    {
      availableMicros: state.availableMicros,
      heldMicros: state.heldMicros,
      receivableMicros: state.receivableMicros,
      holds: state.holds.sortBy((_, holdId) => holdId).toArray(),
      spend: spendToJson(state.spend),
      customers: state.customers.sortBy((_, customerId) => customerId).toArray(),
    },
    { movements: rememberedText(state.movements) },
  )

const fromJson = (snapshot: Snapshot): LedgerState => ({
  ...snapshot,
  holds: ImmutableMap(snapshot.holds),
  movements: rememberedFromJson(snapshot.movements),
  spend: spendFromJson(snapshot.spend),
  customers: ImmutableMap(snapshot.customers),
})

export const ledgerSnapshot: NonNullable<Fold<LedgerState>['snapshot']> = {
  toText,
  fromText: (text) => fromJson(JSON.parse(text)),
  agrees: ({ availableMicros }, event) =>
    (event as LedgerEvent).data.availableAfterMicros === availableMicros,
  entries: (state) =>
    state.holds.size + rememberedCount(state.movements) + state.spend.queue.size + state.customers.size,
}
