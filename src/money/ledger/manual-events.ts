import { type EventOf, fact, factOf } from '../../platform/eventstore/fact.ts'
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
} from '../../terms/fields.ts'
import { adjustmentReasons, customerAdjustmentReasons } from './adjustment-reason.ts'

const stream = 'deposit-{deposit}'

const reference = text('what the operator wrote: spent for ever, within the account and the kind of movement')
const gateway = orNull(text('the gateway that a chargeback takes the money from; null for other reasons'))
const depositId = orAbsent(id('dep', 'the deposit whose payment went back; absent where it is moved by hand'))
const signed = micros('either sign', 'above zero raises what it moves, below lowers it')

/** As `ManualMovementRecorded` has it. */
export const movement = either(
  [
    group(
      {
        kind: exactly('credit', 'a credit of the wallet'),
        accountId: id('acc', 'whose wallet'),
        reference,
        amountMicros: micros('above 0', 'what is credited'),
      },
      'A credit.',
    ),
    group(
      {
        kind: exactly('adjustment', 'a correction, goodwill or chargeback of the wallet'),
        accountId: id('acc', 'whose wallet'),
        reference,
        reason: oneOf(adjustmentReasons, 'why'),
        gateway,
        depositId,
        amountMicros: signed,
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
        amountMicros: signed,
      },
      "An adjustment of a customer's credit.",
    ),
  ],
  'what is moved by hand',
)
/** What an operator moves by hand. `amountMicros` is above zero for a credit, signed for what adjusts. */
export type ManualMovement = (typeof movement)['_output']

const named = { accountId: id('acc', 'whose wallet'), reference }

/** The `deposit-{id}` stream of a movement by hand, which spends its reference for ever. */
export const manualMovementRecorded = factOf('ManualMovementRecorded', {
  stream,
  means: 'An operator moves money by hand: recorded with all that is to move, before anything moves.',
  data: movement,
})
export type ManualMovementRecorded = EventOf<typeof manualMovementRecorded>

export const manualMovementApplied = fact('ManualMovementApplied', {
  stream,
  means:
    'The ledger has the movement: `WalletCredited`, `WalletAdjusted` or `CustomerAdjusted` stands before it.',
  fields: named,
})
export type ManualMovementApplied = EventOf<typeof manualMovementApplied>

export const manualMovementWithdrawn = fact('ManualMovementWithdrawn', {
  stream,
  means: 'The wallet refused the movement after it was recorded; nothing moved.',
  fields: named,
})
export type ManualMovementWithdrawn = EventOf<typeof manualMovementWithdrawn>

export const manualFacts = [manualMovementRecorded, manualMovementApplied, manualMovementWithdrawn] as const
export type ManualMovementEvent = EventOf<(typeof manualFacts)[number]>
