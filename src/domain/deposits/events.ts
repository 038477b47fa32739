import { defineEvent, type EventOf } from '../../kernel/event.ts'
import {
  anyId,
  cents,
  group,
  id,
  integer,
  micros,
  oneOf,
  orNull,
  pastTime,
  type ShapeValue,
  text,
  time,
} from '../../kernel/event-fields.ts'
import type { AccountId, CustomerId, DepositId } from '../../kernel/ids.ts'
import { gatewayChanges, providers, railNames } from '../payments/payments.ts'
import { wholeOrder } from '../shared/order-terms.ts'

const stream = 'deposit-{deposit}'

const pendingFields = { order: wholeOrder }
/** The whole order that waits for the deposit, as it will be paid. */
export type PendingOrder = ShapeValue<typeof pendingFields>

const detailFields = {
  depositId: id<DepositId>('dep', 'the deposit'),
  accountId: id<AccountId>('acc', "whose wallet, or whose customer's credit"),
  customerId: orNull(
    anyId<CustomerId>("the customer who pays; null: the account's own wallet, on the service's gateway"),
  ),
  rail: oneOf(railNames, 'how it is paid'),
  amountCents: cents('above 0', "what is invoiced, raised to the rail's floor"),
  gatewayId: text("whose credentials: the service's gateway, or the reference of a reseller's own, `crd_…`"),
  provider: oneOf(providers, 'who makes the invoice'),
  merchantName: text('what the pay page shows'),
  fingerprint: text('SHA-256 of the request: what a retry must ask for again'),
  pending: orNull(group(pendingFields, 'the order that it was raised by; null for a deposit of its own')),
}
/** The unchanging details of a deposit. Its return address and pay page may name a payer, so they are in the vault. */
export type DepositDetails = ShapeValue<typeof detailFields>

const idFields = {
  depositId: id('dep', 'the deposit'),
  accountId: id('acc', 'whose deposit it is'),
}
const payment = {
  ...idFields,
  paymentId: text("the payment's id at the provider: with the gateway it is credited once"),
  amountMicros: micros('above 0', 'what arrived'),
}

/** A `deposit-{id}` stream. */
export const depositOpened = defineEvent('DepositOpened', {
  stream,
  means: 'Somebody asked for an invoice; nothing was paid.',
  fields: { ...detailFields, openedAt: pastTime('when it was asked for') },
})
export type DepositOpened = EventOf<typeof depositOpened>

export const depositInvoiceCreated = defineEvent('DepositInvoiceCreated', {
  stream,
  means: 'The provider made the invoice.',
  fields: {
    ...idFields,
    invoiceId: text('its id at the provider'),
    expiresAt: time('when it closes unpaid'),
    watchUntil: time('until then the provider still notices late payments'),
  },
})
export type DepositInvoiceCreated = EventOf<typeof depositInvoiceCreated>

export const depositProcessing = defineEvent('DepositProcessing', {
  stream,
  means: 'A payment was seen and is not final.',
  fields: idFields,
})
export type DepositProcessing = EventOf<typeof depositProcessing>

export const depositPaymentReceived = defineEvent('DepositPaymentReceived', {
  stream,
  means:
    'Money arrived for good, in whatever state the deposit is: it is owed to the wallet, or the customer, from here on.',
  fields: payment,
})
export type DepositPaymentReceived = EventOf<typeof depositPaymentReceived>

export const depositPaymentCredited = defineEvent('DepositPaymentCredited', {
  stream,
  means: 'The ledger has the payment: `WalletCredited` or `CustomerCredited` stands before it.',
  fields: payment,
})
export type DepositPaymentCredited = EventOf<typeof depositPaymentCredited>

export const depositSettled = defineEvent('DepositSettled', {
  stream,
  means:
    'Closed with money: whole or more (`paid`), or short (`partially_paid`). Said again when more arrives.',
  fields: {
    ...idFields,
    status: oneOf(['paid', 'partially_paid'], 'whether what was invoiced is there'),
    creditedMicros: micros('0 or more', 'the sum of its payments'),
    settledAt: pastTime('when'),
  },
})
export type DepositSettled = EventOf<typeof depositSettled>

export const depositExpired = defineEvent('DepositExpired', {
  stream,
  means: 'Closed without money: its time was over.',
  fields: { ...idFields, expiredAt: pastTime('when') },
})
export type DepositExpired = EventOf<typeof depositExpired>

export const depositFailed = defineEvent('DepositFailed', {
  stream,
  means: 'Closed without money: it cannot be paid.',
  fields: {
    ...idFields,
    reason: oneOf(['payment_failed', 'no_invoice', 'gateway_removed'], 'why'),
    failedAt: pastTime('when'),
  },
})
export type DepositFailed = EventOf<typeof depositFailed>

const changeNumber = integer('changes', 'above 0', 'counts the changes of the deposit')

export const depositChangeReported = defineEvent('DepositChangeReported', {
  stream,
  means:
    'The provider says something that no other event books, such as a refund: somebody must look at it. It moves no money.',
  fields: {
    ...idFields,
    number: changeNumber,
    change: oneOf(gatewayChanges, 'what happened'),
    reference: text('what it happened to, by its id at the provider: a payment, charge, dispute or invoice'),
    amount: orNull(text('how much, as the provider says it, with its currency; null: it says none')),
  },
})
export type DepositChangeReported = EventOf<typeof depositChangeReported>

export const depositChangeReviewed = defineEvent('DepositChangeReviewed', {
  stream,
  means: 'Somebody looked at a change that the provider reported: it is no longer open.',
  fields: { ...idFields, number: changeNumber, note: text('what was done about it') },
})
export type DepositChangeReviewed = EventOf<typeof depositChangeReviewed>

export const depositEventDefinitions = [
  depositOpened,
  depositInvoiceCreated,
  depositProcessing,
  depositPaymentReceived,
  depositPaymentCredited,
  depositSettled,
  depositExpired,
  depositFailed,
  depositChangeReported,
  depositChangeReviewed,
] as const
export type DepositEvent = EventOf<(typeof depositEventDefinitions)[number]>
