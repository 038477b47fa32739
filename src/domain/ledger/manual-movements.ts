import type { Fold } from '../../kernel/decider.ts'
import { defineEvent, defineEventOf, type EventOf } from '../../kernel/event.ts'
import {
  anyId,
  either,
  exactly,
  group,
  id,
  micros,
  oneOf,
  orAbsent,
  orNull,
  text,
} from '../../kernel/event-fields.ts'
import { adjustmentReasons, customerAdjustmentReasons } from './adjustment-reasons.ts'

const stream = 'deposit-{deposit}'

const reference = text(
  "the operator's reference, which is permanently used for the account and the kind of movement",
)
const gateway = orNull(
  text('the gateway of a chargeback or a refund at the provider; null for other reasons'),
)
const depositId = orAbsent(
  id('dep', 'the deposit whose payment was charged back or refunded; absent for a manual movement'),
)
const signedAmount = micros('either sign', 'positive: an increase, negative: a decrease')

/** The data of `ManualMovementRecorded`. */
export const movement = either(
  [
    group(
      {
        kind: exactly('credit', 'a payment that was received elsewhere, such as a bank transfer'),
        accountId: id('acc', 'the account of the wallet'),
        reference,
        amountMicros: micros('above 0', 'the credited amount'),
      },
      'A payment that was received elsewhere.',
    ),
    group(
      {
        kind: exactly(
          'adjustment',
          'a correction, goodwill, chargeback or refund at the provider, of the wallet',
        ),
        accountId: id('acc', 'the account of the wallet'),
        reference,
        reason: oneOf(adjustmentReasons, 'why'),
        gateway,
        depositId,
        amountMicros: signedAmount,
      },
      'An adjustment of the wallet.',
    ),
    group(
      {
        kind: exactly('customer', "of the credit of a reseller's customer"),
        accountId: id('acc', 'the reseller'),
        customerId: anyId('the customer'),
        reference,
        reason: oneOf(customerAdjustmentReasons, 'why'),
        gateway,
        depositId,
        amountMicros: signedAmount,
      },
      "An adjustment of a customer's credit.",
    ),
  ],
  'the manual movement',
)
/** A manual movement by an operator. `amountMicros` is above zero for a credit and signed for an adjustment. */
export type ManualMovement = (typeof movement)['_output']
export type CustomerMovement = Extract<ManualMovement, { readonly kind: 'customer' }>

const referenceFields = { accountId: id('acc', 'the account of the wallet'), reference }

/** The `deposit-{id}` stream of a manual movement. It makes the reference unique. */
export const manualMovementRecorded = defineEventOf('ManualMovementRecorded', {
  stream,
  means: 'An operator requested a manual movement: recorded completely before any money moves.',
  data: movement,
})
export type ManualMovementRecorded = EventOf<typeof manualMovementRecorded>

export const manualMovementApplied = defineEvent('ManualMovementApplied', {
  stream,
  means:
    'The ledger has the movement: `WalletCredited`, `WalletAdjusted` or `CustomerAdjusted` precedes this event.',
  fields: referenceFields,
})
export type ManualMovementApplied = EventOf<typeof manualMovementApplied>

export const manualMovementWithdrawn = defineEvent('ManualMovementWithdrawn', {
  stream,
  means: 'The wallet refused the movement after it was recorded; nothing moved.',
  fields: referenceFields,
})
export type ManualMovementWithdrawn = EventOf<typeof manualMovementWithdrawn>

export const manualEventDefinitions = [
  manualMovementRecorded,
  manualMovementApplied,
  manualMovementWithdrawn,
] as const
export type ManualMovementEvent = EventOf<(typeof manualEventDefinitions)[number]>

/** The state of a manual movement; null for a reference that was never used. */
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

/** Never snapshotted, because a reference has few events. */
export const manualFold: Fold<ManualState, ManualMovementEvent> = {
  name: 'manual-movement',
  version: 1,
  initial: null,
  evolve,
}
