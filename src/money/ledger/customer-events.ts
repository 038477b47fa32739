import { type EventOf, fact } from '../../platform/eventstore/fact.ts'
import { anyId, id, micros, oneOf, orAbsent, orNull, text } from '../../terms/fields.ts'
import { wholeOrder } from '../../terms/order-fields.ts'
import { customerAdjustmentReasons } from './adjustment-reason.ts'
import { debtFields, walletDebtFields } from './debt-change.ts'

/**
 * The money events of a reseller's customers. They stand on the reseller's own `ledger-{account}` stream, so that its
 * wallet and a customer's credit move in one append.
 */
const stream = 'ledger-{account}'

const customer = { customerId: anyId("the reseller's customer") }
const after = {
  creditAfterMicros: micros('0 or more', "the customer's credit right after the event"),
  availableAfterMicros: micros(
    '0 or more',
    "the reseller's wallet less its open holds right after the event: an auditor checks it",
  ),
}
const debt = "the customer's debt to the reseller"

export const customerCredited = fact('CustomerCredited', {
  stream,
  means: "A customer paid the reseller's own gateway. What it owes from a chargeback is paid first.",
  fields: {
    ...customer,
    reference: text(
      "the payment's id at the provider: with `gateway` it is credited once, whichever customer it is for",
    ),
    gateway: text("the reference of the reseller's credentials, `crd_…`"),
    depositId: id('dep', 'the deposit that the payment is of'),
    amountMicros: micros('above 0', 'what the customer paid'),
    ...debtFields(debt, 'paid'),
    ...after,
  },
})
export type CustomerCredited = EventOf<typeof customerCredited>

export const customerCharged = fact('CustomerCharged', {
  stream,
  means:
    "An order for a customer was paid: its price from the customer's credit, the cost from the reseller's wallet.",
  fields: {
    ...customer,
    order: wholeOrder,
    amountMicros: micros('0 or more', "the customer's price; 0 when the reseller gives it away"),
    costMicros: micros('0 or more', "what left the reseller's wallet"),
    ...after,
  },
})
export type CustomerCharged = EventOf<typeof customerCharged>

export const customerRefunded = fact('CustomerRefunded', {
  stream,
  means: 'A part of an order for a customer came back, on both sides; either part may be 0, not both.',
  fields: {
    ...customer,
    reference: text("the refund's id"),
    orderId: id('ord', 'the order'),
    family: text('whose revenue the service gives back'),
    amountMicros: micros('0 or more', "what came back to the customer's credit, its debt included"),
    ...debtFields(debt, 'paid'),
    costMicros: micros('0 or more', "what came back to the reseller's wallet, its debt included"),
    ...walletDebtFields,
    ...after,
  },
})
export type CustomerRefunded = EventOf<typeof customerRefunded>

export const customerAdjusted = fact('CustomerAdjusted', {
  stream,
  means: "A customer's credit was moved by hand, or taken back by a chargeback.",
  fields: {
    ...customer,
    reference: text("what the operator wrote, or the chargeback's id: it moves a customer's credit once"),
    reason: oneOf(customerAdjustmentReasons, 'why'),
    gateway: orNull(text('the gateway that a chargeback takes the money from; null for other reasons')),
    depositId: orAbsent(
      id(
        'dep',
        'the deposit whose payment went back; absent on what was adjusted by hand, and on chargebacks before 0.2.0',
      ),
    ),
    amountMicros: micros('either sign', 'above zero raises the credit, below lowers it'),
    ...debtFields(debt, 'change'),
    ...after,
  },
})
export type CustomerAdjusted = EventOf<typeof customerAdjusted>

export const customerFacts = [customerCredited, customerCharged, customerRefunded, customerAdjusted] as const
export type CustomerEvent = EventOf<(typeof customerFacts)[number]>
