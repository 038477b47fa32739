import type { AccountId, CustomerId, DepositId } from '../../kernel/ids.ts'
import type { DomainEvent } from '../../platform/eventstore/event.ts'
import type { OrderDetails } from '../../terms/order-details.ts'
import type { Provider, Rail } from '../payments/rails.ts'

/** An order that waits for the deposit: the whole of it, as it will be paid. */
export type PendingOrder = { readonly order: OrderDetails }

/** What a deposit is, for ever. Its return address and pay page may name a payer and lie in the vault. */
export type DepositDetails = {
  readonly depositId: DepositId
  /** Whose wallet, or whose customer's credit. */
  readonly accountId: AccountId
  /** Null: the account's own wallet, on the service's gateway. */
  readonly customerId: CustomerId | null
  readonly rail: Rail
  /** What is invoiced, whole cents, raised to the rail's floor. */
  readonly amountCents: number
  readonly gatewayId: string
  readonly provider: Provider
  readonly merchantName: string
  readonly fingerprint: string
  /** The order that it was raised by; null for a deposit of its own. */
  readonly pending: PendingOrder | null
}

/** A `deposit-{id}` stream. Times are ISO 8601 UTC, amounts micro-dollars unless named in cents. */
export type DepositOpened = DomainEvent<'DepositOpened', DepositDetails & { readonly openedAt: string }>

type Named = { readonly depositId: string; readonly accountId: string }

/** The provider made the invoice. */
export type DepositInvoiceCreated = DomainEvent<
  'DepositInvoiceCreated',
  Named & {
    readonly invoiceId: string
    readonly expiresAt: string
    /** Until then the provider still notices late payments. */
    readonly watchUntil: string
  }
>
/** A payment was seen and is not final. */
export type DepositProcessing = DomainEvent<'DepositProcessing', Named>
/** Money arrived for good, in whatever state the deposit is: it is owed to the wallet from here on. */
export type DepositPaymentReceived = DomainEvent<
  'DepositPaymentReceived',
  Named & { readonly paymentId: string; readonly amountMicros: number }
>
/** The wallet has it. */
export type DepositPaymentCredited = DomainEvent<
  'DepositPaymentCredited',
  Named & { readonly paymentId: string; readonly amountMicros: number }
>
/** Closed with money: whole or more (`paid`), or short (`partially_paid`). Said again when more arrives. */
export type DepositSettled = DomainEvent<
  'DepositSettled',
  Named & {
    readonly status: 'paid' | 'partially_paid'
    readonly creditedMicros: number
    readonly settledAt: string
  }
>
/** Closed without money. */
export type DepositExpired = DomainEvent<'DepositExpired', Named & { readonly expiredAt: string }>
export type DepositFailed = DomainEvent<
  'DepositFailed',
  Named & {
    readonly reason: 'payment_failed' | 'no_invoice' | 'gateway_removed'
    readonly failedAt: string
  }
>

export type DepositEvent =
  | DepositOpened
  | DepositInvoiceCreated
  | DepositProcessing
  | DepositPaymentReceived
  | DepositPaymentCredited
  | DepositSettled
  | DepositExpired
  | DepositFailed
