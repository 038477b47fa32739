import { defineEvent, type EventOf } from '../../kernel/event.ts'
import {
  anyId,
  cents,
  flag,
  group,
  id,
  integer,
  micros,
  oneOf,
  orAbsent,
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
  accountId: id<AccountId>('acc', 'the account of the wallet, or of the customer'),
  customerId: orNull(
    anyId<CustomerId>("the customer who pays; null: the account's own wallet, on the service's gateway"),
  ),
  rail: oneOf(railNames, 'the payment method'),
  amountCents: cents('above 0', "the invoiced amount, raised to the rail's minimum"),
  owedCents: orAbsent(
    cents('above 0', 'the debt of the payer at that time: the payment pays it first. Absent: none'),
  ),
  gatewayId: text("the gateway: the service's, or the reference of a reseller's own, `crd_…`"),
  provider: oneOf(providers, 'the provider of the invoice'),
  merchantName: text('the amount on the payment page'),
  fingerprint: text('SHA-256 of the request, which a retry must match'),
  pending: orNull(group(pendingFields, 'the order that opened it; null for a separate deposit')),
}
/** The unchanging details of a deposit. Its return address and pay page may name a payer, so they are in the vault. */
export type DepositDetails = ShapeValue<typeof detailFields>

const idFields = {
  depositId: id('dep', 'the deposit'),
  accountId: id('acc', 'the account of the deposit'),
}
const payment = {
  ...idFields,
  paymentId: text("the payment's id at the provider: with the gateway it is credited once"),
  amountMicros: micros('above 0', 'the received amount'),
}

/** A `deposit-{id}` stream. */
export const depositOpened = defineEvent('DepositOpened', {
  stream,
  means: 'An invoice was requested; nothing was paid.',
  fields: { ...detailFields, openedAt: pastTime('the time of the request') },
})
export type DepositOpened = EventOf<typeof depositOpened>

export const depositInvoiceCreated = defineEvent('DepositInvoiceCreated', {
  stream,
  means: 'The provider created the invoice.',
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
    'A payment is final, in any state of the deposit: the service owes it to the wallet, or to the customer.',
  fields: payment,
})
export type DepositPaymentReceived = EventOf<typeof depositPaymentReceived>

export const depositPaymentCredited = defineEvent('DepositPaymentCredited', {
  stream,
  means: 'The ledger has the payment: `WalletCredited` or `CustomerCredited` precedes this event.',
  fields: {
    ...payment,
    late: orAbsent(
      group(
        {
          customerId: orNull(
            anyId("the customer whose credit has it; null: the account's own wallet has it"),
          ),
          orderId: orNull(id('ord', 'the order of the deposit; null: it has none')),
        },
        'only if the invoice had closed, or its order no longer waited: the payment places no order',
      ),
    ),
  },
})
export type DepositPaymentCredited = EventOf<typeof depositPaymentCredited>

export const depositSettled = defineEvent('DepositSettled', {
  stream,
  means:
    'Closed with money: complete or more (`paid`), or short (`partially_paid`). Appended again when more arrives.',
  fields: {
    ...idFields,
    status: oneOf(['paid', 'partially_paid'], 'whether the invoiced amount was received'),
    creditedMicros: micros('0 or more', 'the sum of its payments'),
    settledAt: pastTime('when'),
  },
})
export type DepositSettled = EventOf<typeof depositSettled>

export const depositExpired = defineEvent('DepositExpired', {
  stream,
  means: 'Closed without money after its time.',
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

export const depositCanceled = defineEvent('DepositCanceled', {
  stream,
  means:
    'Closed without money: its order was paid otherwise, has another invoice, failed or was canceled. A later payment is credited.',
  fields: { ...idFields, canceledAt: pastTime('when') },
})
export type DepositCanceled = EventOf<typeof depositCanceled>

const changeNumber = integer('changes', 'above 0', 'counts the changes of the deposit')

export const depositChangeReported = defineEvent('DepositChangeReported', {
  stream,
  means:
    'The provider reported a change that no other event books, such as a refund: an operator must review it. It moves no money.',
  fields: {
    ...idFields,
    number: changeNumber,
    change: oneOf(gatewayChanges, 'the kind of change'),
    reference: text('the id at the provider of the changed payment, charge, dispute or invoice'),
    amount: orNull(text('the amount and currency as reported by the provider; null: not reported')),
  },
})
export type DepositChangeReported = EventOf<typeof depositChangeReported>

export const depositChangeReviewed = defineEvent('DepositChangeReviewed', {
  stream,
  means: 'A change reported by the provider is no longer open: it was reviewed, or the provider ended it.',
  fields: {
    ...idFields,
    number: changeNumber,
    note: text('the action taken'),
    ended: orAbsent(flag('true: the provider no longer reports it, such as missing money that arrived')),
  },
})
export type DepositChangeReviewed = EventOf<typeof depositChangeReviewed>

const refundFields = { ...idFields, refundId: text('the refund, by its deposit and reason') }

export const depositRefundRequested = defineEvent('DepositRefundRequested', {
  stream,
  means:
    'An operator decided to refund a payment at its provider. The wallet holds the amount (`FundsHeld`), and the provider is called after that.',
  fields: {
    ...refundFields,
    amountCents: cents('above 0', 'the refunded amount'),
    reference: text("the operator's reason: a deposit is refunded once for a reason"),
  },
})
export type DepositRefundRequested = EventOf<typeof depositRefundRequested>

export const depositRefundMade = defineEvent('DepositRefundMade', {
  stream,
  means:
    'The provider made the requested refund. Its movements are booked by its id, as those of a refund in the dashboard.',
  fields: { ...refundFields, providerRefundId: text("the refund's id at the provider") },
})
export type DepositRefundMade = EventOf<typeof depositRefundMade>

export const depositRefundRefused = defineEvent('DepositRefundRefused', {
  stream,
  means:
    'The requested refund was not made, or was canceled, and no money moved. `DepositChangeReported` shows it to operators.',
  fields: {
    ...refundFields,
    code: text(
      "the provider's error code, or `insufficient_balance`: the log lost the hold, and the wallet no longer covers it",
    ),
    providerRefundId: orAbsent(
      text("the refund's id at the provider, which canceled it later; absent: the provider did not make it"),
    ),
  },
})
export type DepositRefundRefused = EventOf<typeof depositRefundRefused>

export const depositEventDefinitions = [
  depositOpened,
  depositInvoiceCreated,
  depositProcessing,
  depositPaymentReceived,
  depositPaymentCredited,
  depositSettled,
  depositExpired,
  depositFailed,
  depositCanceled,
  depositChangeReported,
  depositChangeReviewed,
  depositRefundRequested,
  depositRefundMade,
  depositRefundRefused,
] as const
export type DepositEvent = EventOf<(typeof depositEventDefinitions)[number]>
