import { Map as ImmutableMap } from 'immutable'
import type { Fold } from '../eventstore/fold.ts'
import { type RememberedJson, rememberedCount, rememberedFromJson, rememberedToJson } from './remembered.ts'
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

const toJson = (state: LedgerState): Snapshot => ({
  availableMicros: state.availableMicros,
  heldMicros: state.heldMicros,
  receivableMicros: state.receivableMicros,
  holds: state.holds.sortBy((_, holdId) => holdId).toArray(),
  credits: rememberedToJson(state.credits),
  adjustments: rememberedToJson(state.adjustments),
  debits: rememberedToJson(state.debits),
  resolvedHolds: rememberedToJson(state.resolvedHolds),
  spend: spendToJson(state.spend),
  customers: state.customers.sortBy((_, customerId) => customerId).toArray(),
  customerMovements: rememberedToJson(state.customerMovements),
})

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
  toJson,
  fromJson: (json) => fromJson(json as Snapshot),
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
