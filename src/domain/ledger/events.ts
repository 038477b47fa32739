import { defineEvent, type EventOf } from '../../kernel/event.ts'
import {
  anyId,
  cents,
  group,
  id,
  micros,
  oneOf,
  orAbsent,
  orNull,
  type ShapeValue,
  text,
} from '../../kernel/event-fields.ts'
import { capCoverages } from '../../kernel/scopes.ts'
import { wholeOrder } from '../shared/order-terms.ts'
import { adjustmentReasons, customerAdjustmentReasons } from './adjustment-reasons.ts'

/**
 * The fields of an event that change a debt. Since 0.2.0 all events have `debtChangeMicros`: what is added to the debt,
 * negative if a debt is paid. Before, events had `receivableMicros`: in credits and refunds the paid part of the debt,
 * in adjustments the change of the debt. An event has exactly one of the two, and the field name shows which.
 */
export const debtFields = (debtText: string, oldMeaning: 'paid' | 'change') => ({
  debtChangeMicros: orAbsent(
    micros(
      'either sign',
      `the change of ${debtText}; negative: a payment. Absent only before 0.2.0, on events with \`receivableMicros\``,
    ),
  ),
  receivableMicros: orAbsent(
    oldMeaning === 'paid'
      ? micros('0 or more', `before 0.2.0 only: the paid part of ${debtText}; positive: a reduction`)
      : micros('either sign', `before 0.2.0 only: the change of ${debtText}; negative: a payment`),
  ),
})

const owedAfter = (debtText: string) => ({
  owedAfterMicros: orAbsent(
    micros('0 or more', `${debtText} right after the event: an auditor checks it. Absent before 0.2.0`),
  ),
})

/** The same for the wallet's debt, in a refund of a customer's order, which changes both debts. */
export const walletDebtFields = {
  walletDebtChangeMicros: orAbsent(
    micros(
      'either sign',
      "the change of the reseller's own debt at the service; negative: a payment. Absent only before 0.2.0, on events with `walletReceivableMicros`",
    ),
  ),
  walletReceivableMicros: orAbsent(
    micros('0 or more', "before 0.2.0 only: the paid part of the reseller's own debt; positive: a reduction"),
  ),
}

/** The fields that the ledger adds to its input. */
export type DebtFields =
  | 'debtChangeMicros'
  | 'receivableMicros'
  | 'owedAfterMicros'
  | 'walletDebtChangeMicros'
  | 'walletReceivableMicros'

/**
 * The money events of a reseller's customers. They are in the reseller's own `ledger-{account}` stream, so that its
 * wallet and a customer's credit move in one append.
 */
const customerStream = 'ledger-{account}'

const customer = { customerId: anyId("the reseller's customer") }
const customerAfter = {
  creditAfterMicros: micros('0 or more', "the customer's credit right after the event"),
  availableAfterMicros: micros(
    '0 or more',
    "the reseller's wallet less its open holds right after the event: an auditor checks it",
  ),
}

const debt = "the customer's debt to the reseller"

export const customerCredited = defineEvent('CustomerCredited', {
  stream: customerStream,
  means: "A customer paid the reseller's own gateway. A debt from a chargeback is paid first.",
  fields: {
    ...customer,
    reference: text(
      "the payment's id at the provider: with `gateway` it is credited once, whichever customer it is for",
    ),
    gateway: text("the reference of the reseller's credentials, `crd_…`"),
    depositId: id('dep', 'the deposit of the payment'),
    amountMicros: micros('above 0', "the customer's payment"),
    ...debtFields(debt, 'paid'),
    ...customerAfter,
  },
})

export type CustomerCredited = EventOf<typeof customerCredited>

