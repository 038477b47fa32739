import { Map as ImmutableMap } from 'immutable'
import type { Fold } from '../../platform/eventstore/fold.ts'
import { objectText } from '../../platform/eventstore/json-text.ts'
import {
  type RememberedJson,
  rememberedCount,
  rememberedFromJson,
  rememberedText,
} from '../../platform/eventstore/remembered.ts'
import type { LedgerEvent } from './events.ts'
import { type SpendJson, spendFromJson, spendToJson } from './spend.ts'
import type {
  Applied,
  CustomerApplied,
  CustomerCredit,
  HoldResolution,
  LedgerState,
  OpenHold,
  RecordedDebit,
} from './state.ts'

type Snapshot = {
  readonly availableMicros: number
  readonly heldMicros: number
  readonly receivableMicros: number
  readonly holds: readonly (readonly [string, OpenHold])[]
  readonly credits: RememberedJson<Applied>
  readonly adjustments: RememberedJson<Applied>
  readonly debits: RememberedJson<RecordedDebit>
  readonly resolvedHolds: RememberedJson<HoldResolution>
  readonly spend: SpendJson
  readonly customers: readonly (readonly [string, CustomerCredit])[]
  readonly customerMovements: RememberedJson<CustomerApplied>
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
    {
      credits: rememberedText(state.credits),
      adjustments: rememberedText(state.adjustments),
      debits: rememberedText(state.debits),
      resolvedHolds: rememberedText(state.resolvedHolds),
      customerMovements: rememberedText(state.customerMovements),
    },
  )

const fromJson = (snapshot: Snapshot): LedgerState => ({
  ...snapshot,
  holds: ImmutableMap(snapshot.holds),
  credits: rememberedFromJson(snapshot.credits),
  adjustments: rememberedFromJson(snapshot.adjustments),
  debits: rememberedFromJson(snapshot.debits),
  resolvedHolds: rememberedFromJson(snapshot.resolvedHolds),
  spend: spendFromJson(snapshot.spend),
  customers: ImmutableMap(snapshot.customers),
  customerMovements: rememberedFromJson(snapshot.customerMovements),
})

export const ledgerSnapshot: NonNullable<Fold<LedgerState>['snapshot']> = {
  toText,
  fromText: (text) => fromJson(JSON.parse(text)),
  agrees: ({ availableMicros }, event) =>
    (event as LedgerEvent).data.availableAfterMicros === availableMicros,
  entries: (state) =>
    state.holds.size +
    rememberedCount(state.credits) +
    rememberedCount(state.adjustments) +
    rememberedCount(state.debits) +
    rememberedCount(state.resolvedHolds) +
    state.spend.queue.size +
    state.customers.size +
    rememberedCount(state.customerMovements),
}