/** The key's cap, on the debits and holds that leave 80 % of it or more spent: `key.cap_reached` is due. */
const keyCap = orAbsent(
  group(
    {
      capCents: cents('0 or more', 'the spending limit of the key in any 24 hours'),
      covers: oneOf(capCoverages, 'what it limits: the cost of orders, or also of scraper calls'),
      spentMicros: micros('0 or more', 'what it limits, in these 24 hours, including this event'),
    },
    "the key's daily cap; only if 80 % of it or more is spent. Absent before 0.2.0",
  ),
)

export const customerCharged = defineEvent('CustomerCharged', {
  stream: customerStream,
  means:
    "An order for a customer was paid: its price from the customer's credit, the cost from the reseller's wallet.",
  fields: {
    ...customer,
    order: wholeOrder,
    amountMicros: micros('0 or more', "the customer's price; 0 when the reseller gives it away"),
    costMicros: micros('0 or more', "the debit of the reseller's wallet"),
    keyCap,
    ...customerAfter,
  },
})

export type CustomerCharged = EventOf<typeof customerCharged>

export const customerRefunded = defineEvent('CustomerRefunded', {
  stream: customerStream,
  means: 'A part of an order for a customer was refunded, on both sides; either part may be 0, not both.',
  fields: {
    ...customer,
    reference: text("the refund's id"),
    orderId: id('ord', 'the order'),
    family: text('the product family whose revenue is reduced'),
    amountMicros: micros('0 or more', "the refund to the customer's credit, including its debt"),
    ...debtFields(debt, 'paid'),
    costMicros: micros('0 or more', "the refund to the reseller's wallet, including its debt"),
    ...walletDebtFields,
    ...customerAfter,
  },
})

export type CustomerRefunded = EventOf<typeof customerRefunded>

export const customerAdjusted = defineEvent('CustomerAdjusted', {
  stream: customerStream,
  means: "A customer's credit was adjusted manually, or by a chargeback or a refund at the provider.",
  fields: {
    ...customer,
    reference: text(
      "the operator's text, or the id of the chargeback or the refund: it moves a customer's credit once",
    ),
    reason: oneOf(customerAdjustmentReasons, 'why'),
    gateway: orNull(text('the gateway of a chargeback or a refund at the provider; null for other reasons')),
    depositId: orAbsent(
      id(
        'dep',
        'the deposit whose payment was charged back or refunded; absent for manual adjustments, and for chargebacks before 0.2.0',
      ),
    ),
    amountMicros: micros('either sign', 'positive: an increase of the credit, negative: a decrease'),
    ...debtFields(debt, 'change'),
    ...owedAfter(debt),
    ...customerAfter,
  },
})

export type CustomerAdjusted = EventOf<typeof customerAdjusted>

export const customerEventDefinitions = [
  customerCredited,
  customerCharged,
  customerRefunded,
  customerAdjusted,
] as const

export type CustomerEvent = EventOf<(typeof customerEventDefinitions)[number]>

/** The money events of a `ledger-{account}` stream. */
const stream = 'ledger-{account}'

const after = {
  availableAfterMicros: micros(
    '0 or more',
    'the wallet less open holds right after the event: an auditor checks it',
  ),
}

export const walletCredited = defineEvent('WalletCredited', {
  stream,
  means:
    'A deposit, a payment that was received elsewhere or a refund was credited. A debt from a chargeback is paid first.',
  fields: {
    source: oneOf(
      ['deposit', 'manual', 'refund'],
      'the source of the money; `manual`: a payment that was received elsewhere, such as a bank transfer',
    ),
    reference: text(
      "unique in the account: the provider's payment id, the operator's reference, or the refund's id",
    ),
    gateway: orNull(
      text(
        'the gateway that holds the money; `manual` for a payment that was received elsewhere, null for a refund',
      ),
    ),
    depositId: orNull(id('dep', 'the deposit; null for other sources')),
    orderId: orNull(id('ord', 'the refunded order; null for other sources')),
    family: orNull(text('the family whose revenue a refund reduces; null for other sources')),
    amountMicros: micros('above 0', 'the received amount, including the paid part of a debt'),
    ...debtFields("the account's debt", 'paid'),
    ...after,
  },
})

export type WalletCredited = EventOf<typeof walletCredited>

export const walletAdjusted = defineEvent('WalletAdjusted', {
  stream,
  means:
    'A wallet was adjusted manually, such as a credit as goodwill, or by a chargeback or a refund at the provider.',
  fields: {
    reference: text(
      "the operator's text, or the id of the chargeback or the refund: it moves the wallet once",
    ),
    reason: oneOf(adjustmentReasons, 'why'),
    gateway: orNull(text('the gateway of a chargeback or a refund at the provider; null for other reasons')),
    depositId: orAbsent(
      id(
        'dep',
        'the deposit whose payment was charged back or refunded; absent for manual adjustments, and for chargebacks before 0.2.0',
      ),
    ),
    amountMicros: micros('either sign', 'positive: an increase of the wallet, negative: a decrease'),
    ...debtFields("the account's debt", 'change'),
    ...owedAfter("the account's debt"),
    ...after,
  },
})

export type WalletAdjusted = EventOf<typeof walletAdjusted>

export const walletDebited = defineEvent('WalletDebited', {
  stream,
  means: 'An order was paid from the wallet; it carries the whole order.',
  fields: { order: wholeOrder, amountMicros: micros('0 or more', 'the debited amount'), keyCap, ...after },
})

export type WalletDebited = EventOf<typeof walletDebited>

const platform = text('the revenue account of a capture: `revenue:scrapes:{platform}`')
const callFields = {
  operation: orAbsent(text('the operation of the platform, e.g. `profile`')),
  requestId: orAbsent(text('the `X-Request-Id` of the call')),
}
const capKeyId = orAbsent(
  id(
    'key',
    'the key whose daily cap counts the call: the first of its rotations; absent without a key, and before 0.2.0',
  ),
)
const heldForFields = {
  platform: orAbsent(platform),
  ...callFields,
  capKeyId,
  depositId: orAbsent(id('dep', 'the deposit whose refund was requested; absent for a call')),
}

/** The purpose of a hold: a call, or the refund of a deposit. */
export type HeldFor = ShapeValue<typeof heldForFields>

const holdFields = {
  holdId: text('the hold: a scrape and its attempt, `scr_….1`, or the id of a refund of a deposit'),
  amountMicros: micros('above 0', 'the reserved amount; a hold ends completely'),
  ...after,
}

export const fundsHeld = defineEvent('FundsHeld', {
  stream,
  means:
    'Money was reserved: for a call that is billed when it succeeds, or for the refund of a deposit to its payer.',
  fields: {
    ...heldForFields,
    ...holdFields,
    keyId: orNull(id('key', 'the key of the request; null without a key')),
    keyCap,
  },
})

export type FundsHeld = EventOf<typeof fundsHeld>

export const holdCaptured = defineEvent('HoldCaptured', {
  stream,
  means: 'The call was billed: the reserved amount is revenue.',
  fields: { platform, ...callFields, capKeyId, ...holdFields },
})

export type HoldCaptured = EventOf<typeof holdCaptured>

export const holdReleased = defineEvent('HoldReleased', {
  stream,
  means:
    'The reserved amount returned to the wallet: the call was not billed, or the refund was booked or not made. A debt is paid first.',
  fields: {
    ...heldForFields,
    ...holdFields,
    debtChangeMicros: orAbsent(
      micros('either sign', "the change of the account's debt: a payment, negative. Absent: none"),
    ),
  },
})

export type HoldReleased = EventOf<typeof holdReleased>

export const ledgerEventDefinitions = [
  walletCredited,
  walletAdjusted,
  walletDebited,
  fundsHeld,
  holdCaptured,
  holdReleased,
  ...customerEventDefinitions,
] as const

export type LedgerEvent = EventOf<(typeof ledgerEventDefinitions)[number]>
